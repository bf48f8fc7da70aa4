"""A job whose ranks come to stand somewhere.

`python -m torch.distributed.run --nproc-per-node N -m job.stands CASE FOLDER`.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from .faults import fall_asleep, stop_this_process
from .layers import WIDTH
from .watch import Watch

FAULT_STEP = 3


class Samples(Dataset):  # type: ignore[misc]  # torch is Any to mypy
    """Samples on a file system that stops answering at one of them."""

    def __init__(self, lost: int | None) -> None:
        self.lost = lost

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.lost:
            fall_asleep()
        return torch.rand(WIDTH)


class Trainer:
    """The loop, and the faults of the cases."""

    def __init__(self, case: str, folder: Path) -> None:
        self.case, self.folder, self.rank = case, folder, dist.get_rank()
        everywhere = case == "stacks_symmetric"
        lost = FAULT_STEP if (case == "stacks_data_loader" and self.rank == 2) or everywhere else None
        self.batches = DataLoader(Samples(lost), batch_size=1, num_workers=0 if case == "stacks_healthy" else 1)

    def run(self) -> None:
        """Steps until the fault, or for ever."""
        step = 0
        while True:
            for batch in self.epoch():
                self.train_step(step, batch)
                step += 1

    def epoch(self) -> Iterator[torch.Tensor]:
        """The batches of one epoch."""
        for batch in self.batches:
            time.sleep(0.05)  # what a tokenizer takes
            yield batch

    def train_step(self, step: int, batch: torch.Tensor) -> None:
        """Forward, backward, reduction; now and then a checkpoint."""
        loss = self.forward(batch)
        if step == FAULT_STEP:
            self.at_fault(loss)
        self.reduce(loss)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Work for the host."""
        for _ in range(200):
            batch = torch.tanh(batch + 0.01)
        return batch.sum()

    def at_fault(self, loss: torch.Tensor) -> None:
        """What one of the ranks does instead of coming to the reduction."""
        if self.case == "stacks_checkpoint" and self.rank == 0:
            self.save(loss)
        elif self.case == "stacks_gil_sleep" and self.rank == 3:
            ctypes.PyDLL(None).sleep(3600)
        elif self.case == "stacks_rank_stopped" and self.rank == 1:
            stop_this_process()
        elif self.case == "stacks_recv_circle":
            dist.recv(torch.zeros(1), src=(self.rank - 1) % dist.get_world_size())

    def save(self, loss: torch.Tensor) -> None:
        """To a file system that takes nothing more: a pipe without a reader."""
        path = self.folder / "model.pt"
        os.mkfifo(path)
        torch.save({"loss": loss}, path)

    def reduce(self, loss: torch.Tensor) -> None:
        """Average the loss."""
        dist.all_reduce(loss)


def main(case: str, folder: Path) -> None:
    """Say which process this is, then train."""
    dist.init_process_group("gloo")
    (folder / f"pid_{dist.get_rank()}").write_text(str(os.getpid()))
    if case == "stacks_data_loader":
        Watch(folder, dist.get_rank()).start()
    Trainer(case, folder).run()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
