"""Each check of training_hang fires, and is silent: ranks written down as py-spy does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.jobs import stacks
from tests.jobs.builder import Job
from tests.jobs.stacks import BARRIER, LOADING, MAIN, REDUCE, STEPPING, thread
from tests.jobs.stories import STORIES
from tests.verdict import pack
from whichrank.batch import Batch, rows_to_arrow
from whichrank.engine.diagnosis import Diagnosis
from whichrank.engine.intake import open_evidence
from whichrank.engine.runner import Runner
from whichrank.store import shards
from whichrank.tables import CPU, KMSG, NODES

SITE = "/opt/venv/lib/python3.11/site-packages"
Frames = Sequence[str]


def hang(*paths: Path, skill: str = "training_hang", **parameters: object) -> Diagnosis:
    """What the skill says of these paths, with every word rendered."""
    with open_evidence(paths) as evidence:
        found = Runner(pack(), evidence, "PATH").run(skill, parameters)
    assert not [gap for gap in found.gaps if gap.kind == "broken_words"], found.gaps
    return found


def ranks(*apart: Frames, most: Frames = REDUCE, count: int = 4) -> Mapping[int, Frames]:
    """The first ranks stand apart, the rest where most do."""
    return {rank: apart[rank] if rank < len(apart) else most for rank in range(count)}


APART = {
    "data loading": LOADING,
    "checkpoint I/O": (*MAIN, "save /srv/train.py:75", f"save {SITE}/torch/serialization.py:900"),
    "compilation (torch.compile)": (*MAIN, f"compile_fx {SITE}/torch/_inductor/compile_fx.py:1"),
    "compilation (Triton)": (*MAIN, f"make_ir {SITE}/triton/compiler/compiler.py:1"),
    "build of an extension": (*MAIN, f"wait {SITE}/torch/utils/file_baton.py:41"),
    "exception handling": (*MAIN, "print_exc /usr/lib/python3.11/traceback.py:183"),
    "end of the process": ("_shutdown /usr/lib/python3.11/threading.py:1560",),
    "debugger": (*MAIN, "interaction /usr/lib/python3.11/pdb.py:361"),
    "metrics logging": (
        *MAIN,
        f"finish {SITE}/wandb/sdk/wandb_run.py:400",
        "wait /usr/lib/python3.11/threading.py:320",
    ),
    "file lock": (*MAIN, f"acquire {SITE}/filelock/_api.py:300"),
    "lock": (*MAIN, "acquire /srv/cache.py:5", "wait /usr/lib/python3.11/threading.py:320"),
    "wait for another process": (*MAIN, "run /srv/train.py:20", "communicate /usr/lib/python3.11/subprocess.py:1209"),
    "network": (*MAIN, "recv_into /usr/lib/python3.11/socket.py:700"),
    "user code": STEPPING,
}


@pytest.mark.parametrize("words", APART)
def test_a_rank_stands_apart_and_its_place_is_said(words: str, tmp_path: Path) -> None:
    found = hang(stacks.write(tmp_path, ranks(APART[words])))
    assert (found.category, found.culprit_ranks) == ("rank_not_joined", [0])
    assert f" in {words}" in found.verdict
    assert "ranks 1-3 wait in all_reduce" in found.verdict
    assert found.findings[0].check == "checks.stack_apart"


@pytest.mark.parametrize(
    "words", [words for words in APART if words not in ("user code", "lock", "network", "wait for another process")]
)
def test_without_a_collective_only_a_known_spot_is_named(words: str, tmp_path: Path) -> None:
    """With NCCL most ranks wait for their device, in a line of the program that no rule knows."""
    found = hang(stacks.write(tmp_path, ranks(APART[words], most=STEPPING)))
    assert (found.category, found.culprit_ranks) == ("rank_not_joined", [0])


@pytest.mark.parametrize("apart", [(*MAIN, "other /srv/train.py:71"), REDUCE[:-1]])
def test_without_a_collective_user_code_names_nobody(apart: Frames, tmp_path: Path) -> None:
    found = hang(stacks.write(tmp_path, ranks(apart, most=STEPPING)))
    assert (found.category, found.culprit_ranks) == ("insufficient_evidence", [])


def test_too_many_apart_name_nobody(tmp_path: Path) -> None:
    found = hang(stacks.write(tmp_path, ranks(LOADING, LOADING, LOADING)))
    assert (found.category, found.culprit_ranks) == ("insufficient_evidence", [])
    assert found.findings[0].check == "checks.stack_unclear"


def test_two_apart_in_different_places_are_both_named(tmp_path: Path) -> None:
    found = hang(stacks.write(tmp_path, ranks(LOADING, APART["checkpoint I/O"], count=6)))
    assert found.culprit_ranks == [0, 1]
    assert len([finding for finding in found.findings if finding.root]) == 2
    assert "Also to blame: rank 1" in found.verdict


def test_all_in_one_collective_is_symmetric(tmp_path: Path) -> None:
    found = hang(stacks.write(tmp_path, ranks()))
    assert (found.category, found.culprit_ranks) == ("all_joined_none_finished", [])
    assert "no rank stands out" in found.verdict


def test_all_in_one_other_place_is_symmetric_too(tmp_path: Path) -> None:
    found = hang(stacks.write(tmp_path, ranks(most=LOADING)))
    assert (found.category, found.culprit_ranks) == ("insufficient_evidence", [])
    assert "same place, data loading" in found.verdict


def test_different_collectives_name_nobody(tmp_path: Path) -> None:
    """A skipped collective looks like that, and so do the ranks that wait for its victims."""
    found = hang(stacks.write(tmp_path, ranks(BARRIER)))
    assert (found.category, found.culprit_ranks) == ("insufficient_evidence", [])
    assert "watchdog_timeout" in str(found.next)


def test_one_rank_alone_says_nothing_unless_it_is_asked_for(tmp_path: Path) -> None:
    folder = stacks.write(tmp_path, ranks(LOADING, count=1))
    assert hang(folder).findings == []
    (finding,) = hang(folder, rank=0).findings
    assert (finding.severity, finding.root) == ("info", False)
    assert "rank 0 stands in data loading" in finding.says


# ---- healthy is silent -----------------------------------------------------------------------------------------------
def test_waiting_ranks_that_move_are_no_hang(tmp_path: Path) -> None:
    folder = stacks.write(tmp_path, ranks(LOADING), ranks(STEPPING, most=STEPPING), ranks(LOADING))
    found = hang(folder)
    assert (found.category, found.findings, found.exit_code) == (None, [], 0)


def test_waiting_ranks_that_stay_are(tmp_path: Path) -> None:
    found = hang(stacks.write(tmp_path, ranks(LOADING), ranks(STEPPING), ranks(LOADING)))
    assert found.culprit_ranks == [0], "it moves, and they wait for it"
    assert "moving" in found.findings[0].says


def test_dumps_without_anything_open_are_no_hang(tmp_path: Path) -> None:
    dumps = Job(4).all_reduce().all_reduce().write(tmp_path / "dumps")
    found = hang(dumps, stacks.write(tmp_path / "stacks", ranks(LOADING)))
    assert (found.category, found.findings) == (None, [])


# ---- together with dumps ---------------------------------------------------------------------------------------------
def test_the_dumps_name_the_rank_and_the_stack_its_place(tmp_path: Path) -> None:
    dumps = Job(4).all_reduce().stop(2).all_reduce().write(tmp_path / "dumps")
    folder = stacks.write(tmp_path / "stacks", {0: REDUCE, 1: REDUCE, 2: LOADING, 3: REDUCE})
    found = hang(dumps, folder)
    assert (found.category, found.culprit_ranks) == ("rank_not_joined", [2])
    assert (
        "rank 2 stands in data loading (train.py:40 in train) while ranks 0, 1, 3 wait in all_reduce of"
        in found.verdict
    )
    watchdog = hang(dumps, folder, skill="watchdog_timeout")
    assert watchdog.findings[0].shows["now on rank 2"] == "data loading, train.py:40 in train"
    alone = hang(dumps, skill="watchdog_timeout")
    assert (alone.category, alone.culprit_ranks) == (watchdog.category, watchdog.culprit_ranks)
    assert "now on rank 2" not in alone.findings[0].shows
    assert not any("stand" in ran.name for ran in alone.ran), "without stacks nothing is made of them"


def test_dumps_in_which_all_joined_accuse_nobody(tmp_path: Path) -> None:
    """The host of a rank may be ahead, and load the next batch, while its device waits with the others'."""
    dumps = STORIES["all_joined_hosts_ahead"].build().write(tmp_path / "dumps")
    found = hang(dumps, stacks.write(tmp_path / "stacks", ranks(LOADING, count=8)))
    assert (found.category, found.culprit_ranks) == ("all_joined_none_finished", [])


