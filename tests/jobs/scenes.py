"""Pieces of training that several stories share."""

from __future__ import annotations

from collections.abc import Sequence

from tests.jobs.builder import Job, recv_from, send_to
from tests.jobs.model import Move

FORWARD = ("schedule.py:212 in forward_step", "train.py:120 in train_step")
LINES = (10, 20, 30)
BACKWARD = ("schedule.py:260 in backward_step", "train.py:120 in train_step")


def data_parallel(job: Job, steps: int, group: str = "default_pg", buckets: int = 2) -> Job:
    """Steps that reduce a few gradient buckets, then the loss."""
    for _ in range(steps):
        for bucket in range(buckets):
            job.all_reduce(group, [4096 * (bucket + 1)], at=f"train.py:{80 + bucket} in backward")
        job.all_reduce(group, [1], dtype="Float", at="train.py:95 in log_loss")
    return job


def sharded(job: Job, steps: int, group: str = "default_pg", layers: int = 2) -> Job:
    """Steps of a fully sharded model: gather each layer, scatter its gradients, reduce the norm."""
    for _ in range(steps):
        for layer in range(layers):
            job.all_gather(group, 512 * (layer + 1), at=("fsdp.py:140 in unshard", "train.py:70 in forward"))
        for layer in reversed(range(layers)):
            job.reduce_scatter(group, 512 * (layer + 1), at=("fsdp.py:188 in reduce_grads", "train.py:88 in backward"))
        job.all_reduce(group, [1], dtype="Float", at="train.py:99 in clip_grad_norm")
    return job


def grid_step(job: Job, steps: int = 1) -> Job:
    """Steps of a job with groups tp and dp: two tensor-parallel calls, one bucket, the norm over all."""
    for _ in range(steps):
        job.all_reduce("tp", [64, 128], at=("layers.py:31 in row_parallel", "train.py:70 in forward"))
        job.all_reduce("tp", [64, 128], at=("layers.py:58 in column_parallel_grad", "train.py:88 in backward"))
        job.all_reduce("dp", [8192], at="train.py:90 in reduce_gradients")
        job.all_reduce(shape=[1], dtype="Float", at="train.py:99 in clip_grad_norm")
    return job


def lines(job: Job, steps: int, skipping: dict[tuple[int, int], tuple[int, ...]], group: str = "default_pg") -> Job:
    """Equal all_reduce from three lines a step; `skipping[(step, line)]` ranks leave one out."""
    for step in range(steps):
        for line in LINES:
            job.all_reduce(group, at=f"train.py:{line} in step").skip(*skipping.get((step, line), ()))
    return job


def one_forward_one_backward(job: Job, stages: Sequence[int], microbatches: int, group: str = "pp") -> Job:
    """The 1F1B schedule over pipeline stages (global ranks), every exchange a batch as Megatron issues it."""
    for place, rank in enumerate(stages):
        before = stages[place - 1] if place else None
        after = stages[place + 1] if place + 1 < len(stages) else None
        warmup = min(len(stages) - place - 1, microbatches)
        for _ in range(warmup):
            _exchange(job, rank, group, FORWARD, _recv(before))
            _exchange(job, rank, group, FORWARD, _send(after))
        steady = microbatches - warmup
        for turn in range(steady):
            if turn == 0:
                _exchange(job, rank, group, FORWARD, _recv(before))
            _exchange(job, rank, group, FORWARD, _send(after), _recv(after))
            last = turn == steady - 1
            _exchange(job, rank, group, BACKWARD, _send(before), *([] if last else [_recv(before)]))
        for _ in range(warmup):
            _exchange(job, rank, group, BACKWARD, _recv(after))
            _exchange(job, rank, group, BACKWARD, _send(before))
    return job


def _send(peer: int | None) -> Move | None:
    return None if peer is None else send_to(peer, 16, 256)


def _recv(peer: int | None) -> Move | None:
    return None if peer is None else recv_from(peer, 16, 256)


def _exchange(job: Job, rank: int, group: str, at: tuple[str, str], *moves: Move | None) -> None:
    """One batch of the moves that have a peer; the first stage receives nothing and the last sends nothing on."""
    real = [move for move in moves if move is not None]
    if real:
        job.batch(rank, *real, group=group, at=at)
