"""Ranks that meet at one sequence number with different operations, sizes or dtypes."""

from __future__ import annotations

from tests.jobs.builder import Job, Part
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


# ---- sizes


@story("collective_size_mismatch", [2], "Rank 2 lost a sample: it gathers 41 elements where the others gather 40.")
def size_one_sample_more() -> Job:
    """L1, L3."""
    return data_parallel(Job(4), 2).all_gather(n=40).but(2, ins=[[41]], outs=[[164]])


@story("collective_size_mismatch", [1], "Rank 1 reduces one element where seven ranks reduce 24,084,544.")
def size_one_of_eight() -> Job:
    """L1, L3."""
    return data_parallel(Job(8), 2).all_reduce(shape=[24_084_544]).but(1, shape=[1])


@story("collective_size_mismatch", [3, 6], "Two of eight ranks reduce 1,025 elements, six 262,144, from the same line.")
def size_two_of_eight() -> Job:
    """L3."""
    return data_parallel(Job(8), 2).all_reduce(shape=[262_144]).but(3, 6, shape=[1_025])


@story(
    "collective_size_mismatch",
    [],
    """Every rank gathers 4 elements from 4 ranks into 17: the same bug everywhere, no rank
    stands out.""",
)
def size_all_gather_wrong_everywhere() -> Job:
    """L1: [] wins over naming all."""
    return data_parallel(Job(4), 1).call("_all_gather_base", ins=[[4]], outs=[[17]]).never_finishes()


@story("collective_size_mismatch", [], "Every rank scatters 17 elements to 4 x 4: no rank stands out.")
def size_reduce_scatter_wrong_everywhere() -> Job:
    """L1."""
    return data_parallel(Job(4), 1).call("_reduce_scatter_base", ins=[[17]], outs=[[4]]).never_finishes()


@story("collective_size_mismatch", [2], "All ranks bring 8 elements; rank 2 alone makes room for 24 instead of 32.")
def size_all_gather_output_of_one() -> Job:
    """L1."""
    return data_parallel(Job(4), 1).all_gather(n=8).but(2, outs=[[24]])


@story(
    "collective_size_mismatch",
    [1],
    """36 elements are sent and 32 expected. Ranks 0, 2 and 3 send and receive 8; only
    rank 1 sends 12 and receives 8.""",
    also_culprits=[[]],
)
def size_all_to_all_of_one() -> Job:
    """L1: members whose own in and out differ, if they are a minority."""
    return Job(4).all_reduce().all_to_all(sends={0: 8, 1: 12, 2: 8, 3: 8}, receives=8)


@story(
    "collective_size_mismatch",
    [],
    """40 elements are sent and 44 expected, and every rank sends another number than it
    receives, as experts do: the total is wrong, nobody stands out.""",
)
def size_all_to_all_of_nobody() -> Job:
    """L1: else []."""
    job = Job(4).all_to_all(sends={0: 4, 1: 16, 2: 8, 3: 12}, receives=10)
    return job.all_to_all(sends={0: 4, 1: 16, 2: 8, 3: 12}, receives={0: 10, 1: 14, 2: 9, 3: 11})


@story(
    "collective_size_mismatch",
    [3],
    """The root broadcasts 64 elements, rank 3 makes room for 128 and waits for the rest;
    the others finished the broadcast and wait for rank 3 in the next all_reduce.""",
)
def size_of_a_broadcast() -> Job:
    """L1, L2, V2: broadcast compares numbers of elements."""
    return data_parallel(Job(4), 1).broadcast(root=0).but(3, shape=[128]).all_reduce()


@story(
    "collective_size_mismatch", [1], "Inside a coalesced all_gather rank 1 expects 9 elements of rank 2, the others 7."
)
def size_inside_a_coalesced_call() -> Job:
    """P2, L1."""
    right, wrong = ([Part("_broadcast_oop", [[n]], [[n]]) for n in sizes] for sizes in ([5, 6, 7, 8], [5, 6, 9, 8]))
    job = Job(4).all_reduce().coalesced(right, closer="ALLGATHER_coalesced").all_reduce()
    return job.coalesced(right, closer="ALLGATHER_coalesced").but(1, parts=wrong)


@story("collective_size_mismatch", [0], "PyTorch 2.3 dumps: rank 0 reduces 7 elements, the others 4.")
def size_in_format_1_4() -> Job:
    """L1, P1."""
    return Job(4, version="1.4").all_reduce(shape=[4]).all_reduce(shape=[4]).but(0, shape=[7])


