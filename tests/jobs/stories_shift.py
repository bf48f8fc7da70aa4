"""Ranks that skipped or added a collective, so that their sequence is shifted against their group's."""

from __future__ import annotations

from tests.jobs.builder import Job
from tests.jobs.scenes import LINES, data_parallel, lines, sharded
from tests.jobs.story import story


@story(
    "collective_skipped",
    [2],
    """Each step reduces from lines 10, 20 and 30. From step 2 on rank 2's call sites are one
    ahead of its group's (it has no line 20 in step 2), and it has one call less at the end.""",
)
def skipped_by_call_site() -> Job:
    """L4: on call sites alone, at least two matches and two differences."""
    return lines(Job(4), 3, {(1, 20): (2,)})


@story(
    "collective_skipped",
    [0],
    "The first rank left a reduction out; the seven others wait for it at the end of the epoch.",
)
def skipped_by_first_of_eight() -> Job:
    """L4, L3."""
    return lines(Job(8), 4, {(2, 10): (0,)})


@story("collective_skipped", [2, 5], "Ranks 2 and 5 left out the same reduction.")
def skipped_by_two_of_eight() -> Job:
    """L4, V9."""
    return lines(Job(8), 3, {(1, 30): (2, 5)})


@story(
    "collective_skipped",
    [2],
    """All calls come through one wrapper; only the frames below it show that rank 2 is one call
    ahead.""",
)
def skipped_behind_a_wrapper() -> Job:
    """L4: the whole user part of the stack."""
    job = Job(4)
    for step in range(3):
        for line in LINES:
            job.all_reduce(at=("comm.py:14 in reduce", f"train.py:{line} in step"))
            job.skip(*([2] if (step, line) == (1, 20) else []))
    return job


@story("collective_skipped", [1], "gloo: the same, told by retired alone.")
def skipped_in_gloo() -> Job:
    """L4, P6."""
    return lines(Job(4, lib="gloo"), 3, {(1, 20): (1,)})


@story(
    "collective_skipped", [3], "Rank 3 left out one bucket: three more of its sizes are those of its group's next call."
)
def skipped_by_size() -> Job:
    """L4: sizes; the hosts ran ahead far enough to show it."""
    job = Job(4, ahead=4).all_reduce().all_reduce(shape=[64]).all_reduce(shape=[24_084_544]).skip(3)
    return job.all_reduce(shape=[128]).all_reduce(shape=[256]).all_reduce(shape=[512]).all_reduce(shape=[1])


@story(
    "collective_skipped",
    [1],
    "One unit of a sharded model had no gradients on rank 1: its reduce_scatter is left out there.",
)
def skipped_by_operation() -> Job:
    """L4: operations."""
    job = sharded(Job(4, ahead=6), 2).all_gather(n=512).all_gather(n=1024)
    job.reduce_scatter(n=1024).skip(1).reduce_scatter(n=512).all_reduce(shape=[1], dtype="Float").all_gather(n=512)
    return job.all_gather(n=1024)


@story(
    "collective_skipped", [2], "Rank 2 left out a BFloat16 call: from then on its dtypes are one ahead of its group's."
)
def skipped_by_dtype() -> Job:
    """L4: dtypes."""
    job = Job(4, ahead=5)
    for step in range(4):
        job.all_reduce(dtype="BFloat16").skip(*([2] if step == 2 else [])).all_reduce(dtype="Float")
        job.all_reduce(dtype="Half")
    return job


@story(
    "collective_skipped",
    [1],
    """Rank 1 caught an out-of-memory error and went on with the next step: the rest of step 2,
    two calls, is missing there.""",
)
def skipped_rest_of_a_step() -> Job:
    """L4: k = 2 (or, as steps repeat, one call added)."""
    return lines(Job(4), 4, {(1, 20): (1,), (1, 30): (1,)})


@story("collective_skipped", [3], "Four calls of another loop are missing on rank 3: its sizes are four ahead.")
def skipped_four_calls() -> Job:
    """L4: k up to 4."""
    job = Job(5, ahead=10).all_reduce()
    for n in range(1, 12):
        job.all_reduce(shape=[n]).skip(*([3] if 3 <= n <= 6 else []))
    return job


