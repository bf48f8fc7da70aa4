"""Jobs without a fault, as recorders and files show them: formats, rings, snapshots, gaps. All must be silent."""

from __future__ import annotations

from tests.jobs.builder import Job, recv_from, send_to
from tests.jobs.scenes import data_parallel, grid_step, one_forward_one_backward, sharded
from tests.jobs.story import story


def _everything(version: str = "2.10") -> Job:
    """A finished job of collectives, transfers and coalesced calls in three groups."""
    job = Job(4, version=version).group("tp", [0, 1]).group("tp", [2, 3]).all_reduce()
    for _ in range(2):
        job.all_reduce("tp", [64]).all_gather().reduce_scatter().broadcast(root=1)
        job.batch(0, send_to(1), recv_from(1), group="tp").batch(1, send_to(0), recv_from(0), group="tp")
    return job.barrier()


@story("no_fault", [], "PyTorch 2.2: a bare list of entries without record ids, groups or times in nanoseconds.")
def healthy_format_list() -> Job:
    """P1, P6 silent: members are inferred from those that use pg_id 0."""
    return data_parallel(Job(4, version="list"), 4)


@story("no_fault", [], "PyTorch 2.3: groups have no names, pg_config is keyed by pg_id.")
def healthy_format_1_4() -> Job:
    """P1 silent."""
    return _everything(version="1.4")


@story("no_fault", [], "PyTorch 2.4: neither pg_status nor timeouts.")
def healthy_format_2_1() -> Job:
    """P1, P5, V8 silent."""
    return _everything(version="2.1")


@story("no_fault", [], "PyTorch 2.5 to 2.7 without inner entries of coalesced collectives.")
def healthy_format_2_4() -> Job:
    """P2 silent."""
    return _everything(version="2.4").all_gather_uneven([3, 4, 5, 6])


@story("no_fault", [], "PyTorch 2.7 with inner entries of coalesced collectives, which still calls itself 2.4.")
def healthy_format_2_4_with_parts() -> Job:
    """P2 silent."""
    return _everything(version="2.4").all_gather_uneven([3, 4, 5, 6]).parts_recorded(True)


@story("no_fault", [], "Rank 2 runs another release of PyTorch than the others; everything finished.")
def healthy_mixed_versions() -> Job:
    """P1 silent."""
    return _everything().version("2.9", 2).version("2.4", 3)


@story("no_fault", [], "JSON dumps: no stacks, 0 for unknown times, numbers as strings.")
def healthy_json() -> Job:
    """P6 silent."""
    return _everything().as_json()


@story("no_fault", [], "Half of the ranks dumped JSON, half pickles.")
def healthy_json_and_pickle() -> Job:
    """P6 silent."""
    return _everything().as_json(0, 3)


@story("no_fault", [], "Timing was on: started states and durations.")
def healthy_with_timing() -> Job:
    """P6 silent."""
    return _everything().with_timing()


@story(
    "no_fault", [], "gloo: the state is always scheduled, only retired tells that it is over; pg_config has no members."
)
def healthy_gloo() -> Job:
    """P6 silent."""
    job = Job(4, lib="gloo").group("tp", [0, 1]).group("tp", [2, 3])
    for _ in range(3):
        job.all_reduce("tp").all_gather("tp").reduce_scatter().gather(root=1).scatter(root=2).barrier()
    return job


@story("no_fault", [], "gloo with the default group only: pg_config names its members under an empty name.")
def healthy_gloo_default_group() -> Job:
    """P1, P6 silent."""
    return data_parallel(Job(3, lib="gloo"), 3).barrier()


@story("no_fault", [], "gloo does not record transfers; op_id skips the numbers they took.")
def healthy_gloo_with_transfers() -> Job:
    """P10 silent."""
    job = Job(3, lib="gloo").all_reduce()
    for _ in range(3):
        job.transfer(0, 1).transfer(1, 2).all_reduce()
    return job


@story(
    "no_fault", [], "gloo: everything finished, then somebody raised; every entry is retired, as it would be anyway."
)
def healthy_gloo_after_exception() -> Job:
    """P4 silent."""
    return data_parallel(Job(4, lib="gloo"), 2).dumped_after_exception(1)


@story(
    "no_fault",
    [],
    """torchcomms: one counter for all groups of a process, so that ranks 0 and 2 carry different
    numbers for the same collective.""",
)
def healthy_torchcomms() -> Job:
    """P8 silent: counted within each group, because all rings start at record 0."""
    job = Job(4, lib="torchcomms").group("tp", [0, 1]).group("tp", [2, 3]).all_reduce()
    for _ in range(3):
        job.all_reduce("tp", of=0).all_reduce("tp", of=0).all_reduce("tp", of=2).all_gather()
    return job.all_to_all().barrier()


@story("no_fault", [], """torchcomms records sends and receives without their peers; all of them are finished.""")
def healthy_torchcomms_transfers() -> Job:
    """P8, L6 silent."""
    job = Job(2, lib="torchcomms").all_reduce()
    for _ in range(3):
        job.transfer(0, 1).all_reduce()
    return job


@story("no_fault", [], "Another library name (nccl2); everything finished.")
def healthy_nccl2() -> Job:
    """L1 silent: the name of the library is not part of the operation."""
    return sharded(Job(4, lib="nccl2"), 3)


@story(
    "no_fault",
    [],
    """XCCL records no closing entry of a batch: the inner entries stay scheduled for ever, yet later
    operations of the same ranks have finished.""",
    also=["insufficient_evidence"],
)
def healthy_xccl_batches() -> Job:
    """P2 silent: inner entries without a closer are finished, unless they are the newest batch."""
    job = Job(2, lib="xccl").all_reduce()
    for _ in range(3):
        job.batch(0, send_to(1), recv_from(1)).batch(1, send_to(0), recv_from(0)).all_reduce()
    return job


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
