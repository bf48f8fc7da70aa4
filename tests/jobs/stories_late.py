"""Ranks that came too late, and clocks that only make it look so."""

from __future__ import annotations

from tests.jobs.builder import Job
from tests.jobs.scenes import data_parallel, grid_step
from tests.jobs.story import story


@story("late_arrival", [1], "With a timeout of 60 s rank 1 came 95 s after the three others; it is pending on all.")
def late_one_of_four() -> Job:
    """V8."""
    return data_parallel(Job(4).timeout(60), 3).all_reduce().late(1, 95).never_finishes()


@story("late_arrival", [0], "Rank 0 prepared data for 35 minutes while seven ranks waited 30.")
def late_first_rank_prepares_data() -> Job:
    """V8."""
    return (
        data_parallel(Job(8).timeout(1800), 1).barrier(at="data.py:12 in wait_for_cache").late(0, 2100).never_finishes()
    )


@story("late_arrival", [2, 6], "Two of eight ranks came 80 and 95 s late.")
def late_two_of_eight() -> Job:
    """V8."""
    return data_parallel(Job(8).timeout(60), 2).all_reduce().late(2, 80).late(6, 95).never_finishes()


@story("late_arrival", [3], "Rank 3 came late to its tp group of four; dp groups wait behind.")
def late_in_a_subgroup() -> Job:
    """V8, V2."""
    job = grid_step(Job(8, ahead=2).timeout(60).grid(tp=4, dp=2), 2).all_reduce("tp", of=4)
    return job.all_reduce("tp", of=0).late(3, 200).never_finishes().all_reduce("dp")


@story(
    "late_arrival",
    [1],
    """The clock of rank 1's host is 300 s behind, so that it seems to come first. All collectives before show
    the offset: it came 95 s after the others.""",
)
def late_behind_a_clock_offset() -> Job:
    """V8: the median offset is subtracted."""
    return data_parallel(Job(4).timeout(60), 3).all_reduce().late(1, 95).never_finishes().clock_off(-300, 1)


@story(
    "late_arrival", [2], "A dp group is used for the first time; the offset of clocks is known from the world group."
)
def late_in_a_group_used_first() -> Job:
    """V8: synchronising ops shared before, in any group."""
    job = data_parallel(Job(4).timeout(60).group("dp", [0, 1, 2]), 3)
    return job.all_reduce("dp").late(2, 95).never_finishes().clock_off(40, 2)


@story(
    "late_arrival",
    [1, 2, 3],
    """Rank 0 came 95 s before the three others: they are late, unless it was early.""",
    also=["all_joined_none_finished"],
    also_culprits=[[0], []],
)
def late_all_but_one() -> Job:
    """V8: not all members may be late."""
    job = data_parallel(Job(4).timeout(60), 2).all_reduce()
    return job.late(1, 95).late(2, 95).late(3, 95).never_finishes()


@story("late_arrival", [2], "PyTorch 2.4 dumps record no timeout; rank 2 came 700 s late, more than the usual 600.")
def late_without_a_timeout_recorded() -> Job:
    """V8: 600 s where no timeout is recorded."""
    return data_parallel(Job(4, version="2.1"), 3).all_reduce().late(2, 700).never_finishes()


@story(
    "late_arrival",
    [2],
    """Rank 2 came 95 s late with a timeout of 60 s; the file of rank 3 is missing. The late rank is seen and
    explains the timeout.""",
    also=["rank_without_dump"],
    also_culprits=[[3]],
)
def late_beside_a_missing_file() -> Job:
    """V5: late_arrival is checked before the unseen."""
    return data_parallel(Job(4).timeout(60), 3).all_reduce().late(2, 95).never_finishes().no_file(3)


@story(
    "all_joined_none_finished",
    [],
    "Rank 1 came 95 s late, well inside the timeout of 600 s; all joined, none finished.",
)
def late_but_in_time() -> Job:
    """V8 silent."""
    return data_parallel(Job(4), 3).all_reduce().late(1, 95).never_finishes()


@story(
    "all_joined_none_finished",
    [],
    "Rank 1's clock is 300 s ahead, in every collective before as in this one: nobody was late.",
)
def clock_offset_is_not_late() -> Job:
    """V8 silent."""
    return data_parallel(Job(4).timeout(60), 3).all_reduce().never_finishes().clock_off(300, 1)


@story(
    "all_joined_none_finished",
    [],
    """The first collective of the job is pending on all; rank 1 shows a time 95 s later. Without anything
    before, that may be its clock.""",
    also=["late_arrival"],
    also_culprits=[[1]],
)
def late_or_clock_offset() -> Job:
    """V8: without an offset lateness is only a warning."""
    return Job(4).timeout(60).all_reduce().late(1, 95).never_finishes()


@story("all_joined_none_finished", [], "PyTorch 2.4 dumps record no timeout; 95 s are less than the usual 600.")
def late_but_no_timeout_recorded() -> Job:
    """V8 silent."""
    return data_parallel(Job(4, version="2.1"), 3).all_reduce().late(2, 95).never_finishes()