@story(
    "collective_skipped",
    [5, 6, 7],
    """A file is not visible on the second node: ranks 5-7 do not take part in two
    broadcasts and wait in the all_reduce that the others reach two numbers later.""",
    also=["collective_type_mismatch"],
)
def skipped_broadcasts_on_some_ranks() -> Job:
    """L4, L2: k = 2 explains an operation that k = 0 does not."""
    job = data_parallel(Job(8), 1)
    job.broadcast(shape=[1], dtype="Long", at="resume.py:33 in load").skip(5, 6, 7)
    job.broadcast(shape=[200], dtype="Byte", at="resume.py:33 in load").skip(5, 6, 7)
    return job.all_reduce(shape=[4096], at="train.py:80 in backward")


@story(
    "collective_type_mismatch",
    [6, 7],
    """The last two ranks return early from a metric and reduce where the others
    gather. Nobody is past that number, so that a call left out cannot be told from another call.""",
    also=["collective_skipped"],
)
def skipped_but_nothing_known_after_it() -> Job:
    """L4: no comparison holds under a shift that fails without; L3."""
    job = data_parallel(Job(8), 2).all_gather_list(n=1, dtype="Long", at="metrics.py:40 in gather_metrics").skip(6, 7)
    return job.all_reduce(shape=[1], dtype="Float", at="train.py:95 in log_loss")


@story(
    "collective_skipped",
    [0],
    """Rank 0 once reduces for a plot that the others do not draw. All calls are alike, so that
    everything finished, until rank 0 waits alone with one call more than the others.""",
)
def added_call_waits_alone() -> Job:
    """L5: the waiter is the shifted one; L4: the first entry of an added call compares with nothing."""
    job = lines(Job(4), 1, {}).all_reduce(at="plot.py:12 in plot_loss").only(0)
    return lines(job, 2, {})


@story("collective_skipped", [1, 4], "Ranks 1 and 4 log once more than the six others, and wait alone at the end.")
def added_call_on_two_of_eight() -> Job:
    """L5, L4."""
    job = lines(Job(8), 2, {}).all_reduce(at="log.py:8 in log_local_loss").only(1, 4)
    return lines(job, 2, {})


@story(
    "collective_skipped",
    [2],
    "Rank 2 reduces an extra buffer: its following sizes are those its group had one number before.",
)
def added_call_by_size() -> Job:
    """L4: k = -1."""
    job = Job(4, ahead=5).all_reduce().all_reduce(shape=[77], at="debug.py:5 in check_norm").only(2)
    return job.all_reduce(shape=[10]).all_reduce(shape=[20]).all_reduce(shape=[30]).all_reduce(shape=[40])


@story(
    "collective_skipped",
    [6],
    "In the dp group {0, 2, 4, 6} rank 6 left out one call of step 2; the others are in order.",
)
def skipped_in_a_subgroup() -> Job:
    """L4, V2: the world waits behind that group."""
    job = Job(8).eagerly_initialised().grid(tp=2, dp=4)
    for step in range(3):
        for line in LINES:
            job.all_reduce("dp", at=f"train.py:{line} in step").skip(*([6] if (step, line) == (1, 20) else []))
    return job.all_reduce()


@story(
    "collective_skipped",
    [2],
    """Rings of sixteen entries have lost the moment when rank 2 left a call out; all that is
    left is shifted.""",
)
def skipped_before_the_ring_begins() -> Job:
    """L4, P7."""
    job = lines(Job(4).already(600).records_before(600), 2, {(0, 20): (2,)})
    return lines(job, 6, {}).ring(16)


@story(
    "collective_skipped",
    [1],
    """Group {0, 1}: rank 1 has no line 20 in step 2. Rank 0 repeats 10, 20, 30 all the time,
    rank 1 breaks off once; with two members that is a hint, no majority.""",
    also=["rank_not_joined"],
    also_culprits=[[0, 1]],
)
def skipped_in_a_group_of_two() -> Job:
    """L4, L3."""
    return lines(Job(2), 3, {(1, 20): (1,)})


@story(
    "collective_skipped", [2], "Only active entries, without stacks: rank 2's open sizes are one ahead of its peers'."
)
def skipped_in_active_json() -> Job:
    """L4, P3."""
    job = Job(4, ahead=5)
    for n in range(1, 6):
        job.all_reduce(shape=[n])
    job.all_reduce(shape=[100]).skip(2)
    for n in range(101, 106):
        job.all_reduce(shape=[n])
    return job.only_active().as_json()
