"""The training script. `python -m torch.distributed.run --nproc-per-node N -m job.train CASE FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist

from .faults import PLANS, Plan, fall_asleep, stop_this_process
from .layers import WIDTH, Attention, Embedding, Layer, Mlp
from .watch import Watch


def my_group(desc: str, lines: list[list[int]]) -> dist.ProcessGroup | None:
    """Make all groups of a desc, as every rank must, and return the one this rank is in."""
    made = [dist.new_group(ranks, group_desc=desc) for ranks in lines]
    return next((g for g, ranks in zip(made, lines, strict=True) if dist.get_rank() in ranks), None)


class Trainer:
    """Groups, layers and the loop."""

    def __init__(self, plan: Plan) -> None:
        self.rank, self.world, self.fault, self.plan = dist.get_rank(), dist.get_world_size(), plan.fault, plan
        pairs = [[first, first + 1] for first in range(0, self.world, 2)]
        halves = [list(range(start, self.world, 2)) for start in (0, 1)]
        self.tp = my_group("tp", pairs)
        self.dp = my_group("dp", halves) if plan.data_parallel else None
        self.buffers = [
            my_group(name, [list(plan.buffers)]) for name in ("running_mean", "running_var") if plan.buffers
        ]
        split = self.tp if plan.tensor_parallel else None
        self.embedding = Embedding(split, self.dp)
        self.attention = Attention(split, self.dp)
        self.mlp = Mlp(None, self.dp)
        self.broadcast_seed()

    def broadcast_seed(self) -> None:
        """Both members of a pair draw the same random numbers, and buffers start equal."""
        dist.all_reduce(torch.zeros(WIDTH), group=self.tp)
        self.sync_buffers(step=-1)

    def run(self) -> None:
        """All steps, then a barrier before the checkpoint."""
        for step in range(self.plan.steps):
            batch = self.next_batch(step)
            if batch is None:
                return self.wait_for_the_others()
            try:
                self.train_step(step, batch)
            except MemoryError as error:
                print(f"rank {self.rank} skips the rest of step {step}: {error}", flush=True)
        dist.barrier()
        return None

    def next_batch(self, step: int) -> torch.Tensor | None:
        """The batch of a step; None when this rank's shard has no more."""
        if self.fault.here("asleep", self.rank, step):
            fall_asleep()
        if self.fault.here("stopped", self.rank, step):
            stop_this_process()
        if self.fault.here("no_batch", self.rank, step):
            return None
        return torch.rand(WIDTH) + 0.1

    def train_step(self, step: int, batch: torch.Tensor) -> None:
        """Forward, backward, buffers, metrics."""
        hidden = batch
        layers: list[Layer] = [self.embedding, self.attention, self.mlp]
        for layer in layers:
            hidden = layer.forward(hidden)
        self.backward(step, hidden)
        self.sync_buffers(step)
        self.log_metrics(step, hidden)

    def backward(self, step: int, hidden: torch.Tensor) -> None:
        """Average the gradients, last layer first."""
        self.mlp.reduce_gradient(hidden.clone())
        self.attention.reduce_gradient(hidden.clone())
        if self.fault.here("raises", self.rank, step):
            raise MemoryError("no room for the gradient of the embedding")
        if not self.fault.here("unused_parameter", self.rank, step):
            self.embedding.reduce_gradient(hidden.clone())

    def sync_buffers(self, step: int) -> None:
        """Average both kinds of buffers over those ranks that keep them."""
        if self.rank not in self.plan.buffers:
            return
        order = self.buffers[::-1] if self.fault.here("other_order", self.rank, step) else self.buffers
        for group in order:
            if step in (-1, self.fault.step):
                dist.all_reduce(torch.zeros(WIDTH), group=group)

    def log_metrics(self, step: int, hidden: torch.Tensor) -> None:
        """Average the metrics of a step, unless this rank is about to evaluate."""
        if self.fault.here("evaluates", self.rank, step):
            dist.barrier()
        dist.all_reduce(hidden.abs())

    def wait_for_the_others(self) -> None:
        """This rank is through; a key in the store will tell when the epoch is over."""
        dist.distributed_c10d._get_default_store().wait(["epoch_is_over"])


def main(case: str, folder: Path) -> None:
    """Train, and stay until the one who records is through."""
    dist.init_process_group("gloo")
    watch = Watch(folder, dist.get_rank())
    watch.start()
    Trainer(PLANS[case]).run()
    watch.done.set()
    watch.join()
    fall_asleep()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
