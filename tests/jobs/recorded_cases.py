"""What is recorded from real gloo jobs, what their dumps must show, and the truth about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.jobs.story import Truth

Open = tuple[str, str]
"""Recorded name and description of the group of the operation that a rank is in."""
REDUCE_ALL = ("gloo:all_reduce", "default_pg")
REDUCE_TP = ("gloo:all_reduce", "tp")
REDUCE_DP = ("gloo:all_reduce", "dp")


@dataclass(frozen=True)
class RecordedCase:
    """`waiting`: rank -> its only open operation; `silent`: ranks that leave no dump; all others are idle."""

    name: str
    told: str
    truth: Truth
    waiting: Mapping[int, Open] = field(default_factory=dict)
    silent: frozenset[int] = frozenset()


_CASES = (
    RecordedCase(
        "gloo_healthy",
        "Four ranks trained four steps with tensor-parallel pairs and were asked after the last barrier.",
        Truth("no_fault", (), "Every operation is retired on every rank."),
    ),
    RecordedCase(
        "gloo_rank_asleep",
        "Eight ranks, tensor-parallel pairs and two groups of replicas. In step 3 rank 5 waits in its data loader.",
        Truth(
            "rank_not_joined",
            (5,),
            "Rank 5 has no open operation and does not come to the call of its pair {4, 5}; rank 4 waits there, the "
            "replicas of both wait for one of the two, and the world waits behind them.",
        ),
        {4: REDUCE_TP, **dict.fromkeys((0, 2, 6), REDUCE_DP), **dict.fromkeys((1, 3, 7), REDUCE_DP)},
    ),
    RecordedCase(
        "gloo_skipped_collective",
        "In step 2 a branch left the embedding of rank 2 without a gradient, so that it was not reduced there. All "
        "reductions have the same size, so the job went on for two steps, until rank 2 came to the final barrier.",
        Truth(
            "collective_skipped",
            (2,),
            "From number 7 of the world on, rank 2's call sites are those its group has one number later; it is in "
            "the barrier while the others wait in the last reduction of metrics, which comes before it.",
        ),
        {0: REDUCE_ALL, 1: REDUCE_ALL, 2: ("gloo:barrier", "default_pg"), 3: REDUCE_ALL},
    ),
    RecordedCase(
        "gloo_other_operation",
        "In step 3 rank 3 believes that it is time to evaluate and enters a barrier; the others reduce metrics.",
        Truth(
            "collective_type_mismatch",
            (3,),
            "At one number of the world group rank 3 is in a barrier and three ranks are in an all_reduce.",
        ),
        {0: REDUCE_ALL, 1: REDUCE_ALL, 2: REDUCE_ALL, 3: ("gloo:barrier", "default_pg")},
    ),
    RecordedCase(
        "gloo_group_order",
        "Ranks 0 and 1 average two kinds of buffers in two groups of their own; in step 3 rank 1 takes them in the "
        "other order. They had been used once before, at the start.",
        Truth(
            "group_order_deadlock",
            (0, 1),
            "Rank 0 waits for rank 1 in the first group and rank 1 for rank 0 in the second; ranks 2 and 3 wait for "
            "both. One earlier use is no history, and a vote of two is a tie.",
            ("collective_skipped",),
            ((1,),),
        ),
        {
            0: ("gloo:all_reduce", "running_mean"),
            1: ("gloo:all_reduce", "running_var"),
            2: REDUCE_ALL,
            3: REDUCE_ALL,
        },
    ),
    RecordedCase(
        "gloo_group_order_minority",
        "Three of four ranks average two kinds of buffers in two groups; in step 3 rank 2 takes the other order.",
        Truth(
            "group_order_deadlock",
            (2,),
            "Ranks 0 and 1 entered the first group first, rank 2 the second: a clear minority in a cycle.",
            ("collective_skipped",),
        ),
        {
            0: ("gloo:all_reduce", "running_mean"),
            1: ("gloo:all_reduce", "running_mean"),
            2: ("gloo:all_reduce", "running_var"),
            3: REDUCE_ALL,
        },
    ),
    RecordedCase(
        "gloo_rank_stopped",
        "In step 3 rank 1 was stopped by a signal (SIGSTOP): it raises nothing and leaves no dump.",
        Truth(
            "rank_without_dump",
            (1,),
            "Rank 0 waits in its pair for somebody who left no dump, ranks 2 and 3 in the world group for both.",
            ("insufficient_evidence",),
            ((),),
        ),
        {0: REDUCE_TP, 2: REDUCE_ALL, 3: REDUCE_ALL},
        frozenset({1}),
    ),
    RecordedCase(
        "gloo_error_swallowed",
        "In step 2 rank 1 ran out of memory in the middle of its backward pass, caught the error and went on with step "
        "3: two collectives are missing.",
        Truth(
            "collective_skipped",
            (1,),
            "From number 7 of the world group on, rank 1's call sites are those its group has two numbers later; it is "
            "in the final barrier while the others wait two calls before it.",
        ),
        {0: REDUCE_ALL, 1: ("gloo:barrier", "default_pg"), 2: REDUCE_ALL, 3: REDUCE_ALL},
    ),
    RecordedCase(
        "gloo_uneven_batches",
        "Six ranks; the shard of rank 3 holds three batches, the others four. Rank 3 waits in the store for the end of "
        "the epoch, which no recorder shows.",
        Truth(
            "rank_not_joined",
            (3,),
            "Rank 2 waits in its pair for rank 3, which is idle after three steps; the world waits behind rank 2.",
        ),
        {2: REDUCE_TP, **dict.fromkeys((0, 1, 4, 5), REDUCE_ALL)},
    ),
)
RECORDED = {case.name: case for case in _CASES}
