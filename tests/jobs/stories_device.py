"""Everybody came: a device that does not finish, a network that does not deliver, operations with a root."""

from __future__ import annotations

from tests.jobs.builder import Job
from tests.jobs.scenes import data_parallel, grid_step, sharded
from tests.jobs.story import story

# ---- stuck on the device


@story(
    "stuck_on_device",
    [3],
    """Seq 7 finished on ranks 0-2 and is pending on rank 3; the others are in seq 8 and 9, which wait for rank 3;
    it has room for one more call and never entered 9.""",
)
def stuck_one_of_four() -> Job:
    """P4, V2: a peer has finished that event, so rank 3 waits for nobody."""
    return data_parallel(Job(4, ahead=2), 2).all_reduce().stuck_on(3).all_reduce().all_reduce()


@story(
    "stuck_on_device",
    [4, 6],
    """Only active entries: what ranks 4 and 6 still show as open is finished on the six others, who
    wait two calls later.""",
)
def stuck_two_of_eight_only_active() -> Job:
    """P3, P4: an absent number at or below the last enqueued one is finished."""
    job = sharded(Job(8, ahead=4).records_before(7000), 3).all_gather(n=512).stuck_on(4, 6)
    return sharded(job.all_gather(n=1024).reduce_scatter(n=1024), 1).only_active()


@story(
    "stuck_on_device",
    [2],
    """Rank 2 is pending in seq 7, which its peers finished, and its host waits there: it never entered
    seq 8, where the others are.""",
    also=["rank_not_joined"],
)
def stuck_and_the_host_waits() -> Job:
    """V6: one op open here and finished on peers counts where the next one is not entered."""
    return data_parallel(Job(4), 2).all_reduce().stuck_on(2).all_reduce()


@story(
    "stuck_on_device",
    [5],
    "In the tp group {4, 5} rank 5 does not finish what rank 4 finished; dp groups and the world wait.",
)
def stuck_in_a_small_group() -> Job:
    """V1, V2, P4."""
    job = grid_step(Job(8, ahead=3).grid(tp=2, dp=4), 2).all_reduce("tp").all_reduce("tp").stuck_on(5)
    return grid_step(job.all_reduce("dp", [8192]).all_reduce(shape=[1]))


@story(
    "stuck_on_device",
    [1],
    "With timing: rank 1's kernel has started and does not end; what is behind it has not started.",
)
def stuck_with_timing() -> Job:
    """P6: started exists only with timing."""
    return (
        data_parallel(Job(3, ahead=3).with_timing(), 2).all_reduce().stuck_on(1).all_reduce().all_reduce().all_reduce()
    )


@story(
    "stuck_on_device",
    [0],
    "JSON dumps without stacks, and the file of rank 2 is missing: a seen culprit explains the wait.",
)
def stuck_in_json_with_a_file_missing() -> Job:
    """P4, V5."""
    job = data_parallel(Job(4, ahead=2), 2).all_reduce().stuck_on(0).all_reduce().all_reduce()
    return job.no_file(2).as_json()


@story(
    "stuck_on_device",
    [3],
    """Rank 3 shows seq 6 and 7 as open and never entered 8. Its peers finished both, so 6 is over for it
    too; the newest one, or its host after it, is what holds the others.""",
    also=["rank_not_joined"],
)
def stuck_only_in_the_newest() -> Job:
    """P4, V6: only the newest finished op can be stuck; two unnoticed ops count."""
    return data_parallel(Job(4, ahead=3), 2).all_reduce().stop(3).all_reduce().unnoticed(3, 2)


@story(
    "stuck_on_device",
    [3],
    "The send of 0 -> 3 finished, the receive did not; all wait behind rank 3.",
    also=["p2p_unmatched", "insufficient_evidence"],
    also_culprits=[[0, 3], []],
)
def stuck_in_a_receive() -> Job:
    """L6, V2."""
    job = Job(4)
    for _ in range(3):
        job.all_reduce().transfer(0, 3)
    return job.all_reduce().transfer(0, 3).stuck_on(3).all_reduce()


@story(
    "stuck_on_device",
    [1, 2, 3],
    """Rank 0 alone saw seq 7 finish and went on to 8; the three others are pending in 7. A finished
    all_reduce has been entered by all, so they wait for nobody.""",
    also=["insufficient_evidence"],
    also_culprits=[[]],
)
def stuck_on_all_but_one() -> Job:
    """P4, V6."""
    return data_parallel(Job(4), 2).all_reduce().stuck_on(1, 2, 3).all_reduce()


# ---- operations with a root


@story(
    "stuck_on_device",
    [2],
    "A broadcast is finished on all but rank 2, which entered it; the others wait in the next all_reduce.",
)
def stuck_in_a_broadcast() -> Job:
    """L2: one member left while all others finished, as a warning."""
    return data_parallel(Job(4), 2).broadcast(root=0).stuck_on(2).all_reduce()


@story("stuck_on_device", [1], "A reduce is finished on all but its root, rank 1, though all had come.")
def stuck_in_a_reduce() -> Job:
    """L2."""
    return data_parallel(Job(4), 2).reduce(root=1).stuck_on(1).all_reduce()