@story(
    "collective_size_mismatch",
    [3],
    """Ranks 2 and 3 disagree in their tp group of two. In the world group rank 3 alone
    brought the same wrong length before, which NCCL let pass.""",
)
def size_tie_settled_by_another_group() -> Job:
    """L3, L8: a tie is settled by a group of three or more where one of the tied is in a clear minority."""
    job = Job(4).group("tp", [0, 1]).group("tp", [2, 3]).all_reduce().all_reduce("tp")
    job.all_reduce(shape=[4096]).but(3, shape=[2048]).finishes_anyway()
    return job.all_reduce("tp", [4096, 2]).but(3, shape=[2048, 2]).all_reduce()


@story(
    "collective_size_mismatch",
    [2, 3],
    """Ranks 2 and 3 disagree in their tp group of two. Rank 3 has used this size
    before and rank 2 has not, but a program may enter a new phase: both are named.""",
    also_culprits=[[]],
)
def size_tie_not_settled_by_the_past() -> Job:
    """L3: a rank's own past settles nothing."""
    job = Job(4).group("tp", [0, 1]).group("tp", [2, 3])
    for _ in range(3):
        job.all_reduce().all_reduce("tp", [64])
    return job.all_reduce("tp", [64]).but(2, shape=[32]).all_reduce()


@story(
    "collective_size_mismatch",
    [1],
    """Everything finished, but at seq 4 rank 1 reduced 900 elements and the others 1,024:
    what came out is garbage.""",
)
def size_mismatch_that_finished() -> Job:
    """L8: on finished entries it is the verdict if no root names anybody."""
    job = data_parallel(Job(4), 1).all_reduce().but(1, shape=[900]).finishes_anyway()
    return data_parallel(job, 1)


@story("collective_size_mismatch", [2], "gather finished everywhere, but rank 2 gave 65 elements and the others 64.")
def size_of_a_gather_that_finished() -> Job:
    """L1, L8: gather compares inputs."""
    return Job(4).all_reduce().gather(root=0).but(2, ins=[[65]]).all_reduce()


@story(
    "collective_size_mismatch",
    [0, 4],
    """Two faults in separate groups: rank 0 brings another size in group a, rank 4
    another dtype in group b.""",
)
def size_and_dtype_in_two_groups() -> Job:
    """V9."""
    job = Job(6).group("a", [0, 1, 2]).group("b", [3, 4, 5]).all_reduce("a").all_reduce("b")
    return job.all_reduce("a").but(0, shape=[5]).all_reduce("b").but(4, dtype="Float")


# ---- dtypes


@story("collective_dtype_mismatch", [1], "Same operation and size, rank 1 passes Float, the others BFloat16.")
def dtype_one_of_four() -> Job:
    """L1, L3."""
    return data_parallel(Job(4), 1).all_reduce().but(1, dtype="Float")


@story(
    "collective_dtype_mismatch",
    [5],
    "Rank 5 gathers Half where its tp group of three gathers BFloat16; all wait behind.",
)
def dtype_in_a_group() -> Job:
    """L1, V2."""
    job = grid_step(Job(6).grid(tp=3, dp=2), 1).all_gather("tp").but(5, dtype="Half")
    return job.all_reduce("dp").all_reduce()


@story(
    "collective_dtype_mismatch", [0, 1], "Two ranks, two dtypes: nobody can say which was meant.", also_culprits=[[]]
)
def dtype_two_of_two() -> Job:
    """L3."""
    return data_parallel(Job(2), 2).all_reduce().but(0, dtype="Half")


@story(
    "collective_dtype_mismatch", [1], "gloo finished silently, but rank 1 reduced Double and the others Float: garbage."
)
def dtype_mismatch_that_finished() -> Job:
    """L8, P6: on gloo a dtype mismatch completes."""
    job = data_parallel(Job(3, lib="gloo"), 1).all_reduce(dtype="Float").but(1, dtype="Double").finishes_anyway()
    return data_parallel(job, 1)


# ---- mismatches that are not the verdict


@story(
    "rank_not_joined",
    [3],
    """At seq 4 rank 1 brought another dtype, which finished. The job hangs elsewhere: rank 3 is
    idle, the others wait in seq 7.""",
)
def finished_mismatch_beside_an_idle_rank() -> Job:
    """L8: a mismatch on finished entries is a warning where a root names somebody."""
    job = data_parallel(Job(4), 1).all_reduce(shape=[64]).but(1, dtype="Float").finishes_anyway()
    return job.all_reduce().all_reduce().stop(3).all_reduce()


@story(
    "collective_size_mismatch",
    [2],
    """At seq 4 rank 2 brought another size, and everything after it agrees again: an odd
    entry, no shift.""",
)
def odd_entry_without_a_shift() -> Job:
    """L4, L8: if k = 0 holds again after the odd entry it is a mismatch."""
    job = data_parallel(Job(4), 1).all_reduce(shape=[77], at="train.py:77 in probe").but(2, shape=[78])
    return data_parallel(job.finishes_anyway(), 2)
