"""Ranks that never came: idle hosts, ended loops, stopped processes that still left a dump."""

from __future__ import annotations

from tests.jobs.builder import Job
from tests.jobs.scenes import data_parallel, grid_step, one_forward_one_backward, sharded
from tests.jobs.story import story


@story("rank_not_joined", [2], "Ranks 0, 1 and 3 wait in all_reduce 13; rank 2 finished 12 and issued nothing more.")
def absent_from_all_reduce() -> Job:
    """V1, V2, V4."""
    return data_parallel(Job(4), 4).stop(2).all_reduce()


@story(
    "rank_not_joined",
    [0],
    "Everybody but rank 0 waits in the next step's all_reduce; rank 0 still writes the checkpoint.",
)
def absent_first_rank_saves_checkpoint() -> Job:
    """V1, V4: the one that would be the reference is the culprit."""
    job = data_parallel(Job(8), 3).barrier(at="checkpoint.py:20 in before_save")
    return data_parallel(job.stop(0), 1)


@story(
    "rank_not_joined", [7], "Rank 7 sits in its data loader; seven ranks wait in the first reduction of the next step."
)
def absent_last_rank_of_eight() -> Job:
    """V4, V2."""
    return data_parallel(data_parallel(Job(8, ahead=4), 3).stop(7), 1)


@story("rank_not_joined", [2, 5], "Ranks 2 and 5 stopped after the same step; the six others wait in the next.")
def absent_two_of_eight() -> Job:
    """V9."""
    return data_parallel(sharded(Job(8), 2).stop(2, 5), 1)


@story(
    "rank_not_joined",
    [5, 6, 7],
    """Three of eight ranks ran out of batches and ended their epoch; the five others
    wait in the all_to_all of one more batch.""",
)
def absent_uneven_batches() -> Job:
    """V4: uneven number of batches."""
    job = Job(8)
    for batch in range(4):
        if batch == 3:
            job.stop(5, 6, 7)
        job.all_to_all(at="shard.py:44 in exchange").all_reduce(shape=[16], at="train.py:88 in backward")
    return job


@story("rank_not_joined", [1], "Two ranks: rank 0 waits in all_reduce 4, rank 1 did three and nothing else.")
def absent_of_two() -> Job:
    """V4, L3: no majority is needed where one is idle."""
    return Job(2).all_reduce().all_reduce().all_reduce().stop(1).all_reduce()


@story(
    "rank_not_joined",
    [5],
    """Rank 5 never entered its tp group's call; rank 4 waits there, the others wait in dp
    and default groups for one of them: all lead back to rank 5.""",
)
def absent_in_small_group_holds_up_all() -> Job:
    """V1, V2: victims are folded under the root through joined-but-blocked ranks."""
    return grid_step(grid_step(Job(8).grid(tp=2, dp=4), 3).stop(5))


@story(
    "rank_not_joined",
    [3],
    """A chain: rank 3 stopped, rank 2 waits for it in group a, rank 1 for rank 2 in b, rank 0 for rank 1 in c.""",
)
def absent_at_the_end_of_a_chain() -> Job:
    """V1, V2."""
    job = Job(4).group("a", [2, 3]).group("b", [1, 2]).group("c", [0, 1])
    for step in range(3):
        if step == 2:
            job.stop(3)
        job.all_reduce("a").all_reduce("b").all_reduce("c").all_reduce(shape=[1])
    return job


@story(
    "rank_not_joined",
    [1, 6],
    """Rank 1 stopped in the first tp group and rank 6 in the last; nobody waits for both
    through one event alone, and neither explains the other.""",
)
def absent_in_two_places() -> Job:
    """V9: several roots are united."""
    return grid_step(grid_step(Job(8).grid(tp=2, dp=4), 2).stop(1, 6))


@story(
    "rank_not_joined",
    [1, 2, 3],
    """Rank 0 alone waits in all_reduce 10; the three others finished 9 and are idle. Whether
    rank 0 called once too often or the others once too seldom is not in the dumps.""",
    also=["collective_skipped"],
    also_culprits=[[0]],
)
def absent_all_but_one() -> Job:
    """L5, V4: the waiter may be the shifted one, but there is nothing after it to show that."""
    job = data_parallel(Job(4), 3)
    return job.all_reduce(shape=[1], at="callbacks.py:31 in on_fit_end").only(0)


@story("rank_not_joined", [2], "Rank 2 never came to an uneven all_gather: only its closer and inner entries wait.")
def absent_from_coalesced_all_gather() -> Job:
    """P2: the batch is one op."""
    return Job(4).all_reduce().all_gather_uneven([4, 4, 4, 3]).stop(2).all_gather_uneven([4, 4, 4, 3])


@story(
    "rank_not_joined",
    [2],
    "A coalesced batch of all_reduce waits for rank 2, which is idle. Recorded without inner entries.",
)
def absent_from_coalesced_without_parts() -> Job:
    """P2."""
    job = Job(4, version="2.4").all_gather_uneven([4, 4, 4, 3]).all_reduce()
    return job.stop(2).all_gather_uneven([4, 4, 4, 3])


