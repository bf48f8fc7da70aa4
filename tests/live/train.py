"""A training script for the tests of running jobs: `train.py FAULT [STORE]`, run by torchrun. Knows nothing of whichrank
unless a store is given.

Every step reduces in a pair, then in the world. The fault comes in step 3 (healthy jobs run until they are ended).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

FAULT_STEP = 3


def sleep_for_ever() -> None:
    """Whatever the rank waits for does not come."""
    while True:
        time.sleep(3600)


def hold_the_gil() -> None:
    """A C call that does not release the interpreter's lock."""
    ctypes.PyDLL(None).sleep(3600)


class Loader:
    """Batches; on one rank the worker that makes them hangs."""

    def __init__(self, hangs: bool) -> None:
        self.hangs = hangs

    def next_batch(self, step: int) -> torch.Tensor:
        """The batch of a step."""
        if self.hangs and step == FAULT_STEP:
            sleep_for_ever()
        return torch.ones(16)


def checkpoint(seconds: float) -> None:
    """Rank 0 writes, and the file system is slow."""
    time.sleep(seconds)


def main(fault: str) -> None:
    """The loop, with a fault on rank 2 (checkpoints: rank 0)."""
    if fault == "before_first" and os.environ["RANK"] == "2":
        dist.init_process_group("gloo")
        dist.new_group([0, 1], group_desc="pair")
        dist.new_group([2, 3], group_desc="pair")
        sleep_for_ever()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    pairs = [dist.new_group(ranks, group_desc="pair") for ranks in ([0, 1], [2, 3])]
    pair = pairs[rank // 2]
    crossed = [dist.new_group([1, 2], group_desc=d) for d in ("left", "right")] if fault == "opposite_order" else []
    loader = Loader(fault == "data_loader" and rank == 2)
    odd = rank == 2
    step = 0
    while fault.startswith("healthy") or step < 1000:
        x = loader.next_batch(step)
        at_fault = odd and step == FAULT_STEP
        if fault == "asleep" and at_fault:
            sleep_for_ever()
        if fault == "stopped" and at_fault:
            os.kill(os.getpid(), signal.SIGSTOP)
        if fault == "killed" and at_fault:
            time.sleep(1.0)  # the others wait already
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "gil" and at_fault:
            hold_the_gil()
        if fault == "healthy_slow":
            time.sleep(3.0)
        elif fault == "healthy_last" and odd:
            time.sleep(0.6)
        else:
            time.sleep(0.05)
        if fault == "subgroup" and at_fault:
            sleep_for_ever()
        if crossed and rank in (1, 2) and step == FAULT_STEP:
            for group in crossed if rank == 1 else crossed[::-1]:
                dist.all_reduce(x, group=group)
        dist.all_reduce(x, group=pair)
        try:
            if fault == "caught" and at_fault:
                raise MemoryError("no room for the gradient")
            if not (fault == "skipped" and at_fault):
                dist.all_reduce(x)
        except MemoryError as error:
            print(f"rank {rank} goes on: {error}", flush=True)
        dist.all_reduce(x, group=pair)
        if fault == "checkpoint" and rank == 0 and step == FAULT_STEP:
            checkpoint(3600)
        if fault in ("checkpoint", "caught", "skipped"):
            dist.broadcast(torch.ones(3), src=0)
        step += 1


if __name__ == "__main__":
    if len(sys.argv) > 2:
        import whichrank

        whichrank.watch(sys.argv[2])
    main(sys.argv[1])