# ---- threads ---------------------------------------------------------------------------------------------------------
def test_the_thread_of_autograd_speaks_for_a_rank_in_its_backward_pass(tmp_path: Path) -> None:
    main = (*MAIN, f"_engine_run_backward {SITE}/torch/autograd/graph.py:829")
    hook = ("hook /srv/train.py:12", "read /srv/train.py:13", f"load {SITE}/torch/serialization.py:1400")
    folder = stacks.write(tmp_path, {1: REDUCE, 2: REDUCE})
    watch = ("_bootstrap /usr/lib/python3.11/threading.py:1002", "wait /usr/lib/python3.11/threading.py:320")
    threads = [thread(watch, name="watch", os_id=7), thread(hook, name=None, os_id=8), thread(main)]
    (folder / "stack_rank_0.json").write_text(json.dumps(threads))
    found = hang(folder)
    assert found.culprit_ranks == [0]
    assert "checkpoint I/O" in found.verdict


@pytest.mark.parametrize(
    ("by_main", "says"), [(True, "keeps the interpreter lock"), (False, "thread pump keeps asleep")]
)
def test_the_interpreter_lock(by_main: bool, says: str, tmp_path: Path) -> None:
    folder = stacks.write(tmp_path, {1: REDUCE, 2: REDUCE})
    look = [
        thread(STEPPING, owns_gil=by_main),
        thread(("pump /srv/pump.py:3",), name="pump", os_id=9, owns_gil=not by_main),
    ]
    (folder / "stack_rank_0.json").write_text(json.dumps(look) * 3)
    found = hang(folder)
    assert found.culprit_ranks == [0]
    assert says in found.verdict


