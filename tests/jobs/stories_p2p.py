"""Sends and receives that have no partner."""

from __future__ import annotations

from tests.jobs.builder import Job, recv_from, send_to
from tests.jobs.scenes import one_forward_one_backward
from tests.jobs.story import story


def _rounds(job: Job, rounds: int, source: int = 0, target: int = 3, group: str = "default_pg") -> Job:
    """Rounds of one all_reduce over all and one transfer."""
    for _ in range(rounds):
        job.all_reduce().transfer(source, target, group)
    return job


@story(
    "p2p_unmatched",
    [3],
    """Three rounds of all_reduce and a transfer 0 -> 3. In the fourth rank 0 waits in the send, and
    rank 3 went on to the next all_reduce without the receive.""",
    also_culprits=[[0, 3]],
)
def receive_left_out() -> Job:
    """V3, V4, L6: it went on past its turn; the earlier rounds show that it belongs there."""
    return _rounds(Job(4), 3).all_reduce().transfer(0, 3).skip(3).all_reduce()


@story(
    "p2p_unmatched",
    [0],
    "Rank 3 waits in a receive; rank 0 sent in every round before, and went on without this time.",
    also_culprits=[[0, 3]],
)
def send_left_out() -> Job:
    """V3, V4, L6."""
    return _rounds(Job(4), 3).all_reduce().transfer(0, 3).skip(0).all_reduce()


@story(
    "p2p_unmatched",
    [3],
    """Group {1, 3} calls its ranks 0 and 1: the receive that is missing is 1<-0 of the group, on
    global rank 3.""",
    also_culprits=[[1, 3]],
)
def receive_left_out_in_a_group() -> Job:
    """P1, L6: names of transfers are group-local."""
    job = _rounds(Job(4).group("pp", [0, 2]).group("pp", [1, 3]), 3, 1, 3, "pp")
    return job.all_reduce().transfer(1, 3, "pp").skip(3).all_reduce()


@story(
    "p2p_unmatched",
    [3],
    """Rings of ten entries have wrapped. Paired from the newest backwards, the last send 0 -> 3 has no
    receive, and rank 3 is past its turn.""",
    also_culprits=[[0, 3]],
)
def receive_left_out_with_wrapped_rings() -> Job:
    """L6, P7: finished with finished from the newest backwards."""
    job = _rounds(Job(4).already(50, p2p={0: 50, 3: 50}), 12)
    return job.all_reduce().transfer(0, 3).skip(3).all_reduce().ring(10)


@story(
    "p2p_unmatched",
    [2],
    """Rank 2 left the whole exchange of the fourth round out and waits in the all_reduce; rank 3's
    batch with it is open.""",
    also_culprits=[[2, 3]],
)
def batch_left_out() -> Job:
    """P2, L6, V3: a batch is one op with several peers."""
    job = Job(4)
    for turn in range(4):
        if turn < 3:
            job.batch(2, send_to(3), recv_from(3))
        job.batch(3, send_to(2), recv_from(2)).all_reduce()
    return job


@story(
    "p2p_unmatched",
    [1],
    """In the fourth round rank 1's batch holds the send to rank 2 but not the receive from it; rank 2's
    batch stays open for its send, and rank 1 went on.""",
    also=["group_order_deadlock"],
    also_culprits=[[1, 2]],
)
def receive_left_out_of_a_batch() -> Job:
    """P2, L6."""
    job = Job(4)
    for turn in range(4):
        job.batch(1, send_to(2), *([recv_from(2)] if turn < 3 else [])).batch(2, send_to(1), recv_from(1)).all_reduce()
    return job


@story(
    "p2p_unmatched",
    [0, 3],
    "Rank 0 sends 512 elements, rank 3 receives 500: one of the pair is wrong.",
    also_culprits=[[]],
)
def sizes_of_a_pair_differ() -> Job:
    """L6."""
    return _rounds(Job(4), 2).all_reduce().transfer(0, 3, n=512).but(3, shape=[500]).all_reduce()


@story(
    "p2p_unmatched",
    [1, 2],
    "In a batch of the pipeline stage 1 sends 16 x 256 and stage 2 receives 16 x 128.",
    also_culprits=[[]],
)
def sizes_of_a_batch_differ() -> Job:
    """L6, P2."""
    job = one_forward_one_backward(Job(3).group("pp", range(3)), range(3), 2).all_reduce(shape=[1])
    job.batch(0, send_to(1, 16, 256), group="pp").batch(1, recv_from(0, 16, 256), group="pp")
    return job.batch(1, send_to(2, 16, 256), group="pp").batch(2, recv_from(1, 16, 128), group="pp").all_reduce()


@story(
    "group_order_deadlock",
    [0, 1],
    """Both ranks send before they receive, outside a batch: each send waits for a receive
    that comes after the other's send.""",
    also=["p2p_unmatched"],
)
def two_sends_face_each_other() -> Job:
    """V3: two unposted sends facing each other are the cycle."""
    return Job(3).all_reduce().send(0, 1).send(1, 0).recv(0, 1).recv(1, 0).all_reduce()


