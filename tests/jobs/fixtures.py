"""Writes the built fixtures: `python -m tests.jobs.fixtures [CASE ...]` (all without names).

They are stories, written down as NCCL jobs leave them, so that the examples need neither GPU nor torch.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from tests.jobs.builder import Job
from tests.jobs.case_file import FIXTURES, write_case
from tests.jobs.stories import STORIES
from tests.jobs.story import Story, Truth


def seventh_step() -> Job:
    """V1, V2, V4."""
    job = Job(4, ahead=2).group("dp", [0, 2]).group("dp", [1, 3]).group("tp", [0, 1]).group("tp", [2, 3])
    job.barrier(at="train.py:35 in main")
    for _ in range(6):
        job.all_reduce("tp", [16, 4096], at=("layers.py:31 in row_parallel", "train.py:70 in forward"))
        job.all_reduce("tp", [16, 4096], at=("layers.py:47 in vocabulary_parallel", "train.py:70 in forward"))
        job.all_reduce(shape=[1], dtype="Float", at="train.py:74 in average_loss")
        job.all_reduce(shape=[2], dtype="Long", at="train.py:77 in count_tokens")
        job.all_reduce("tp", [16, 4096], at=("layers.py:58 in column_parallel_grad", "train.py:86 in backward"))
        job.all_reduce(shape=[1], dtype="Int", at="train.py:87 in agree_on_overflow")
        job.all_reduce("dp", [8_388_608], at="train.py:88 in backward")
        job.all_reduce("dp", [4_194_304], at="train.py:88 in backward")
        job.all_reduce(shape=[1], dtype="Float", at="train.py:93 in clip_grad_norm")
    job.skip(2).stop(2)  # before the last of them
    for rank in (0, 1, 3):
        job.pause(rank, 12)
    return job.all_reduce("tp", [16, 4096], at=("layers.py:31 in row_parallel", "train.py:70 in forward"))


SEVENTH_STEP = Story(
    "nccl_rank_not_joined",
    seventh_step,
    Truth(
        "rank_not_joined",
        (2,),
        "Rank 2 finished dp #12 and issued nothing more. Ranks 0, 1 and 3 wait in default_pg #25; each has entered one "
        "more operation twelve seconds later, which waits behind it.",
    ),
    frozenset({"V1", "V2", "V4"}),
)
BUILT: dict[str, tuple[str, Story]] = {
    "nccl_rank_not_joined": (
        "Four ranks, two replicas of a tensor-parallel pair. After the backward pass of step 6 the host of rank 2 "
        "hangs before it clips the gradient; the others wait there, and their hosts have begun to load step 7.",
        SEVENTH_STEP,
    ),
    "nccl_rank_without_dump": (
        "Eight ranks. The process of rank 5 died in the middle of a step and left no dump.",
        STORIES["file_missing_in_a_small_group"],
    ),
    "nccl_stuck_on_device": (
        "Eight ranks. The device of rank 5 never ends a tensor-parallel call that its peer finished.",
        STORIES["stuck_in_a_small_group"],
    ),
    "nccl_type_mismatch": (
        "Six ranks. One rank of a tensor-parallel group broadcasts a seed where the others reduce.",
        STORIES["type_in_a_group_holds_up_all"],
    ),
    "nccl_size_mismatch": (
        "Four ranks. One rank has a sample more in its last batch and gathers 41 elements instead of 40.",
        STORIES["size_one_sample_more"],
    ),
    "nccl_dtype_mismatch": (
        "Six ranks. One rank gathers Half where its tensor-parallel group gathers BFloat16.",
        STORIES["dtype_in_a_group"],
    ),
    "nccl_collective_skipped": (
        "Four ranks, three equal reductions a step from three lines. Rank 2 leaves one out in step 2; nothing hangs "
        "before the end of step 3.",
        STORIES["skipped_by_call_site"],
    ),
    "nccl_receive_left_out": (
        "Four ranks; in each round rank 0 sends to rank 3. In the fourth rank 3 goes on without receiving.",
        STORIES["receive_left_out"],
    ),
    "nccl_group_order_deadlock": (
        "Eight ranks, two of which take two groups in opposite orders; six others wait for them.",
        STORIES["order_deadlock_with_many_victims"],
    ),
    "nccl_late_arrival": (
        "Eight ranks. Rank 0 prepares the data for 35 minutes while the barrier of the others times out after 30.",
        STORIES["late_first_rank_prepares_data"],
    ),
    "nccl_all_joined": (
        "Eight ranks. All are in the same reduce_scatter, with equal arguments, and nobody sees it finish.",
        STORIES["all_joined_hosts_ahead"],
    ),
    "nccl_pipeline_healthy": (
        "Four pipeline stages in 1F1B order, two steps, everything finished.",
        STORIES["healthy_one_forward_one_backward"],
    ),
}


def main(names: Sequence[str]) -> int:
    """Write the named fixtures (all); expected outputs beside them stay. 64 where a name is unknown."""
    unknown = [name for name in names if name not in BUILT]
    if unknown:
        print(f"no such fixture: {' '.join(unknown)}; there are: {' '.join(BUILT)}", file=sys.stderr)
        return 64
    for name in names or BUILT:
        told, story = BUILT[name]
        job, folder = story.build(), FIXTURES / name
        shutil.rmtree(folder / "evidence", ignore_errors=True)
        job.write(folder / "evidence")
        write_case(folder, told, "built", f"python -m tests.jobs.fixtures {name}", None, len(job.world), story.truth)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