def test_stack_depth_is_how_far_a_spot_is_looked_for(tmp_path: Path) -> None:
    deep = (*LOADING[:3], *(f"f{n} /srv/deep.py:{n}" for n in range(1, 30)))
    folder = stacks.write(tmp_path, ranks(deep))
    assert "user code" in hang(folder).verdict
    assert "data loading" in hang(folder, stack_depth=40).verdict


# ---- what the kernel says --------------------------------------------------------------------------------------------
SNAPSHOT = "20260101T000000000Z-stacks-node01"


def beside(store: Path, table: str, *rows: Mapping[str, object]) -> None:
    """Rows of another table, in the same collection as the stacks of a store."""
    spec = {"nodes": NODES, "cpu": CPU, "kmsg": KMSG}[table]
    told = [{"snapshot_id": SNAPSHOT, "host": "node01", **row} for row in rows]
    shards.write(store, Batch(SNAPSHOT, None, {spec.name: rows_to_arrow(spec, told)}))


def store_of(folder: Path, looked_at: Mapping[int, Frames], looks: int = 3) -> Path:
    """A store with stacks as a live collection leaves them."""
    from whichrank.collectors.backtrace import Origin, to_batch
    from whichrank.collectors.backtrace_text import parse_json

    for rank, frames in looked_at.items():
        (look,) = parse_json(json.dumps([thread(frames, pid=100 + rank)]))
        origin = Origin(SNAPSHOT, "process", None, "node01", "job/0")
        shards.write(folder, to_batch(rank, [(look, 10**18 + n) for n in range(looks)], origin))
    return folder


def states(
    rank: int, state: str, wchan: str | None = None, scope: str = "process", pid: int | None = None
) -> list[dict[str, object]]:
    """Three looks at one process."""
    row = {
        "rank": rank,
        "job_id": "job/0",
        "scope": scope,
        "pid": pid or 100 + rank,
        "comm": "python",
        "state": state,
        "wchan": wchan,
    }
    return [{**row, "sample": n, "ts": 10**15 + n} for n in range(3)]


