"""Skipped collectives seen across groups, and differences that are no shift."""

from __future__ import annotations

from tests.jobs.builder import Job
from tests.jobs.scenes import LINES, grid_step, lines
from tests.jobs.story import story

# ---- across groups


@story(
    "collective_skipped",
    [2],
    """In step 3 rank 2 left out its dp call and waits in the world's reduction for rank 0, which
    waits in dp for rank 2. In every step before, rank 2 reduced in dp first.""",
)
def skipped_one_group_and_waits_in_another() -> Job:
    """V3, V4: history shows that the group belonged before."""
    job = grid_step(Job(4).grid(tp=2, dp=2), 2).all_reduce("tp").all_reduce("tp")
    job.all_reduce("dp", [8192], at="train.py:90 in reduce_gradients").skip(2)
    return job.all_reduce(shape=[1], dtype="Float", at="train.py:99 in clip_grad_norm")


@story(
    "group_order_deadlock",
    [0, 2],
    """The same in the very first step: nothing tells whether rank 2 left dp out or would
    have come to it later, nor whether rank 0 should have waited.""",
    also=["collective_skipped"],
    also_culprits=[[2]],
)
def skipped_one_group_without_history() -> Job:
    """V3, V4: no history = cycle rules, and the vote is a tie."""
    job = Job(4).eagerly_initialised().grid(tp=2, dp=2).all_reduce("tp")
    return job.all_reduce("dp").skip(2).all_reduce(shape=[1])


@story(
    "collective_skipped",
    [2],
    """Rank 2 left out one of three dp calls in step 2. At the end ranks 0 and 1 wait for it in dp
    and it waits for them in the world's reduction: a cycle, in which rank 2 alone is shifted.""",
)
def skipped_rank_in_a_cycle() -> Job:
    """V3: first a shift; L4."""
    return lines(Job(4).eagerly_initialised().group("dp", [0, 1, 2]), 3, {(1, 20): (2,)}, "dp").all_reduce(shape=[1])


@story(
    "group_order_deadlock",
    [2],
    """The same, but the world reduces after every step, so that it hangs before the shift shows
    twice: ranks 0 and 1 entered dp first, rank 2 the world's reduction.""",
    also=["collective_skipped"],
)
def skipped_rank_in_a_cycle_seen_once() -> Job:
    """V3: the vote; L4 silent."""
    job = Job(4).group("dp", [0, 1, 2])
    for step in range(3):
        lines(job, 1, {(0, 20): (2,)} if step == 1 else {}, "dp").all_reduce(shape=[1])
    return job


@story(
    "collective_skipped",
    [2, 5],
    """Rank 2 left out a call in group a; in group b, apart from it, rank 5 calls another
    operation. Both are named, under the first category.""",
)
def skipped_and_another_mismatch() -> Job:
    """V9."""
    job = Job(7).group("a", [0, 1, 2]).group("b", [3, 4, 5, 6])
    for step in range(3):
        for line in LINES:
            job.all_reduce("a", at=f"train.py:{line} in step").skip(*([2] if (step, line) == (1, 20) else []))
    return job.all_reduce("b").all_reduce("b").but(5, op="broadcast")


# ---- no shift


@story(
    "rank_not_joined",
    [2],
    """Twelve equal calls from one line, rank 2 has eleven. That a shift would fit as well says
    nothing: no shift fits too.""",
)
def equal_calls_are_no_shift() -> Job:
    """L4: it must explain more than k = 0 does."""
    job = Job(4)
    for _ in range(11):
        job.all_reduce()
    return job.all_reduce().skip(2)


@story(
    "rank_not_joined",
    [2],
    """Rank 2 skipped a call, but without stacks all calls look alike: the dumps show an idle rank
    with one call less.""",
    also=["collective_skipped"],
)
def skipped_without_stacks() -> Job:
    """L4 silent: nothing to compare."""
    return lines(Job(4), 3, {(1, 20): (2,)}).as_json()


@story(
    "rank_not_joined",
    [2],
    """Rank 2's last call comes from line 30, its peers' from line 20, and they wait in one more. One
    difference is not enough for a shift.""",
    also=["collective_skipped"],
)
def one_call_site_is_no_shift() -> Job:
    """L4: at least two matches and two differences on call sites alone."""
    return lines(Job(4), 3, {(2, 20): (2,)})


@story(
    "rank_not_joined",
    [3],
    """Rank 3 left out a whole step, all of whose calls come again in the next: the dumps show three
    calls less and an idle rank.""",
    also=["collective_skipped"],
)
def skipped_step_that_repeats() -> Job:
    """L4 silent."""
    return lines(Job(4), 4, {(1, line): (3,) for line in LINES})
