"""Jobs without a fault whose rings, snapshots and files show less than all of it. All must be silent."""

from __future__ import annotations

from tests.jobs.builder import Job
from tests.jobs.scenes import data_parallel, grid_step, one_forward_one_backward
from tests.jobs.story import story


@story(
    "no_fault",
    [],
    """Only active entries were dumped and there are none; pg_status says the same last collective
    was enqueued and completed everywhere.""",
    also=["insufficient_evidence"],
)
def healthy_only_active() -> Job:
    """P3, P10 silent."""
    return data_parallel(Job(4), 4).only_active()


@story(
    "no_fault",
    [],
    """Only active entries were dumped: what is left are inner entries of batches, whose finished
    closers were filtered out.""",
)
def healthy_only_active_batches() -> Job:
    """P2, P3 silent: last_completed is not below them."""
    job = Job(4).group("pp", range(4)).all_reduce()
    return one_forward_one_backward(job, range(4), 3).all_reduce().only_active()


@story("no_fault", [], "The ring holds twenty entries, and ranks 2 and 3 spend half of it on a group of their own.")
def healthy_wrapped_rings() -> Job:
    """P7 silent: a sequence number below a ring's horizon is unknown, not absent."""
    job = Job(4).group("node", [2, 3]).already(900).records_before(900, 0, 1).records_before(1400, 2, 3)
    for _ in range(30):
        job.all_reduce().all_reduce("node", [8])
    return job.ring(20)


@story("no_fault", [], "Rank 1 was started with a ring of four entries, the others with many.")
def healthy_one_small_ring() -> Job:
    """P7 silent."""
    return grid_step(Job(4).grid(tp=2, dp=2), 6).ring(4, 1)


@story("no_fault", [], "Record ids of rank 3 are forty higher because of older work of its own.")
def healthy_record_ids_apart() -> Job:
    """P7 silent: record ids of different ranks are not comparable."""
    return data_parallel(Job(4).records_before(40, 3), 4)


@story("no_fault", [], "The recorder of rank 1 was emptied in the middle: its record ids start at 0 again.")
def healthy_recorder_reset() -> Job:
    """P7, P10 silent."""
    return data_parallel(data_parallel(Job(4), 2).recorder_reset(1), 2)


@story("no_fault", [], "The recorders of all ranks were emptied at different times.")
def healthy_recorders_reset_apart() -> Job:
    """P7 silent."""
    job = data_parallel(Job(3), 1).recorder_reset(0)
    job = data_parallel(job, 1).recorder_reset(1)
    return data_parallel(job, 1)


@story(
    "no_fault",
    [],
    """Rank 2 shows the last all_reduce as pending, its peers as finished. It cannot finish anywhere
    without rank 2, and nobody waits for anything: rank 2's recorder had only not looked yet.""",
)
def healthy_last_operation_unnoticed() -> Job:
    """V6, P4 silent."""
    return data_parallel(Job(4), 3).unnoticed(2)


@story(
    "no_fault",
    [],
    """Three of four recorders had not looked at the last all_reduce yet; the fourth saw it finished,
    so everybody had entered it.""",
    also=["insufficient_evidence"],
)
def healthy_last_operation_noticed_by_one() -> Job:
    """V6, P4 silent: what one member finished is over for everyone."""
    return data_parallel(Job(4), 3).unnoticed(0).unnoticed(1).unnoticed(3)


@story(
    "no_fault",
    [],
    "The last two collectives of rank 1 are not seen as finished yet; nobody waits behind them.",
    also=["insufficient_evidence"],
)
def healthy_two_operations_unnoticed() -> Job:
    """V6, P4 silent: stuck_on_device needs somebody who waits."""
    return data_parallel(Job(4, ahead=3), 3).unnoticed(1, 2)


@story(
    "no_fault",
    [],
    """Rank 3's dump was taken three collectives before the others': all it shows is finished, and what
    it lacks was finished by its peers, so it took part.""",
    also=["insufficient_evidence"],
)
def healthy_older_snapshot() -> Job:
    """P4 silent: a dump that lacks a finished synchronising op is an older snapshot."""
    return data_parallel(data_parallel(Job(4), 2).dumped_here(3, after=0.0005), 1)


@story(
    "no_fault",
    [],
    "Rank 3's dump was taken while an all_reduce was on its way; its peers finished that and three more.",
    also=["insufficient_evidence"],
)
def healthy_older_snapshot_in_flight() -> Job:
    """P4 silent."""
    return data_parallel(data_parallel(Job(4), 2).dumped_here(3), 1)


@story("no_fault", [], "The file of rank 2 is missing, but nothing is open anywhere: a gap, not a fault.")
def healthy_file_missing() -> Job:
    """V5 silent: an unseen rank holds up nobody."""
    return data_parallel(Job(4), 3).no_file(2)


@story("no_fault", [], "gloo: the file of rank 1 is missing, and everything is retired on the three others.")
def healthy_gloo_file_missing() -> Job:
    """P9 silent: nothing is open beside what is retired."""
    return data_parallel(Job(4, lib="gloo"), 3).no_file(1)


@story("no_fault", [], "The file of rank 0 is cut off; nothing is open anywhere else.")
def healthy_file_truncated() -> Job:
    """V5 silent."""
    return data_parallel(Job(4), 3).truncated(0)


@story("no_fault", [], "Two dumps of rank 1 lie there: an older one with an open entry, and the newest, complete.")
def healthy_two_files_of_one_rank() -> Job:
    """P4 silent: the newest entries win."""
    job = data_parallel(Job(3), 1).copied_here(1, "earlier/comm_lib_trace_rank_1")
    return data_parallel(job, 2)


@story(
    "no_fault", [], "File names hold a host name before the rank; a log, a core file and an empty file lie beside them."
)
def healthy_foreign_files() -> Job:
    """P1 silent."""
    job = grid_step(Job(4).grid(tp=2, dp=2), 2).file_names("nccl_trace_rank_container-node02_{rank}")
    return (
        job.extra_file("job.log", "started\n")
        .extra_file("core.1", b"\x7fELF\x02\x01\x01\x00")
        .extra_file("empty_7", b"")
    )


@story(
    "no_fault",
    [],
    "The broadcast of the last step is finished on its root and not yet seen as finished on one other.",
    also=["stuck_on_device", "insufficient_evidence"],
    also_culprits=[[2]],
)
def healthy_one_way_unnoticed() -> Job:
    """L2, V6 silent: nobody waits behind it."""
    return data_parallel(Job(4), 2).broadcast(root=0).unnoticed(2)
