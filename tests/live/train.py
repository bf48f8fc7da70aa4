"""A training script for the tests of running jobs: `train.py FAULT`, run by torchrun. Knows nothing of whichrank.

Every step reduces in a pair, then in the world, then in the pair again. The fault comes in step 3, on rank 2 (a slow
checkpoint: on rank 0). A healthy job runs until it is ended; the file MODE says how fast.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

FAULT_STEP = 3
FOREVER_S = 3600.0


class Loader:
    """Batches; on one rank the worker that makes them hangs."""

    def __init__(self, hangs: bool) -> None:
        self.hangs = hangs

    def next_batch(self, step: int) -> torch.Tensor:
        if self.hangs and step == FAULT_STEP:
            time.sleep(FOREVER_S)
        return torch.ones(16)


def strike(fault: str) -> None:
    """What happens to the rank before its first collective of the step."""
    if fault == "subgroup":
        time.sleep(FOREVER_S)
    elif fault == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "killed":
        time.sleep(1.0)  # the others wait already
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "gil":
        ctypes.PyDLL(None).sleep(int(FOREVER_S))  # a C call that does not release the interpreter's lock


def pause(fault: str, rank: int) -> None:
    """Computation. A healthy job is told in a file: `steady`, `slow` (3 s) or `last` (rank 2 always comes last)."""
    mode = "steady"
    if fault == "healthy" and (path := Path(os.environ["MODE"])).exists():
        mode = path.read_text()
    time.sleep(3.0 if mode == "slow" else 0.6 if mode == "last" and rank == 2 else 0.05)


def reduce_in_world(fault: str, rank: int, at_fault: bool, x: torch.Tensor) -> None:
    """The collective that one rank leaves out, or loses to an exception that it catches."""
    if fault == "asleep" and at_fault:
        time.sleep(FOREVER_S)
    try:
        if fault == "caught" and at_fault:
            raise MemoryError("no room for the gradient")
        if not (fault == "skipped" and at_fault):
            dist.all_reduce(x)
    except MemoryError as error:
        print(f"rank {rank} goes on: {error}", flush=True)


def cross(crossed: list[dist.ProcessGroup], rank: int, x: torch.Tensor) -> None:
    """Two groups of the same two ranks, entered in opposite order."""
    if rank in (1, 2):
        for group in crossed if rank == 1 else crossed[::-1]:
            dist.all_reduce(x, group=group)


def main(fault: str) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    pairs = [dist.new_group(ranks, group_desc="pair") for ranks in ([0, 1], [2, 3])]
    pair = pairs[rank // 2]
    crossed = [dist.new_group([1, 2], group_desc=d) for d in ("left", "right")] if fault == "opposite_order" else []
    if fault == "before_first" and rank == 2:
        time.sleep(FOREVER_S)
    loader = Loader(fault == "data_loader" and rank == 2)
    for step in range(1_000_000):
        at_fault = rank == 2 and step == FAULT_STEP
        x = loader.next_batch(step)
        if at_fault:
            strike(fault)
        pause(fault, rank)
        if step == FAULT_STEP:
            cross(crossed, rank, x)
        dist.all_reduce(x, group=pair)
        reduce_in_world(fault, rank, at_fault, x)
        dist.all_reduce(x, group=pair)
        if fault == "checkpoint" and rank == 0 and step == FAULT_STEP:
            time.sleep(FOREVER_S)  # the file system is slow
        if fault in ("checkpoint", "caught", "skipped"):
            dist.broadcast(torch.ones(3), src=0)


if __name__ == "__main__":
    main(sys.argv[1])
