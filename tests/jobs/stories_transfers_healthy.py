"""Pipelines and rings without a fault: every check must be silent about them."""

from __future__ import annotations

from tests.jobs.builder import Job, recv_from, send_to
from tests.jobs.scenes import one_forward_one_backward
from tests.jobs.story import story


@story(
    "no_fault",
    [],
    """A pipeline of four stages in 1F1B order: first and last stage send and receive half as much as
    the middle ones.""",
)
def healthy_one_forward_one_backward() -> Job:
    """P2, L6, L7 silent."""
    job = Job(4).group("pp", range(4)).group("embedding", [0, 3])
    for _ in range(2):
        one_forward_one_backward(job, range(4), 4).all_reduce("embedding", [256], at="train.py:92 in tie_embeddings")
        job.all_reduce(shape=[1], dtype="Float")
    return job


@story("no_fault", [], "Three stages pass activations on with single sends and receives.")
def healthy_single_transfers() -> Job:
    """P5, L6, L7 silent: pg_status of a group with transfers mixes two counters."""
    job = Job(3).group("pp", range(3)).all_reduce()
    for _ in range(4):
        job.transfer(0, 1, "pp").transfer(1, 2, "pp")
    return job.transfer(2, 1, "pp").all_reduce("pp", [4]).all_reduce()


@story("no_fault", [], "A group {1, 3} names its ranks 0 and 1 in transfers; nothing is missing.")
def healthy_local_names_of_ranks() -> Job:
    """P1, L6 silent: names of transfers are group-local."""
    job = Job(4).group("pp", [0, 2]).group("pp", [1, 3]).all_reduce()
    for _ in range(3):
        job.transfer(1, 3, "pp").transfer(3, 1, "pp").transfer(0, 2, "pp")
    return job.all_reduce()


@story("no_fault", [], "Every rank exchanges with both neighbours of a ring in one batch.")
def healthy_ring_exchange() -> Job:
    """P2, L6 silent: a batch is one event with several peers."""
    job = Job(4).group("cp", range(4)).all_reduce()
    for _ in range(3):
        for rank in range(4):
            job.batch(rank, send_to((rank + 1) % 4), recv_from((rank - 1) % 4), group="cp")
    return job.all_reduce()


@story(
    "no_fault",
    [],
    """Two model chunks per rank: the ring of stages goes round twice per microbatch, so that even
    the last rank sends to the first.""",
)
def healthy_interleaved_pipeline() -> Job:
    """P2, L6, L7 silent."""
    job = Job(3).group("pp", range(3))
    for _ in range(4):
        job.transfer(0, 1, "pp").transfer(1, 2, "pp").transfer(2, 0, "pp", at="schedule.py:310 in next_chunk")
        job.transfer(0, 1, "pp", at="schedule.py:310 in next_chunk").transfer(1, 2, "pp")
    return job.all_reduce(shape=[1])
