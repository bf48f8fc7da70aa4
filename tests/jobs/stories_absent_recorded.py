"""Ranks that never came, in dumps of other formats, libraries and completeness."""

from __future__ import annotations

from tests.jobs.builder import Job
from tests.jobs.scenes import data_parallel, grid_step, sharded
from tests.jobs.story import story


@story("rank_not_joined", [2], "JSON dumps without stacks: rank 2 is idle, the others wait.")
def absent_in_json() -> Job:
    """P6, V4."""
    return data_parallel(sharded(Job(4, ahead=5), 2).stop(2), 1).as_json()


@story("rank_not_joined", [2], "PyTorch 2.2 dumps: rank 2 has five entries, the others wait in the sixth.")
def absent_in_format_list() -> Job:
    """P1, V7: members are inferred from earlier use, and rank 2 used the group."""
    job = Job(4, version="list")
    for _ in range(5):
        job.all_reduce()
    return job.stop(2).all_reduce()


@story("rank_not_joined", [3], "PyTorch 2.3 dumps of a grid job: rank 3 is idle, its tp peer waits, the rest behind.")
def absent_in_format_1_4() -> Job:
    """P1, V2."""
    return grid_step(grid_step(Job(4, version="1.4").grid(tp=2, dp=2), 2).stop(3))


@story("rank_not_joined", [2], "Ranks dumped in three versions; rank 2 (2.4) is idle, the others wait.")
def absent_in_mixed_versions() -> Job:
    """V4."""
    return data_parallel(data_parallel(Job(4), 2).stop(2), 1).version("2.9", 0, 3).version("2.4", 2)


@story(
    "rank_not_joined", [2], "gloo: rank 2 has one barrier less and nothing open; on the others the last is not retired."
)
def absent_in_gloo() -> Job:
    """P6, V4."""
    return Job(4, lib="gloo").all_reduce().barrier().barrier().stop(2).barrier()


@story(
    "rank_not_joined",
    [2],
    """gloo without members in pg_config: rank 3 waits in a tp call, ranks 0 and 1 in the world's
    barrier; rank 2 used that tp group before and is idle.""",
)
def absent_in_gloo_grid() -> Job:
    """P1, V7: inferred members, and a difference between users."""
    job = Job(4, lib="gloo").group("tp", [0, 1]).group("tp", [2, 3])
    for _ in range(3):
        job.all_reduce("tp").barrier()
    return job.stop(2).all_reduce("tp").barrier()


@story(
    "rank_not_joined",
    [1],
    """gloo: rank 1 is idle while the others wait in a barrier. Its op_id runs ahead of its
    sequence number, so it may also sit in a receive that gloo does not record.""",
    also=["insufficient_evidence"],
    also_culprits=[[]],
)
def absent_or_in_an_unrecorded_receive() -> Job:
    """P10: on gloo an idle rank is not always idle."""
    job = Job(3, lib="gloo").all_reduce()
    for _ in range(2):
        job.transfer(0, 1).barrier()
    return job.recv(1, 0).barrier()


@story("rank_not_joined", [2], "Another library name (nccl2): rank 2 has one collective less.")
def absent_in_nccl2() -> Job:
    """V4."""
    return Job(4, lib="nccl2").all_reduce().stop(2).all_reduce()


@story(
    "rank_not_joined",
    [2],
    """torchcomms counts over all groups of a process. Counted within the default group, rank 2
    has one collective less than the others, who wait in it.""",
)
def absent_in_torchcomms() -> Job:
    """P8: count within the group where all rings start at record 0."""
    job = Job(4, lib="torchcomms").group("tp", [0, 1]).group("tp", [2, 3]).all_reduce()
    job.all_reduce("tp", of=0).all_reduce("tp", of=0).all_reduce("tp", of=2).all_gather()
    return job.stop(2).all_gather()


@story(
    "rank_not_joined",
    [1],
    """Rings of twelve entries have long wrapped, at different record ids; rank 1 is one
    collective behind and idle.""",
)
def absent_with_wrapped_rings() -> Job:
    """P7."""
    job = data_parallel(Job(4).already(3000).records_before(3000).records_before(4400, 1), 8)
    return job.stop(1).all_reduce().ring(12)


@story(
    "rank_not_joined",
    [3],
    """Two ranks arrived at a barrier; rank 3 is idle, and rank 1's last operation before it is not
    seen as finished yet, although rank 1 went on to the barrier.""",
)
def absent_beside_an_unnoticed_operation() -> Job:
    """V6: one unnoticed op is nothing while another finding explains the wait."""
    return data_parallel(Job(4, ahead=2), 2).stop(3).barrier().unnoticed(1)


@story("rank_not_joined", [2], "Rank 2 is idle; the file of rank 3 is missing, but a seen rank explains the wait.")
def absent_beside_a_missing_file() -> Job:
    """V5: seen beats unseen."""
    return data_parallel(data_parallel(Job(4), 2).stop(2), 1).no_file(3)


@story(
    "rank_not_joined",
    [4],
    """A first collective of the tp group {4, 5} waits on rank 5; rank 4 never used that group, but
    rank 5's pg_config names it as a member, and rank 4 is idle.""",
)
def absent_from_a_group_never_used() -> Job:
    """P1: recorded membership counts also for ranks that have no entry of the group."""
    job = Job(6).eagerly_initialised().group("tp", [0, 1]).group("tp", [2, 3]).group("tp", [4, 5])
    return data_parallel(job, 1).stop(4).all_reduce("tp").all_reduce()


@story(
    "rank_not_joined",
    [1],
    """Two groups share the name 8f3a1c. In the half {0, 1} rank 1 is missing; the half {2, 3} has
    used as many numbers and only waits in the world group.""",
)
def absent_in_one_of_two_groups_of_a_name() -> Job:
    """P1: the key of a group is (name, ranks)."""
    job = Job(4).group("half", [0, 1], name="8f3a1c").group("half", [2, 3], name="8f3a1c")
    for _ in range(3):
        job.all_reduce("half").all_reduce()
    return job.stop(1).all_reduce("half").all_reduce()