@pytest.mark.parametrize(
    ("node", "category", "says"),
    [
        ("stopped", "rank_not_joined", "stopped by a signal"),
        ("dead", "rank_died", "no process any more"),
        ("silent", "rank_without_dump", "no answer"),
    ],
)
def test_a_process_that_does_nothing(node: str, category: str, says: str, tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", {0: REDUCE, 2: REDUCE, 3: REDUCE})
    beside(store, "nodes", *({"rank": r, "world_size": 4, "state": node if r == 1 else "answered"} for r in range(4)))
    found = hang(store)
    assert (found.category, found.culprit_ranks) == (category, [1])
    assert says in found.verdict
    assert found.findings[0].check == "checks.process_unresponsive"


@pytest.mark.parametrize("node", ["no_rights", "no_python"])
def test_a_process_that_may_not_be_read_is_a_gap(node: str, tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", {0: REDUCE, 2: REDUCE, 3: REDUCE})
    beside(store, "nodes", *({"rank": r, "world_size": 4, "state": node if r == 1 else "answered"} for r in range(4)))
    found = hang(store)
    assert (found.category, found.culprit_ranks) == ("insufficient_evidence", []), "rank 1 may be anywhere"
    assert any(gap.kind == "no_stack" and gap.ranks == [1] and gap.matters for gap in found.gaps)


def test_uninterruptible_sleep_is_said(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", ranks(STEPPING))
    beside(store, "cpu", *states(0, "D", "nfs_wait_bit_killable"), *states(1, "S", "futex_wait_queue"))
    found = hang(store)
    assert found.culprit_ranks == [0]
    assert "file I/O, in uninterruptible sleep (nfs_wait_bit_killable)" in found.verdict


def test_a_data_worker_in_uninterruptible_sleep_is_said(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", ranks(LOADING))
    beside(store, "cpu", *states(0, "S"), *states(0, "D", "rpc_wait_bit_killable", "child", 4711))
    assert (
        "data loading, its process 4711 (python) in uninterruptible sleep (rpc_wait_bit_killable)"
        in hang(store).verdict
    )


@pytest.mark.parametrize(
    ("wchan", "words"), [("hrtimer_nanosleep", "sleep"), ("futex_wait_queue", "lock"), ("anon_pipe_write", "pipe")]
)
def test_the_kernel_tells_how_user_code_waits(wchan: str, words: str, tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", ranks(STEPPING))
    beside(store, "cpu", *states(0, "S", wchan))
    assert f"stands in {words} (train.py:70 in step)" in hang(store).verdict


def test_the_kernel_log_names_a_rank(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", ranks())
    beside(store, "kmsg", {"kind": "xid", "code": 79, "pid": 102, "message": "NVRM: Xid (PCI:0000:3b:00): 79, pid=102"})
    found = hang(store)
    assert (found.category, found.culprit_ranks) == ("device_error", [2])
    assert "Xid (PCI:0000:3b:00): 79" in found.verdict


def test_a_line_about_another_process_names_nobody(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", ranks())
    beside(store, "kmsg", {"kind": "xid", "code": 79, "pid": 999, "message": "NVRM: Xid (PCI:0000:3b:00): 79, pid=999"})
    assert hang(store).category == "all_joined_none_finished"


def test_a_kernel_log_alone(tmp_path: Path) -> None:
    (tmp_path / "dmesg.txt").write_text(
        "[   1.0] boot\n[  12.345678] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python\n"
    )
    found = hang(tmp_path / "dmesg.txt")
    assert (found.category, found.culprit_ranks) == ("device_error", [])


def test_what_was_lacking_is_said(tmp_path: Path) -> None:
    found = hang(stacks.write(tmp_path, ranks(LOADING)))
    assert {gap.kind for gap in found.gaps} == {"no_dumps", "no_states", "no_kernel_log", "one_look"}
    assert found.coverage.ranks_seen == [0, 1, 2, 3]


def test_an_older_collection_says_nothing_of_today(tmp_path: Path) -> None:
    """Rank 3 was looked at an hour before the others."""
    store = store_of(tmp_path / "store", {0: REDUCE, 1: REDUCE, 2: REDUCE})
    from whichrank.collectors.backtrace import Origin, to_batch
    from whichrank.collectors.backtrace_text import parse_json

    (look,) = parse_json(json.dumps([thread(LOADING)]))
    origin = Origin("20251231T230000000Z-stacks-node01", "process", None, "node01", "job/0")
    shards.write(store, to_batch(3, [(look, 10**18 - 3_600 * 10**9)], origin))
    assert hang(store).culprit_ranks == []


def test_a_store_of_a_watched_job_expects_no_ranks_of_its_own(tmp_path: Path) -> None:
    """cluster.nodes without a collection of stacks: how many ranks there are is not known from it."""
    snapshot = "20261201T000000Z-asked"
    rows = [{"snapshot_id": snapshot, "rank": 0, "world_size": 2, "job_id": "j", "state": "answered"}]
    shards.write(tmp_path / "store", Batch(snapshot, None, {NODES.name: rows_to_arrow(NODES, rows)}))
    found = hang(stacks.write(tmp_path / "stacks", ranks(APART["lock"])), tmp_path / "store")
    assert (found.culprit_ranks, found.coverage.ranks_expected) == ([0], [0, 1, 2, 3])


def test_ranks_that_the_dumps_do_not_know_are_left_out(tmp_path: Path) -> None:
    dumps = Job(4).all_reduce().stop(2).all_reduce().write(tmp_path / "dumps")
    others = stacks.write(tmp_path / "stacks", {90 + rank: LOADING if rank == 3 else REDUCE for rank in range(4)})
    found = hang(dumps, others)
    assert found.culprit_ranks == [2], "as the dumps say"
    assert not any(rank >= 90 for finding in found.findings for rank in finding.ranks)
    assert "90" not in found.verdict
    (gap,) = [gap for gap in found.gaps if gap.kind == "unknown_rank"]
    assert gap.ranks == [90, 91, 92, 93]
