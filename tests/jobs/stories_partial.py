"""Hangs of which part was not seen: ranks without a dump, short rings, older snapshots, odd counters."""

from __future__ import annotations

from tests.jobs.builder import Job
from tests.jobs.scenes import data_parallel, grid_step
from tests.jobs.story import story

# ---- ranks without a dump


@story("rank_without_dump", [2], "Ranks 0, 1 and 3 wait in seq 7 of the world group; the file of rank 2 is not there.")
def file_missing() -> Job:
    """V5."""
    return data_parallel(Job(4), 2).dead_process(2).all_reduce()


@story("rank_without_dump", [3, 6], "Six ranks wait; two of eight left no dump, and nothing tells them apart.")
def two_files_missing() -> Job:
    """V5, V9."""
    return data_parallel(Job(8, ahead=2), 2).dead_process(3).no_file(6).all_reduce().all_reduce()


@story("rank_without_dump", [1], "The file of rank 1 ends in the middle: as good as none; the three others wait.")
def file_truncated() -> Job:
    """V5."""
    return data_parallel(Job(4), 2).stop(1).all_reduce().truncated(1)


@story(
    "rank_without_dump",
    [5],
    """Rank 4 waits in a tp group for rank 5, which left no dump; everybody else waits, directly or not, for
    the two.""",
)
def file_missing_in_a_small_group() -> Job:
    """V2, V5: the path ends at an unseen member."""
    return grid_step(grid_step(Job(8).grid(tp=2, dp=4), 2).dead_process(5))


@story(
    "insufficient_evidence",
    [],
    "Three of eight files are there, and these ranks wait. Any of the five others may hold them up.",
)
def most_files_missing() -> Job:
    """V5: more unseen than seen members."""
    return data_parallel(Job(8), 2).stop(6).all_reduce().no_file(3, 4, 5, 6, 7)


@story(
    "rank_without_dump",
    [4, 5, 6, 7],
    "One of two nodes left dumps; its four ranks wait for the four of the other.",
    also=["insufficient_evidence"],
    also_culprits=[[]],
)
def one_node_of_two() -> Job:
    """V5: as many unseen as seen."""
    return data_parallel(Job(8), 2).stop(5).all_reduce().no_file(4, 5, 6, 7)


@story("insufficient_evidence", [], "A single dump of four: rank 1 waits in seq 7.")
def one_file_of_four() -> Job:
    """V5."""
    return data_parallel(Job(4), 2).stop(0).all_reduce().no_file(0, 2, 3)


@story(
    "rank_without_dump",
    [2],
    """gloo: rank 2 died. Its neighbours 1 and 3 got an error, which retired their call; ranks 0 and 4 are still
    in it.""",
    also=["insufficient_evidence"],
    also_culprits=[[]],
)
def dead_peer_on_gloo() -> Job:
    """P9: some retired, some open, one without a dump."""
    job = data_parallel(Job(5, lib="gloo"), 2).dead_process(2)
    return job.all_reduce().error_on(1, 3).stop(1, 3)


# ---- older snapshots


@story(
    "rank_not_joined",
    [3],
    """Rank 3 is idle and the others wait in seq 10. Rank 1's dump was taken three calls earlier; its peers finished
    those with it, so it says nothing about seq 10.""",
)
def older_snapshot_beside_an_idle_rank() -> Job:
    """P4, V5: above its newest entry a rank is unseen, never idle."""
    job = data_parallel(data_parallel(Job(4), 2).dumped_here(1, after=0.0005), 1)
    return job.stop(3).all_reduce()


@story(
    "rank_without_dump",
    [2],
    """Ranks 0, 1 and 3 wait in seq 10; rank 2's dump ends with 6, although its peers finished 9 with it. What it
    did after that is not seen.""",
    also=["insufficient_evidence"],
    also_culprits=[[]],
)
def older_snapshot_and_nobody_else() -> Job:
    """P4, V5: a holder only if no seen root exists."""
    job = data_parallel(data_parallel(Job(4), 2).dumped_here(2, after=0.0005), 1)
    return job.all_reduce().never_finishes()


@story(
    "rank_not_joined",
    [1],
    """Two dumps of rank 1: an older one with open entries, and the newest, in which it is idle.""",
)
def two_files_of_the_idle_rank() -> Job:
    """P4: the newest entries win."""
    job = data_parallel(Job(4), 1).copied_here(1, "before/comm_lib_trace_rank_1")
    return data_parallel(job, 2).stop(1).all_reduce()


@story(
    "rank_not_joined",
    [2],
    """Rank 2's recorder was emptied after its last call: no entries, but pg_status still says 6, and the others
    wait in 7.""",
    also=["insufficient_evidence"],
    also_culprits=[[]],
)
def recorder_reset_on_the_idle_rank() -> Job:
    """P5, P10."""
    return data_parallel(Job(4), 2).recorder_reset(2).stop(2).all_reduce()


# ---- short rings


@story(
    "rank_not_joined",
    [3],
    """Hosts ran twelve calls ahead and the rings hold six: ranks 0-2 show open entries only. pg_status says that
    they completed 6, which is all that rank 3 ever entered.""",
)
def short_rings_with_pg_status() -> Job:
    """P3, P7: last_completed + 1 is the blocking point."""
    return data_parallel(data_parallel(Job(4, ahead=12), 2).stop(3), 5).ring(6)


@story(
    "rank_not_joined",
    [3],
    """The same without pg_status. Where ranks 0-2 block is lost, but rank 3 entered none of what they have open,
    and waits for nothing.""",
    also=["insufficient_evidence"],
    also_culprits=[[]],
)
def short_rings_without_pg_status() -> Job:
    """P3, P7."""
    return data_parallel(data_parallel(Job(4, version="2.1", ahead=12), 2).stop(3), 5).ring(6)


@story(
    "insufficient_evidence",
    [],
    """All rings hold open entries only, the same ones, and no pg_status: the call that blocks is not among them.""",
    also=["all_joined_none_finished"],
)
def short_rings_all_open() -> Job:
    """P3, P7: the oldest entry is open on every rank."""
    job = data_parallel(Job(4, version="2.1", ahead=12), 2).all_reduce().never_finishes()
    return data_parallel(job, 4).ring(5)


@story(
    "all_joined_none_finished",
    [],
    """Rank 1's ring holds three entries, all open; seq 7, where its peers block, is not among them. Its pg_status
    says that it completed 6, so the numbers its ring lacks are unknown, not finished.""",
    also=["insufficient_evidence"],
)
def short_ring_that_looks_like_only_active() -> Job:
    """P3: last_completed below an absent number, and peers have it open."""
    job = data_parallel(Job(4, ahead=10), 2).all_reduce().never_finishes()
    return data_parallel(job, 3).ring(3, 1)


@story(
    "stuck_on_device",
    [2],
    """Only active entries with gaps in their record ids: rank 2 holds seq 9 open, which the others, who are in 10,
    no longer show.""",
)
def active_entries_with_gaps() -> Job:
    """P3: an absent number at or below the last enqueued one is finished, and feeds the peak."""
    job = data_parallel(Job(4, ahead=3).records_before(500), 2).all_reduce().all_reduce()
    return job.all_reduce().stuck_on(2).all_reduce().all_reduce().all_reduce().only_active()
