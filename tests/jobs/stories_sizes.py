"""Ranks that meet at one sequence number with different sizes or dtypes."""

from __future__ import annotations

from tests.jobs.builder import Job, Part
from tests.jobs.scenes import data_parallel, grid_step
from tests.jobs.story import story


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
