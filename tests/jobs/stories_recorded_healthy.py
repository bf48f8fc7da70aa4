"""Jobs without a fault, as recorders and files show them: formats, rings, snapshots, gaps. All must be silent."""

from __future__ import annotations

from tests.jobs.builder import Job, recv_from, send_to
from tests.jobs.scenes import data_parallel, sharded
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