@story(
    "rank_not_joined",
    [1],
    """The middle stage of a pipeline does nothing any more; its neighbours wait in transfers with
    it and the last stage is held up behind.""",
)
def absent_pipeline_stage() -> Job:
    """V4, L6: idle is rank_not_joined, also where only transfers wait for it."""
    job = one_forward_one_backward(Job(4).group("pp", range(4)), range(4), 3).all_reduce(shape=[1])
    return one_forward_one_backward(job.stop(1), range(4), 3)


@story(
    "rank_not_joined", [3], "Rank 0 waits in a send; rank 3 never posted the receive and issued nothing else either."
)
def absent_receiver() -> Job:
    """V4, L6."""
    return Job(4).all_reduce().transfer(0, 3).all_reduce().stop(3).transfer(0, 3).all_reduce()


@story(
    "rank_not_joined", [0], "The sources of a pipeline are dry: rank 1 waits in a receive, rank 0 issued nothing more."
)
def absent_sender() -> Job:
    """V4, L6."""
    job = Job(3).group("pp", range(3))
    for _ in range(3):
        job.transfer(0, 1, "pp").transfer(1, 2, "pp")
    return job.stop(0).transfer(0, 1, "pp").transfer(1, 2, "pp")


@story("rank_not_joined", [2], """The root of a broadcast did not come: the three others wait for it, it is idle.""")
def absent_root_of_broadcast() -> Job:
    """L2, V4: the root is not recorded, but it is the only one absent."""
    return data_parallel(Job(4), 2).stop(2).broadcast(root=2)


@story(
    "rank_not_joined",
    [3],
    """Rank 3 missed a broadcast that the others finished without it; they wait for rank 3 in the
    all_reduce after that.""",
)
def absent_from_broadcast_then_missed() -> Job:
    """L2, P4: an unfinished one-way part holds nobody up, the all_reduce does."""
    return data_parallel(Job(4), 2).stop(3).broadcast(root=0).all_reduce()


@story(
    "rank_not_joined",
    [2],
    "Only active entries were dumped: the idle rank has none, its pg_status ends one before the others.",
)
def absent_in_only_active_dumps() -> Job:
    """P3, P5: pg_status fills what no entry tells."""
    return data_parallel(data_parallel(Job(4, ahead=3), 4).stop(2), 1).only_active()


@story("rank_not_joined", [1], "Only active entries of a grid job: rank 1 shows nothing, its tp and dp peers wait.")
def absent_in_only_active_grid() -> Job:
    """P1, P3, P5, V2."""
    return grid_step(grid_step(Job(8, ahead=2).grid(tp=2, dp=4), 5).stop(1)).only_active()


@story(
    "rank_not_joined",
    [2],
    """Rank 2 wrote a dump without entries, and its peers have nothing older than the first
    collective: it never issued any.""",
    also=["insufficient_evidence"],
    also_culprits=[[]],
)
def absent_from_the_first_call() -> Job:
    """P10: an empty dump, and peers that begin at the first operation."""
    return Job(4).eagerly_initialised().stop(2).all_reduce()


@story(
    "rank_not_joined",
    [2],
    """Rank 2's dump has no entries, but its pg_status says that it enqueued and completed one
    collective less than the others wait in.""",
)
def absent_by_pg_status_alone() -> Job:
    """P5, P10."""
    return data_parallel(Job(4), 3).stop(2).all_reduce().empty_dump(2, pg_status=True)


@story(
    "insufficient_evidence",
    [],
    """Rank 2's dump holds neither entries nor pg_status, though its peers finished nine
    collectives with it: its recorder was off or emptied. Whether it came to the tenth cannot be told.""",
    also=["rank_without_dump"],
    also_culprits=[[2]],
)
def absent_or_not_recorder_was_off() -> Job:
    """P10."""
    return data_parallel(Job(4), 3).stop(2).all_reduce().empty_dump(2)


@story(
    "all_joined_none_finished",
    [],
    """Rank 2's dump has no entries key, but pg_status says it enqueued 10 and completed
    9, like the others, who all wait in 10.""",
)
def present_by_pg_status_alone() -> Job:
    """P5: last_enqueued without an entry means entered, not finished."""
    job = data_parallel(Job(4), 3).all_reduce().never_finishes()
    return job.empty_dump(2, pg_status=True, entries_key=False)


@story(
    "insufficient_evidence",
    [],
    """Rank 1's dump has no entries; its pg_status belongs to a group that carries transfers,
    where one field mixes two counters, so it does not say whether rank 1 came to the all_reduce.""",
    also=["rank_without_dump"],
    also_culprits=[[1]],
)
def absent_or_not_counters_are_mixed() -> Job:
    """P5, L7: pg_status of a group with transfers is not used."""
    job = Job(3)
    for _ in range(3):
        job.transfer(0, 1).transfer(1, 2).all_reduce()
    return job.all_reduce().never_finishes().empty_dump(1, pg_status=True)
