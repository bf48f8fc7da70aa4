"""Ranks that meet at one sequence number with different operations, sizes or dtypes."""

from __future__ import annotations

from tests.jobs.builder import Job
from tests.jobs.scenes import data_parallel, grid_step, sharded
from tests.jobs.story import story

# ---- operation


@story("collective_type_mismatch", [3], "At seq 4 ranks 0-2 call all_reduce, rank 3 broadcast with the same size.")
def type_one_of_four() -> Job:
    """L1, L3, V2."""
    return data_parallel(Job(4), 1).all_reduce().but(3, op="broadcast")


@story("collective_type_mismatch", [0], "Rank 0 reduces where seven ranks gather: the first rank is the odd one.")
def type_first_of_eight() -> Job:
    """L1, L3."""
    return sharded(Job(8), 2).all_gather(n=8).but(0, op="all_reduce", shape=[64])


@story(
    "collective_type_mismatch", [1], "gloo: rank 1 sits in a barrier, the others in an all_reduce; nothing is retired."
)
def type_barrier_in_gloo() -> Job:
    """L1, P6."""
    return data_parallel(Job(4, lib="gloo"), 2).all_reduce().but(1, op="barrier", ins=[], outs=[])


@story(
    "collective_type_mismatch",
    [0, 1],
    """Two ranks: one scatters gradients of a sharded model, the other exchanges
    heads of a sequence. Which one is wrong is not in the dumps.""",
    also_culprits=[[]],
)
def type_two_of_two() -> Job:
    """L3: without a majority, all that differ."""
    job = sharded(Job(2), 2).reduce_scatter(n=512, at="fsdp.py:188 in reduce_grads")
    return job.but(1, op="all_to_all", ins=[[1024]], outs=[[1024]], at="ulysses.py:51 in exchange_heads")


@story(
    "collective_type_mismatch", [0, 1, 2, 3], "Two ranks call all_reduce and two broadcast: a tie.", also_culprits=[[]]
)
def type_tie_of_four() -> Job:
    """L3."""
    return data_parallel(Job(4), 2).all_reduce(shape=[64]).but(1, 2, op="broadcast")


@story("collective_type_mismatch", [0, 1, 2], "Three ranks, three operations.", also_culprits=[[]])
def type_three_ways() -> Job:
    """L3."""
    job = data_parallel(Job(3), 2).all_reduce(shape=[12])
    return job.but(1, op="broadcast").but(2, op="_all_gather_base", outs=[[36]])


@story("collective_type_mismatch", [1, 4], "Two of five ranks save (barrier) while three go on to the next all_reduce.")
def type_two_of_five() -> Job:
    """L3: the three agree against both of them."""
    job = data_parallel(Job(5), 2).all_reduce(shape=[9])
    return job.but(1, 4, op="all_reduce_barrier", shape=[1], dtype="Float", at="train.py:61 in checkpoint")


@story(
    "collective_type_mismatch",
    [2],
    """Rank 2 issues all_to_all before all_gather, its peers the other way round, in one
    group: both numbers disagree, and nothing is shifted.""",
)
def type_neighbours_exchanged() -> Job:
    """L4: two neighbours exchanged is a mismatch, not a shift."""
    job = sharded(Job(4, ahead=2), 1)
    return job.all_gather(n=16).all_to_all().swapped(2)


@story(
    "collective_type_mismatch",
    [4],
    """In group {3, 4, 5} rank 4 calls another operation; the dp groups and the world
    wait behind its peers.""",
)
def type_in_a_group_holds_up_all() -> Job:
    """V1, V2, L3."""
    job = grid_step(Job(6).grid(tp=3, dp=2), 2)
    job.all_reduce("tp", [64]).but(4, op="broadcast", at="layers.py:77 in sync_dropout_seed")
    return job.all_reduce("dp").all_reduce()


@story(
    "collective_type_mismatch",
    [2],
    """One file is missing. Of the three seen members two agree against rank 2, and a seen
    culprit explains the wait.""",
)
def type_with_a_file_missing() -> Job:
    """L3, V5."""
    return data_parallel(Job(4), 2).all_reduce().but(2, op="broadcast").no_file(1)


@story("collective_type_mismatch", [1], "JSON dumps of active entries only: rank 1's open call is a reduce_scatter.")
def type_in_active_json() -> Job:
    """P3, L1."""
    job = data_parallel(Job(4), 3).all_reduce(shape=[256])
    return job.but(1, op="_reduce_scatter_base", outs=[[64]]).only_active().as_json()


@story(
    "collective_type_mismatch",
    [1],
    """gloo with sub-groups tells no members. Of the three that use group 1 at seq 3, rank
    1 calls another operation.""",
)
def type_among_users_of_an_inferred_group() -> Job:
    """V7, P1: a difference between users counts also where members are inferred."""
    job = Job(6, lib="gloo").group("tp", [0, 1, 2]).group("tp", [3, 4, 5])
    for _ in range(2):
        job.all_reduce("tp").barrier()
    return job.all_reduce("tp").but(1, op="barrier", ins=[], outs=[]).barrier()


@story(
    "collective_type_mismatch",
    [1, 5],
    """Two faults that do not explain each other: rank 1 calls another operation in
    group a, rank 5 is idle in group b. Both are named, under the first category.""",
)
def type_and_an_idle_rank() -> Job:
    """V9: roots are united, the category is the first of the order."""
    job = Job(6).group("a", [0, 1, 2]).group("b", [3, 4, 5])
    job.all_reduce("a").all_reduce("b").all_reduce("a").all_reduce("b")
    return job.stop(5).all_reduce("a").but(1, op="broadcast").all_reduce("b")
