"""What goes wrong in each recorded case; the training loop asks at the places where a user's script would fail."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """The fault of one case: its kind, on which rank, in which step (of `Plan.steps`)."""

    kind: str = ""
    rank: int = -1
    step: int = 2

    def here(self, kind: str, rank: int, step: int) -> bool:
        """Whether this rank does this in this step."""
        return (kind, rank, step) == (self.kind, self.rank, self.step)


@dataclass(frozen=True)
class Plan:
    """One case: number of ranks, whether activations are split in every step, replicas as dp groups, and the fault."""

    ranks: int
    fault: Fault = Fault()
    tensor_parallel: bool = True
    data_parallel: bool = False
    buffers: tuple[int, ...] = ()  # ranks that also synchronise two kinds of buffers, each in a group of its own
    steps: int = 4


PLANS = {
    "gloo_healthy": Plan(4),
    "gloo_rank_asleep": Plan(8, Fault("asleep", 5), data_parallel=True),
    "gloo_skipped_collective": Plan(4, Fault("unused_parameter", 2, 1), tensor_parallel=False),
    "gloo_other_operation": Plan(4, Fault("evaluates", 3)),
    "gloo_group_order": Plan(4, Fault("other_order", 1), buffers=(0, 1)),
    "gloo_group_order_minority": Plan(4, Fault("other_order", 2), buffers=(0, 1, 2)),
    "gloo_rank_stopped": Plan(4, Fault("stopped", 1)),
    "gloo_error_swallowed": Plan(4, Fault("raises", 1, 1), tensor_parallel=False),
    "gloo_uneven_batches": Plan(6, Fault("no_batch", 3, 3)),
}


def fall_asleep() -> None:
    """A data loader that waits for a worker which does not come."""
    while True:
        time.sleep(3600)


def stop_this_process() -> None:
    """As a debugger or a full disk may do; nothing in this process runs from here on."""
    os.kill(os.getpid(), signal.SIGSTOP)