@story(
    "insufficient_evidence",
    [],
    """A broadcast is finished on two ranks and pending on three; all entered it. Some finish a broadcast
    early by design, so it may be the root, one of the three, or the network.""",
)
def broadcast_left_on_several() -> Job:
    """L2: several left and nobody absent."""
    return data_parallel(Job(5), 2).broadcast(root=0).stuck_on(2, 3, 4).all_reduce()


@story(
    "rank_not_joined",
    [3],
    """Two ranks finished a scatter, rank 2 is pending in it, rank 3 never came and is idle.""",
    also_culprits=[[2, 3]],
)
def scatter_left_and_one_absent() -> Job:
    """L2, V4."""
    return data_parallel(Job(4), 2).stop(3).scatter(root=0).stuck_on(2).all_reduce()


# ---- all joined


@story(
    "all_joined_none_finished", [], "All four ranks issued all_reduce 7 with equal arguments and none saw it finish."
)
def all_joined() -> Job:
    """V1, V9."""
    return data_parallel(Job(4), 2).all_reduce().never_finishes()


@story(
    "all_joined_none_finished",
    [],
    """The hosts had issued four more calls; the oldest open one is the same everywhere, with equal
    arguments.""",
)
def all_joined_hosts_ahead() -> Job:
    """P7: the smallest open entry of a rank is its blocking point."""
    return sharded(sharded(Job(8, ahead=5), 2).reduce_scatter().never_finishes(), 1)


@story(
    "all_joined_none_finished",
    [],
    "Both members of a tp group are in it and it does not finish; six ranks wait behind them.",
)
def all_joined_in_a_small_group() -> Job:
    """V1, V2."""
    job = grid_step(Job(8).grid(tp=2, dp=4), 2).all_reduce("tp", of=0).all_reduce("tp", of=4).all_reduce("tp", of=6)
    job.all_reduce("tp", of=2).never_finishes()
    return job.all_reduce("dp", [8192]).all_reduce(shape=[1])


@story("all_joined_none_finished", [], "With timing: started on all ranks, finished on none.")
def all_joined_with_timing() -> Job:
    """P6."""
    return data_parallel(Job(4).with_timing(), 2).all_gather().never_finishes()


@story(
    "all_joined_none_finished",
    [],
    "The watchdogs took the pending all_reduce off their lists: retired, but not completed.",
)
def all_joined_and_timed_out() -> Job:
    """P6: on NCCL retired and not completed has timed out."""
    return data_parallel(Job(4), 3).all_reduce().never_finishes().retired_on_timeout()


@story("all_joined_none_finished", [], "Only active entries, one on each rank, all alike.")
def all_joined_only_active() -> Job:
    """P3."""
    return data_parallel(Job(4), 3).all_reduce().never_finishes().only_active()


@story(
    "all_joined_none_finished", [], "An uneven all_gather: the closer is pending on all ranks, the inner entries agree."
)
def all_joined_coalesced() -> Job:
    """P2."""
    return Job(3).all_reduce().all_gather_uneven([4, 5, 6]).all_gather_uneven([6, 5, 4]).never_finishes()


@story(
    "all_joined_none_finished",
    [],
    """Seq 80 is pending on all ranks. Rank 3's record ids are 40 higher, and rings of twenty entries
    have wrapped.""",
)
def all_joined_with_skewed_records() -> Job:
    """P7: never align by record_id across ranks."""
    job = Job(4).already(49).records_before(100).records_before(140, 3)
    for _ in range(30):
        job.all_reduce()
    return job.all_reduce().never_finishes().ring(20)


@story(
    "all_joined_none_finished",
    [],
    """Two dp groups of four each have all their members in an all_reduce, and neither finishes: a switch
    between the nodes, rather than a rank.""",
)
def all_joined_in_two_groups() -> Job:
    """V9: all joined, in several groups."""
    return grid_step(Job(8).grid(tp=2, dp=4), 2).all_reduce("dp", [8192]).never_finishes().all_reduce()


@story("all_joined_none_finished", [], "torchcomms: counted within the group, all ranks are in the same collective.")
def all_joined_in_torchcomms() -> Job:
    """P8."""
    job = Job(4, lib="torchcomms").group("tp", [0, 1]).group("tp", [2, 3]).all_reduce()
    return job.all_reduce("tp", of=0).all_reduce("tp").all_reduce().all_gather().never_finishes()


@story(
    "insufficient_evidence",
    [],
    """gloo with sub-groups: ranks 0 and 1 are in the same call of group 1 and do not finish. Who else
    belongs to that group is not recorded.""",
    also=["all_joined_none_finished"],
)
def all_known_users_joined() -> Job:
    """V7: with inferred members never all_joined_none_finished."""
    job = Job(4, lib="gloo").group("tp", [0, 1]).group("tp", [2, 3]).barrier()
    return job.all_reduce("tp", of=2).all_reduce("tp", of=0).never_finishes().barrier()


@story(
    "insufficient_evidence",
    [],
    """gloo: rank 3's dump was taken after an exception, which marks everything retired; the others are
    pending in the same all_reduce. It may have finished on rank 3, or failed there.""",
)
def retired_by_an_exception() -> Job:
    """P4: the picture of a dump taken after the exception."""
    return data_parallel(Job(4, lib="gloo"), 2).all_reduce().never_finishes().dumped_after_exception(3)
