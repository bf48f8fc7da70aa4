"""Jobs without a fault, as programs: every check must be silent about them."""

from __future__ import annotations

from tests.jobs.builder import Job, Part
from tests.jobs.scenes import data_parallel, grid_step, one_forward_one_backward, sharded
from tests.jobs.story import story


@story("no_fault", [], "Six steps of data parallel training, everything finished everywhere.")
def healthy_data_parallel() -> Job:
    """L1, V1 silent."""
    return data_parallel(Job(4), 6)


@story("no_fault", [], "Two ranks, everything finished: the smallest job there is.")
def healthy_two_ranks() -> Job:
    """L3 silent: a group of two has no majority."""
    return data_parallel(Job(2), 3)


@story("no_fault", [], "Eight ranks with tp and dp groups, everything finished.")
def healthy_grid() -> Job:
    """P1, V1 silent: pg_id 1 is another tp group on ranks 0 and 2."""
    return grid_step(Job(8).grid(tp=2, dp=4), 4)


@story("no_fault", [], "A sharded model whose hosts run far ahead of the device; everything finished in the end.")
def healthy_hosts_run_ahead() -> Job:
    """P7 silent."""
    return sharded(Job(8, ahead=12), 4)


@story("no_fault", [], "tp, dp and pp groups at once: collectives and a pipeline schedule, all finished.")
def healthy_three_dimensions() -> Job:
    """P1, P2, L6, L7 silent: stages have different numbers of transfers."""
    job = Job(8).grid(tp=2, dp=2, pp=2)
    for _ in range(2):
        job.all_reduce("tp", [64, 128])
        for first in range(4):
            one_forward_one_backward(job, [first, first + 4], 3)
        job.all_reduce("dp", [4096], at="train.py:90 in reduce_gradients").all_reduce(shape=[1], dtype="Float")
    return job


@story(
    "no_fault", [], "The two dp replicas of the first tp rank evaluate more often than the others: groups of their own."
)
def healthy_groups_of_unequal_use() -> Job:
    """P1, L7 silent: groups of one desc need not be used equally often."""
    job = grid_step(Job(4).grid(tp=2, dp=2), 2)
    for _ in range(5):
        job.all_reduce("dp", [1], of=0, at="train.py:130 in evaluate")
    return job.barrier()


@story(
    "no_fault",
    [],
    """Every rank has a group named 1 of its own, and uses it as often as it likes: the name is the
    same, the members are not.""",
)
def healthy_same_name_single_members() -> Job:
    """P1 silent."""
    job = Job(2).group("local", [0], name="1").group("local", [1], name="1")
    job.all_reduce().all_reduce("local", [8], of=0)
    for _ in range(3):
        job.all_reduce("local", [16], of=1)
    return job.all_reduce()


@story(
    "no_fault",
    [],
    """Two halves of a split group carry the same hashed name; one half does one collective more,
    with other sizes.""",
)
def healthy_same_name_two_halves() -> Job:
    """P1 silent: the key of a group is (name, ranks)."""
    job = Job(4).group("half", [0, 1], name="8f3a1c").group("half", [2, 3], name="8f3a1c")
    job.all_reduce().all_reduce("half", [64], of=0).all_reduce("half", [32], of=2).all_gather("half", of=2)
    return job.all_reduce()


@story(
    "no_fault",
    [],
    """A group was destroyed and made again under the same name with other members; pg_config shows
    only the newer one.""",
)
def healthy_group_made_again() -> Job:
    """P1 silent: within one process two pg_ids are never one group."""
    job = Job(4).group("ep", [0, 1, 2], name="ep0").group("ep", [0, 3], name="ep0")
    old, new = job.groups[1:]
    job.all_reduce(old, [10]).all_reduce(old, [20]).all_reduce(old, [30]).all_reduce()
    return job.all_reduce(new, [99]).all_gather(new).all_reduce()


@story("no_fault", [], "The same group is described as default_pg on one rank and as undefined on the other.")
def healthy_desc_differs() -> Job:
    """P1 silent."""
    return data_parallel(Job(2), 2).desc_seen(1, "0", "undefined")


@story("no_fault", [], "Tokens are spread unevenly over experts, but what is sent in total is what is received.")
def healthy_uneven_all_to_all() -> Job:
    """L1 silent: all_to_all has no size per rank."""
    job = Job(4).all_reduce()
    job.all_to_all(sends={0: 100, 1: 20, 2: 44, 3: 36}, receives={0: 50, 1: 50, 2: 60, 3: 40})
    return job.all_to_all(sends={0: 50, 1: 50, 2: 60, 3: 40}, receives={0: 100, 1: 20, 2: 44, 3: 36}).all_reduce()


@story("no_fault", [], "One expert gets no token at all in one step.")
def healthy_all_to_all_with_nothing_for_one() -> Job:
    """L1 silent."""
    job = Job(4).all_to_all(sends=12, receives={0: 16, 1: 16, 2: 16, 3: 0})
    return job.all_to_all(sends={0: 16, 1: 16, 2: 16, 3: 0}, receives=12).barrier()


@story(
    "no_fault", [], "all_gather of unequal tensors: the inner entries stay scheduled for ever, their closers finished."
)
def healthy_uneven_all_gather() -> Job:
    """P2 silent."""
    return Job(3).all_reduce().all_gather_uneven([5, 7, 3]).reduce_scatter_uneven([2, 2, 9]).all_reduce()


@story("no_fault", [], "A coalescing manager sends several all_reduce as one; only its closer has a state.")
def healthy_coalesced_all_reduce() -> Job:
    """P2 silent."""
    parts = [Part("all_reduce", [[64]], [[64]]), Part("all_reduce", [[128]], [[128]])]
    return Job(4).all_reduce().coalesced(parts).coalesced(parts).all_reduce()