@story(
    "group_order_deadlock",
    [0, 1, 2, 3],
    "Every rank of a ring sends to the next before it receives: a cycle of four sends.",
    also=["p2p_unmatched"],
)
def ring_of_sends() -> Job:
    """V3, L6."""
    job = Job(4).all_reduce()
    for rank in range(4):
        job.send(rank, (rank + 1) % 4)
    for rank in range(4):
        job.recv(rank, (rank - 1) % 4)
    return job.all_reduce()


@story(
    "group_order_deadlock",
    [1, 2],
    """Stages 1 and 2 exchange the shapes of what comes next: both receive first, so nobody
    sends. Stage 0 waits behind.""",
    also=["p2p_unmatched"],
)
def two_receives_face_each_other() -> Job:
    """V3, L6: variable sequence lengths in a pipeline."""
    job = Job(3).eagerly_initialised().group("pp", range(3)).all_reduce()
    job.recv(1, 2, "pp", n=3, dtype="Long", at="schedule.py:90 in exchange_shapes")
    job.recv(2, 1, "pp", n=3, dtype="Long", at="schedule.py:90 in exchange_shapes")
    return job.send(0, 1, "pp").recv(1, 0, "pp").send(1, 2, "pp").send(2, 1, "pp").all_reduce()


@story(
    "rank_not_joined",
    [3],
    """Rank 0 sends a fourth time; rank 3 received three times and is idle, like ranks 1 and 2, for
    whom nobody waits.""",
    also=["p2p_unmatched"],
    also_culprits=[[0], [0, 3]],
)
def one_send_too_many() -> Job:
    """V4: idle is rank_not_joined, also where only a transfer waits for it."""
    return _rounds(Job(4), 3).send(0, 3)


@story(
    "p2p_unmatched",
    [1],
    """In a ring of batches rank 1 receives from rank 2 instead of rank 0: rank 0's send and rank 1's
    receive find nobody, ranks 2 and 3 wait in the next all_reduce.""",
    also=["group_order_deadlock"],
    also_culprits=[[0, 1], [1, 2], [0, 1, 2]],
)
def receive_from_the_wrong_side() -> Job:
    """L6, V3."""
    job = Job(4)
    for turn in range(3):
        for rank in range(4):
            before = 2 if (turn, rank) == (2, 1) else (rank - 1) % 4
            job.batch(rank, send_to((rank + 1) % 4), recv_from(before))
        job.all_reduce()
    return job


@story("rank_without_dump", [3], "Rank 0 waits in a send to rank 3, which left no dump; the others wait behind rank 0.")
def receiver_without_dump() -> Job:
    """V5, L6."""
    return _rounds(Job(4), 2).all_reduce().dead_process(3).transfer(0, 3).all_reduce()


@story("all_joined_none_finished", [], "Send and receive are both posted, with equal sizes, and neither finishes.")
def transfer_on_a_dead_link() -> Job:
    """V1, L6: nobody is held up elsewhere."""
    return _rounds(Job(4), 2).all_reduce().transfer(0, 3).never_finishes().all_reduce()


@story(
    "rank_not_joined",
    [3],
    """Stage 0 waits in a send to stage 1; that is ranks 0 and 2. Rank 2 waits in its tp group for rank 3,
    which is idle.""",
)
def transfer_behind_an_idle_rank() -> Job:
    """V1, V2: the path leads through a transfer."""
    job = Job(4).group("tp", [0, 1]).group("tp", [2, 3]).group("pp", [0, 2]).group("pp", [1, 3])
    for _ in range(2):
        job.all_reduce("tp").all_reduce("tp", [7]).transfer(0, 2, "pp").transfer(1, 3, "pp")
    return job.all_reduce("tp").stop(3).all_reduce("tp", [7]).transfer(0, 2, "pp").transfer(1, 3, "pp")


# ---- transfers without peers


@story(
    "insufficient_evidence",
    [],
    """torchcomms: rank 0 waits in a send, to whom is not recorded. Rank 1 received in every
    earlier round and waits in the all_reduce now, like rank 2; all that is a hint.""",
)
def send_without_peer() -> Job:
    """L6, P8: transfers without peers give no edge."""
    job = Job(3, lib="torchcomms")
    for _ in range(3):
        job.all_reduce().transfer(0, 1)
    return job.all_reduce().transfer(0, 1).skip(1).all_reduce()


@story(
    "insufficient_evidence",
    [],
    "Rank 1 waits for a message from anybody; ranks 0 and 2 wait for rank 1 in the all_reduce.",
)
def receive_from_anybody() -> Job:
    """L6: recv 1<-? gives no edge."""
    job = Job(3, lib="nccl2")
    for _ in range(3):
        job.all_reduce().transfer(0, 1).but(1, op="recv 1<-?")
    return job.all_reduce().recv(1, 0).but(1, op="recv 1<-?").all_reduce()


@story("no_fault", [], "Rank 1 takes messages from anybody; all of them came.")
def received_from_anybody() -> Job:
    """L6 silent."""
    job = Job(3, lib="nccl2")
    for turn in range(4):
        job.all_reduce().transfer(2 * (turn % 2), 1).but(1, op="recv 1<-?")
    return job.all_reduce()
