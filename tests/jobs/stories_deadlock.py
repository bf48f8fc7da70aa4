"""Ranks that wait for each other in a cycle."""

from __future__ import annotations

from tests.jobs.builder import Job
from tests.jobs.story import story


@story(
    "group_order_deadlock",
    [0, 1],
    """Rank 0 waits in group A for rank 1, rank 1 in group B for rank 0: a cycle of two, and a
    tie. Ranks 2 and 3 only wait for both of them.""",
)
def order_of_two_groups() -> Job:
    """V3: the vote is a tie."""
    job = Job(4).eagerly_initialised().group("A", [0, 1]).group("B", [0, 1]).all_reduce()
    return job.all_reduce("A").all_reduce("B").swapped(1).all_reduce()


@story("group_order_deadlock", [2], "Ranks 0 and 1 entered A first, rank 2 entered B first: a clear minority.")
def order_minority_of_three() -> Job:
    """V3: the vote."""
    job = Job(3).eagerly_initialised().group("A", range(3)).group("B", range(3)).all_reduce()
    return job.all_reduce("A").all_gather("B").swapped(2).all_reduce()


@story(
    "group_order_deadlock",
    [3, 6],
    """Eight ranks in two groups of eight: six entered the first one first, two the second.""",
)
def order_minority_of_eight() -> Job:
    """V3."""
    job = Job(8).eagerly_initialised().group("A", range(8)).group("B", range(8)).all_reduce()
    return job.all_reduce("A").all_reduce("B").swapped(3, 6)


@story("group_order_deadlock", [0, 1, 2, 3], "Two ranks entered A first and two B: a tie, the whole cycle.")
def order_tie_of_four() -> Job:
    """V3."""
    job = Job(4).eagerly_initialised().group("A", range(4)).group("B", range(4)).all_reduce()
    return job.all_reduce("A").all_reduce("B").swapped(2, 3)


@story(
    "group_order_deadlock",
    [0, 1, 2],
    """Three groups of two: each rank entered the one it shares with the next. Nothing makes one
    of the three stand out.""",
)
def order_of_three_groups_in_a_ring() -> Job:
    """V3."""
    job = Job(4).eagerly_initialised().group("a", [0, 1]).group("b", [1, 2]).group("c", [2, 0]).all_reduce()
    job.all_reduce("a").only(0).all_reduce("b").only(1).all_reduce("c").only(2)
    job.all_reduce("a").only(1).all_reduce("b").only(2).all_reduce("c").only(0)
    return job.all_reduce()


@story(
    "collective_skipped",
    [1],
    """In two steps both ranks used A before B. In the third rank 1 waits in B for rank 0, which
    waits in A for rank 1: rank 1 broke with its own order.""",
    also=["group_order_deadlock"],
)
def order_changed_by_one_of_two() -> Job:
    """V3: history; rank 1 passed what the other waits for."""
    job = Job(3).group("A", [0, 1]).group("B", [0, 1])
    for _ in range(2):
        job.all_reduce("A").all_reduce("B").all_reduce()
    return job.all_reduce("A").all_reduce("B").swapped(1).all_reduce()


@story(
    "collective_skipped",
    [6, 7],
    """Six ranks wait in the exchange of step 3; ranks 6 and 7 wait in a reduction over replicas with
    ranks 2 and 3, which in every earlier step came after the exchange.""",
    also=["group_order_deadlock"],
    also_culprits=[[2, 3, 6, 7]],
)
def order_changed_by_a_host_sync() -> Job:
    """V3, V4: two ranks passed the exchange."""
    job = Job(8)
    for rank in range(4):
        job.group("replicate", [rank, rank + 4])
    for _ in range(2):
        job.all_to_all(at="shard.py:44 in exchange").all_reduce("replicate", [9], at="metric.py:70 in tolist")
    job.all_to_all(at="shard.py:44 in exchange").all_reduce("replicate", [9], at="metric.py:70 in tolist")
    return job.swapped(6, 7)


