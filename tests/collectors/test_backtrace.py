"""The texts in which stacks come."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.jobs.stacks import LOADING, REDUCE, thread, write
from whichrank.collectors import backtrace_files
from whichrank.collectors.backtrace import Look, main_thread
from whichrank.collectors.backtrace_text import parse_json, parse_text
from whichrank.tables import BACKTRACE, NODES, NOTE

FAULTHANDLER = """\
Thread 0x00007f3289d646c0 (most recent call first):
  File "/srv/watch.py", line 3 in wait
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f328a7c6b80 (most recent call first):
  File "/srv/train.py", line 7 in <lambda>
  File "/srv/train.py", line 9 in <module>
"""
NAMED = FAULTHANDLER.replace("6b80 (most", "6b80 [python] (most")  # since Python 3.14
PY_SPY = """\
Process 6960: /opt/venv/bin/python train.py --rank=3
Python v3.11.7 (/opt/venv/bin/python3.11)

Thread 6960 (active+gil): "MainThread"
    step (train.py:7)
    <module> (train.py:9)
Thread 6962 (idle): "watch"
    wait (watch.py:3)
    Thread.run (threading.py:982)
Thread 0x7F3289D646C0 (idle)
    clock_nanosleep (libc.so.6)
"""


def looks(text: str) -> list[Look]:
    return parse_text(text.splitlines(keepends=True)).looks


@pytest.mark.parametrize("text", [FAULTHANDLER, NAMED, FAULTHANDLER.replace("\n", "\r\n")])
def test_faulthandler(text: str) -> None:
    (look,) = looks(text)
    assert [[f.func for f in t.frames] for t in look.threads] == [
        ["wait", "run", "_bootstrap"],
        ["<lambda>", "<module>"],
    ]
    assert main_thread(look) == 1
    assert look.threads[1].frames[0].lineno == 7


def test_several_dumps_in_one_file() -> None:
    later = FAULTHANDLER.replace("line 7", "line 8").replace("9d646c0", "9d646d0")
    text = f"step 1\nTimeout (0:00:10)!\n{FAULTHANDLER}step 2\nTimeout (0:00:10)!\n{later}"
    assert [look.threads[-1].frames[0].lineno for look in looks(text)] == [7, 8]
    assert [look.threads[-1].frames[0].lineno for look in looks(FAULTHANDLER + FAULTHANDLER)] == [7, 7]


@pytest.mark.parametrize("prefix", ["[rank{}]:", "[default{}]:", "{}: ", "[rank{}]: "])
def test_dumps_of_several_ranks_in_one_log(prefix: str) -> None:
    """Their lines come in any order."""
    lines = [[prefix.format(rank) + line for line in FAULTHANDLER.splitlines()] for rank in (3, 11)]
    mixed = [line for pair in zip(*lines, strict=True) for line in pair]
    found = looks("\n".join(["an epoch begins", *mixed, "an epoch ends"]))
    assert sorted((look.rank or 0, len(look.threads), len(look.threads[0].frames)) for look in found) == [
        (3, 2, 3),
        (11, 2, 3),
    ]


def test_a_traceback_is_no_stack() -> None:
    text = 'Traceback (most recent call last):\n  File "/srv/train.py", line 3, in main\nValueError: Thread 1\n'
    assert looks(text) == []
    assert looks(FAULTHANDLER + text)[0].threads[1].frames[-1].func == "<module>"


def test_py_spy_text() -> None:
    (look,) = looks(PY_SPY)
    main, watch, native = look.threads
    assert (look.pid, main.name, main.active, main.owns_gil, watch.owns_gil) == (6960, "MainThread", True, True, False)
    assert [frame.func for frame in watch.frames] == ["wait", "run"]
    assert native.frames[0].native
    assert not main.frames[0].native


@pytest.mark.parametrize("html", [True, False])
def test_the_page_of_the_debug_server(html: bool) -> None:
    """torch 2.13: raw_resp.html, and the files that the server writes by itself."""
    parts = []
    for rank, text in enumerate((FAULTHANDLER, None, PY_SPY)):
        head = f"<h2>Rank {rank}: http://h:{rank}</h2>" if html else f"=== Rank {rank}: http://h:{rank} ==="
        failed = "<p>Failed to fetch: status=500</p>\n<pre>Thread is gone</pre>" if html else "Error: 500"
        body = failed if text is None else f"    <pre>{text}</pre>" if html else text
        parts.append(f"{head}\n{body}")
    found = parse_text("\n".join(parts).splitlines())
    assert [(look.rank, len(look.threads)) for look in found.looks] == [(0, 2), (2, 3)]
    assert found.silent == [1]
    assert [frame.func for frame in found.looks[0].threads[1].frames] == ["<lambda>", "<module>"]


def test_py_spy_json() -> None:
    text = json.dumps([thread(REDUCE, pid=5), thread(LOADING, name="watch", pid=5, os_id=6)])
    first, second = parse_json(text + "\n" + text)
    assert first == second
    assert (first.pid, main_thread(first), first.threads[1].os_id) == (5, 0, 6)
    assert first.threads[0].frames[0].func == "all_reduce"


def test_subprocesses_are_not_the_rank() -> None:
    worker = thread(LOADING, pid=7, process_info={"pid": 7, "ppid": 5, "command_line": "python"})
    info = {"pid": 5, "ppid": 1, "command_line": "python train.py --local-rank=3"}
    (look,) = parse_json(json.dumps([worker, thread(REDUCE, pid=5, process_info=info)]))
    assert (look.pid, look.rank, len(look.threads)) == (5, 3, 1)


@pytest.mark.parametrize("text", ["{}", "[1]", '[{"frames": 1}', "[", '{"a": ', "[" * 100_000])
def test_what_is_no_output_of_py_spy(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        parse_json(text)


def _rows(*paths: Path) -> tuple[dict[int, int], list[str]]:
    """Looks of each rank, and the kinds of notes."""
    ranks: dict[int, int] = {}
    kinds: list[str] = []
    for batch in backtrace_files.read(paths):
        if BACKTRACE.name in batch.tables and batch.rank is not None:
            ranks[batch.rank] = len(set(batch.tables[BACKTRACE.name]["sample"].to_pylist()))
        if NOTE.name in batch.tables:
            kinds += batch.tables[NOTE.name]["kind"].to_pylist()
    return ranks, kinds


def test_a_file_per_rank(tmp_path: Path) -> None:
    write(tmp_path, {0: REDUCE, 1: LOADING}, {0: REDUCE, 1: LOADING})
    (tmp_path / "stack_rank_2.txt.gz").write_bytes(gzip.compress(FAULTHANDLER.encode()))
    (tmp_path / "rank3").mkdir()
    (tmp_path / "rank3" / "py-spy.txt").write_text(PY_SPY)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(backtrace_files.recognises(path, _head(path), False) for path in files)
    assert _rows(*files) == ({0: 2, 1: 2, 2: 1, 3: 1}, [])


def test_a_number_that_is_a_process_is_no_rank(tmp_path: Path) -> None:
    (tmp_path / "py-spy-4711.json").write_text(json.dumps([thread(REDUCE, pid=4711)]))
    assert _rows(tmp_path / "py-spy-4711.json") == ({}, ["no_rank"])


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([{"thread_name": "MainThread", "frames": [{"name": "step", "filename": "/srv/train.py"}]}]),
        json.dumps([thread(LOADING)])[:90],
        json.dumps([{"frames": None}, {"frames": [{"line": "x"}, 7, None]}, 5]),
        json.dumps([thread(LOADING, pid=3)]),
    ],
)
def test_no_rank_goes_missing_without_a_word(text: str, tmp_path: Path) -> None:
    """Older and later versions, cut off early, or damaged: its rows are there, or a note about that rank."""
    folder = write(tmp_path, dict.fromkeys(range(3), REDUCE))
    (folder / "rank_3.json").write_text(text)
    files = sorted(folder.iterdir())
    assert all(backtrace_files.recognises(path, path.read_bytes(), named=False) for path in files)
    found = list(backtrace_files.read(files))
    notes = [row["rank"] for b in found if NOTE.name in b.tables for row in b.tables[NOTE.name].to_pylist()]
    assert sorted([*(b.rank for b in found if b.rank is not None), *notes]) == [0, 1, 2, 3]


@pytest.mark.parametrize("cut", [1, 40, 200, 400])
def test_a_file_that_was_cut_off_is_a_note(cut: int, tmp_path: Path) -> None:
    write(tmp_path, {0: REDUCE, 1: REDUCE})
    path = tmp_path / "stack_rank_0.json"
    path.write_bytes(path.read_bytes()[:-cut])
    ranks, kinds = _rows(*sorted(tmp_path.iterdir()))
    assert (ranks, kinds) == ({1: 1}, ["truncated"])


def test_hostile_text(tmp_path: Path) -> None:
    """Lines of megabytes, control characters, other encodings."""
    path = tmp_path / "stack_rank_0.txt"
    path.write_bytes(b"x" * 5_000_000 + b"\n\xff\xfe\x1b[31m\n" + FAULTHANDLER.encode() + b"Thread 0x" + b"f" * 100_000)
    assert _rows(path) == ({0: 1}, [])


def test_ranks_that_did_not_answer_a_page(tmp_path: Path) -> None:
    (tmp_path / "stacks").write_text(
        f"=== Rank 0: http://h ===\n{FAULTHANDLER}\n=== Rank 1: http://h ===\nError: 500\n"
    )
    (nodes,) = (
        b.tables[NODES.name].to_pylist() for b in backtrace_files.read([tmp_path / "stacks"]) if NODES.name in b.tables
    )
    assert [(row["rank"], row["state"]) for row in nodes] == [(0, "answered"), (1, "silent")]


@pytest.mark.parametrize(
    "head", [b"", b"{}", b"a poem\n", b"[rank0]: Watchdog caught collective timeout\n", b"\0\1Thread 0x1 (most recent"]
)
def test_what_is_not_ours(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(head)
    assert not backtrace_files.recognises(path, head, False)


def test_a_log_whose_end_holds_stacks(tmp_path: Path) -> None:
    path = tmp_path / "job_rank_0.log"
    path.write_text("step\n" * 50_000 + FAULTHANDLER)
    assert backtrace_files.recognises(path, _head(path), False)
    assert _rows(path) == ({0: 1}, [])


def _head(path: Path) -> bytes:
    data = path.read_bytes()
    return (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)[: 1 << 16]