@story("no_fault", [], "The root of a broadcast went on long before the others came; all finished.")
def healthy_root_ahead() -> Job:
    """L2 silent."""
    job = Job(4).broadcast(root=0).late(3, 20).all_reduce()
    return job.reduce(root=2).gather(root=1).scatter(root=3).all_reduce()


@story("no_fault", [], "The root of gather and scatter records a list of tensors, the others none: by design.")
def healthy_gather_and_scatter() -> Job:
    """L1 silent: gather compares inputs, scatter outputs; dtypes as the set of both lists."""
    return Job(4).gather(root=0).gather(root=2, n=32).scatter(root=1).scatter(root=0, n=8).barrier()


@story("no_fault", [], "A broadcast of 64 elements, kept as 8 x 8 on one rank: the numbers of elements are equal.")
def healthy_broadcast_of_another_shape() -> Job:
    """L1 silent: broadcast and reduce compare numbers of elements."""
    return Job(3).broadcast(shape=[64]).but(2, shape=[8, 8]).all_reduce()


@story(
    "no_fault",
    [],
    """The stages of a pipeline run different code, so their norm is reduced from different lines in
    every step; op and size agree.""",
)
def healthy_call_sites_of_stages() -> Job:
    """L4 silent: a difference in call sites without a shift is never a finding."""
    job = Job(4).group("pp", [0, 2]).group("pp", [1, 3])
    for step in range(5):
        job.all_reduce(shape=[8], at="first_stage.py:50 in step").but(2, 3, at="last_stage.py:72 in step")
        job.all_reduce(shape=[8], at="first_stage.py:58 in step").but(2, 3, at="last_stage.py:80 in step")
        job.transfer(0, 2, "pp", n=16 + step).transfer(1, 3, "pp", n=16 + step)
    return job


@story("no_fault", [], "Rank 0 once takes another branch and reduces from another line; nothing is shifted.")
def healthy_one_odd_call_site() -> Job:
    """L4 silent."""
    job = data_parallel(Job(4), 2)
    job.all_reduce(shape=[1], at="train.py:95 in log_loss").but(0, at="train.py:103 in log_loss_and_plot")
    return data_parallel(job, 2)


@story(
    "no_fault",
    [],
    """Rank 3 issues two equal all_reduce in the other order, as an optimiser with another order of
    parameters does; op and size agree, so both finished.""",
)
def healthy_neighbours_exchanged() -> Job:
    """L4 silent: two neighbours exchanged are no shift."""
    job = Job(4, ahead=2)
    for _ in range(3):
        job.all_reduce(shape=[64], at="optim.py:10 in a").all_reduce(shape=[64], at="optim.py:20 in b")
    return job.swapped(3).all_reduce(shape=[1])


@story(
    "no_fault", [], "Rank 1 came to an all_reduce 95 s after the others, well inside the timeout of 600 s; it finished."
)
def healthy_slow_rank() -> Job:
    """V8 silent."""
    return Job(4).all_reduce().all_reduce().late(1, 95).all_reduce()


@story("no_fault", [], "The clock of one host is 300 s ahead; with a timeout of 60 s nothing was late.")
def healthy_clock_off() -> Job:
    """V8 silent: the offset of clocks is subtracted."""
    return data_parallel(Job(4).timeout(60), 4).clock_off(300, 2, 3)


@story(
    "no_fault",
    [],
    """Rank 0's node reduces a checksum in a group of its own while saving; the world waited for it and
    went on.""",
)
def healthy_checkpoint_in_a_subgroup() -> Job:
    """L7, V8 silent."""
    job = data_parallel(Job(8).group("node", range(4)).group("node", range(4, 8)), 2)
    job.pause(0, 40).all_reduce("node", [4], of=0, at="checkpoint.py:77 in checksum")
    return data_parallel(job.barrier(), 1)


@story(
    "no_fault",
    [],
    "Gradients are reduced on a stream of their own beside tensor-parallel calls; orders of finishing mix.",
)
def healthy_overlapped_streams() -> Job:
    """P7 silent."""
    job = Job(4, ahead=6).group("tp", [0, 1]).group("tp", [2, 3]).group("dp", [0, 2], stream="dp")
    job.group("dp", [1, 3], stream="dp")
    for _ in range(4):
        job.all_reduce("dp", [4096]).all_reduce("tp").all_reduce("tp")
    return job.all_reduce()


@story("no_fault", [], "Experts: uneven all_to_all in ep groups, reduction over replicas of experts, norm over all.")
def healthy_experts() -> Job:
    """L1, P1 silent."""
    job = Job(8).grid(ep=4, edp=2)
    for step in range(3):
        sends = {r: 40 + 4 * r + step for r in range(8)}
        receives = {r: 46 + step if r < 4 else 62 + step for r in range(8)}
        job.all_to_all("ep", sends, receives).all_to_all("ep", receives, sends).all_reduce("edp", [2048])
    return job.all_reduce(shape=[1])


@story("no_fault", [], "Operations most tools do not list, finished on all ranks.")
def healthy_unlisted_operations() -> Job:
    """L1 silent: an unknown operation is compared, not refused."""
    return Job(4).call("all_reduce_sparse").call("window_put", ins=[[3]], outs=[]).call("split", ins=[], outs=[])


@story("no_fault", [], """Groups of one member: a rank's own expert group reduces with itself, as often as it likes.""")
def healthy_groups_of_one() -> Job:
    """P1, L3 silent."""
    job = Job(3).group("edp", [0]).group("edp", [1]).group("edp", [2]).all_reduce()
    job.all_reduce("edp").all_reduce("edp", of=1).all_reduce("edp", of=1)
    return job.all_reduce()