@story(
    "group_order_deadlock",
    [2, 3, 6, 7],
    """The same in the first step. Ranks 2 and 3 are in cycles with 6 and 7; that ranks 0, 1, 4
    and 5 exchange first, too, speaks against 6 and 7, but in no group that both sides share.""",
    also=["collective_skipped"],
    also_culprits=[[6, 7]],
)
def order_of_the_first_step() -> Job:
    """V3: no history, and each vote is one to one."""
    job = Job(8).eagerly_initialised()
    for rank in range(4):
        job.group("replicate", [rank, rank + 4])
    return job.all_to_all().all_reduce("replicate", [9]).swapped(6, 7)


@story(
    "group_order_deadlock",
    [0, 1],
    """Rank 0 sends to rank 1 before it reduces, rank 1 reduces before it receives; there was no
    round before.""",
    also=["p2p_unmatched"],
    also_culprits=[[1]],
)
def order_of_a_transfer_and_a_collective() -> Job:
    """V3, L6: a cycle across a transfer and a group."""
    job = Job(3).eagerly_initialised().group("tp", [0, 1]).all_reduce()
    return job.send(0, 1, "tp").all_reduce("tp").recv(1, 0, "tp").all_reduce()


@story(
    "group_order_deadlock",
    [0, 1],
    """gloo tells no members, and neither A nor B was used before. Names are counted over the job and pg_id on each
    rank, so rank 1, which shows group 2 as its pg_id 2, is also in group 1; ranks 2 and 3 are in neither.""",
    also=["insufficient_evidence"],
    also_culprits=[[]],
)
def order_of_groups_never_used() -> Job:
    """P1, V7: inferred membership settles deadlocks in groups never entered."""
    job = Job(4, lib="gloo").group("A", [0, 1]).group("B", [0, 1]).group("C", [2, 3])
    job.all_reduce().all_reduce("C")
    return job.all_reduce("A").all_reduce("B").swapped(1).all_reduce()


@story(
    "rank_not_joined",
    [4],
    """Rank 4 is idle and was needed in A. Ranks 0 and 1 are also in each other's way through A and B,
    but a seen root explains the wait first.""",
    also=["group_order_deadlock"],
    also_culprits=[[0, 1], [0, 1, 4]],
)
def order_with_an_idle_rank_outside() -> Job:
    """V3: only a cycle with no root outside it."""
    job = Job(5).eagerly_initialised().group("A", [0, 1, 4]).group("B", [0, 1]).all_reduce().stop(4)
    return job.all_reduce("A").all_reduce("B").swapped(1).all_reduce()


@story(
    "group_order_deadlock",
    [1, 2],
    """A cycle between ranks 1 and 2 in groups of an eight-rank job. Ranks 0 and 3 wait for them in
    their tp groups, four others in the world group.""",
)
def order_deadlock_with_many_victims() -> Job:
    """V2, V3: victims are not part of the cycle."""
    job = (
        Job(8)
        .eagerly_initialised()
        .group("tp", [0, 1])
        .group("tp", [2, 3])
        .group("x", [1, 2])
        .group("y", [1, 2])
        .all_reduce()
    )
    return job.all_reduce("x").all_reduce("y").swapped(2).all_reduce("tp").all_reduce()


@story("no_fault", [], "Rank 3 reduces in dp before tp, the others after: no cycle comes of it, everything finished.")
def order_differs_without_harm() -> Job:
    """V1 silent."""
    job = Job(4).grid(tp=2, dp=2)
    for _ in range(3):
        job.all_reduce("tp").all_reduce("dp").swapped(3).all_reduce()
    return job


@story("no_fault", [], "Two groups run on streams of their own, so that opposite orders do not hold each other up.")
def order_differs_on_own_streams() -> Job:
    """P7 silent: one blocking point per rank assumes one stream."""
    job = Job(2, ahead=4).group("A", [0, 1], stream="a").group("B", [0, 1], stream="b")
    for _ in range(3):
        job.all_reduce("A").all_reduce("B").swapped(1)
    return job.all_reduce()


@story(
    "no_fault",
    [],
    "The hosts enqueue in opposite orders but never wait, so that the devices could still finish everything.",
)
def order_differs_in_transfers() -> Job:
    """L6, V1 silent: transfers with two different peers may be posted in any order."""
    job = Job(3, ahead=4).group("pp", range(3)).group("side", [0, 2], stream="side")
    for _ in range(2):
        job.transfer(0, 1, "pp").transfer(0, 2, "side").swapped(0).transfer(1, 2, "pp")
    return job.all_reduce()
