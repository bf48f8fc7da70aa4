"""Jobs that were asked while they ran. The truth needs the times of the dumps (`Job.dump_times()`)."""

from __future__ import annotations

from tests.jobs.builder import Job
from tests.jobs.scenes import data_parallel
from tests.jobs.story import live_story


@live_story("no_fault", [], "All ranks are in the middle of a step; the oldest open entry is some milliseconds old.")
def live_step_in_flight() -> Job:
    """V10 silent."""
    return data_parallel(Job(4, ahead=2), 8).dumped_after(0.01)


@live_story("no_fault", [], "Rank 2 comes some milliseconds later than the others, who wait for it.")
def live_rank_between_calls() -> Job:
    """V10 silent."""
    return data_parallel(data_parallel(Job(4), 2).pause(2, 0.05), 4).dumped_after(0.03)


@live_story("no_fault", [], "The ranks were asked some milliseconds apart, so that they show different steps.")
def live_dumps_apart() -> Job:
    """V10, P4 silent."""
    job = data_parallel(Job(4, ahead=2), 10)
    for rank in range(4):
        job.dumped_after(0.012 + 0.003 * rank, rank)
    return job


@live_story("no_fault", [], "Rank 1 has loaded data for 3 s: less than the 10 s below which nothing is a hang.")
def live_loading_data() -> Job:
    """V10 silent."""
    return data_parallel(data_parallel(Job(4), 2).pause(1, 5), 2).dumped_after(3)


@live_story("no_fault", [], "Every step takes a minute; this one has taken 40 s.")
def live_slow_steps() -> Job:
    """V10 silent: the longest interval between collectives seen."""
    job = Job(3)
    for _ in range(4):
        for rank in range(3):
            job.pause(rank, 60)
        job.all_reduce()
    for rank in range(3):
        job.pause(rank, 60 if rank else 20)
    return job.all_reduce().dumped_after(60 * 4 + 58)


@live_story("rank_not_joined", [2], "Rank 2 stopped; the others have waited for five minutes when they are asked.")
def live_hang() -> Job:
    """V10, V4."""
    return data_parallel(Job(4), 4).stop(2).all_reduce().dumped_after(300)


@live_story("all_joined_none_finished", [], "All are in the same call and have been for five minutes.")
def live_all_joined() -> Job:
    """V10, V1."""
    return data_parallel(Job(4), 4).all_reduce().never_finishes().dumped_after(300)
