"""Lines no log should have: nothing raw reaches a terminal, nothing costs memory, nothing breaks the reading."""

# ruff: noqa: E501

from __future__ import annotations

import gzip
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.log import Log
from tests.verdict import diagnosis_of, verdict_of
from whichrank.collectors.watchdog_log import read, recognises
from whichrank.collectors.watchdog_log_lines import HEAD
from whichrank.surfaces.text import screen


def rows_of(*paths: Path) -> list[dict[str, Any]]:
    """Rows of these logs, but for those of the files themselves."""
    tables = [
        batch.tables["torch_nccl_watchdog_log"] for batch in read(paths) if "torch_nccl_watchdog_log" in batch.tables
    ]
    return [row for table in tables for row in table.to_pylist() if row["kind"] != "file"]


def notes_of(*paths: Path) -> list[tuple[str, str]]:
    tables = [batch.tables["collection_note"] for batch in read(paths) if "collection_note" in batch.tables]
    return [(row["kind"], row["severity"]) for table in tables for row in table.to_pylist()]


def test_reports_below_a_line_belong_to_its_rank(tmp_path: Path) -> None:
    """Two ranks at once: each frame is of the rank above it; torchrun's summary names its own."""
    log = (
        Log()
        .c10(4, "Stack trace of the failed collective: ")
        .says(4, "#0 all_reduce from distributed_c10d.py:2968", "#1 step from train.py:88")
    )
    log.c10(6, "Stack trace of the failed collective: ").says(
        6, "#0 broadcast from distributed_c10d.py:2801"
    ).torchrun_ends(7, -9, others=(1,))
    found = [
        (row["kind"], row["rank"], row["exit_code"], row["signal"], row["is_first"])
        for row in rows_of(log.write(tmp_path / "job.log"))
    ]
    assert found == [
        ("stack_head", 4, None, None, None),
        ("stack_frame", 4, None, None, None),
        ("stack_frame", 4, None, None, None),
        ("stack_head", 6, None, None, None),
        ("stack_frame", 6, None, None, None),
        ("elastic_failure", 1, -6, "SIGKILL", False),
        ("elastic_failure", 7, -9, "SIGKILL", True),
    ]


def job() -> Log:
    return Log().times_out(0, 7).times_out(1, 7).signalled(2, 6, 6, by=0)


@pytest.mark.parametrize(
    "junk",
    [
        b"x" * 10_000_000,
        b"ProcessGroupNCCL " * 600_000,
        b"\x00" * 5000 + b"NCCL WARN",
        b"\xff\xfe\x80 NCCL WARN \xc3(" * 50,
        b"[rank0]:" * 200_000,
        b"[" * 100_000 + b" ProcessGroup",
        b"(A pid=1) " * 50_000 + b"NCCL WARN x",
        b"WorkNCCL(SeqNum=" + b"9" * 100_000 + b", OpType=A, Timeout(ms)=1) Watchdog caught collective operation timeout: ",
        b"[1" + b", 1" * 100_000 + b"] finished collective #1, but didn't join collective #2",
        b"srun: error: a: tasks 0-999999999999: Segmentation fault",
        b'{"log":"' + b"[" * 50_000 + b'"}',
        b"Traceback (most recent call last):" + b"\r" * 100_000,
        "\u202eNCCL WARN \u200b\ud7ff".encode(),
    ],
    ids=lambda junk: f"{len(junk)}",
)  # fmt: skip
def test_junk_between_the_lines(junk: bytes, tmp_path: Path) -> None:
    lines = job().text().encode().splitlines()
    path = tmp_path / "job.log"
    path.write_bytes(b"\n".join(part for line in lines for part in (line, junk)) + b"\n")
    kinds = [
        (row["kind"], row["rank"], row["seq"])
        for row in rows_of(path)
        if row["kind"] in ("watchdog_timeout", "failure_status")
    ]
    assert kinds.count(("watchdog_timeout", 0, 7)) == kinds.count(("failure_status", 1, 7)) == 1
    assert all(len(row["text"]) <= 500 for row in rows_of(path))


def test_control_characters_stay_out_of_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "ValueError: \x1b[2J\x1b]0;owned\x07\x9b31m\x08\x08\x00\u202etxt.exe \x1b]8;;http://x\x07"
    log = Log().raises(1, evil).times_out(0, 7)
    path = log.write(tmp_path / "job.log")
    monkeypatch.chdir(tmp_path)
    diagnosis = diagnosis_of(Path("job.log"))
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("rank_died", [1])
    text = screen(diagnosis)
    assert "in the log" in text
    assert not [
        c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u202d\u2066\u200b")
    ]
    assert rows_of(path)[0]["rank"] == 1


def test_hostile_names(tmp_path: Path) -> None:
    path = job().write(tmp_path / "job\x1b[2J\n rank.log")
    text = screen(diagnosis_of(path))
    assert "\x1b" not in text


def test_random_bytes_and_mutations(tmp_path: Path) -> None:
    chance = random.Random(4)
    raw = bytearray(job().text().encode())
    for number in range(60):
        changed = bytearray(raw)
        for _ in range(chance.randint(1, 40)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        path = tmp_path / f"{number}.log"
        path.write_bytes(changed if number % 2 else changed[: chance.randrange(len(changed))])
        rows_of(path)
    (tmp_path / "noise.log").write_bytes(chance.randbytes(200_000))
    assert rows_of(tmp_path / "noise.log") == []


def test_a_packed_log_that_was_cut_off_keeps_what_is_whole(tmp_path: Path) -> None:
    noise = "".join(f"step {n} loss {n * 7919 % 1000}\n" for n in range(20_000))
    packed = gzip.compress((job().text() + noise).encode())
    (tmp_path / "job.log.gz").write_bytes(packed[: len(packed) * 2 // 3])
    assert verdict_of(tmp_path / "job.log.gz") == ("rank_not_joined", [2])
    assert notes_of(tmp_path / "job.log.gz") == [("truncated", "warning")]
    assert any("ends early" in gap.says for gap in diagnosis_of(tmp_path / "job.log.gz").gaps)


def test_a_flood_is_counted(tmp_path: Path) -> None:
    line = "node-a:42:51 [1] x.cc:1 NCCL WARN again\n"
    path = tmp_path / "job.log"
    path.write_text(line * 5000 + job().text())
    rows = rows_of(path)
    assert sum(row["kind"] == "nccl_line" for row in rows) == 200
    assert [row["seq"] for row in rows if row["kind"] == "watchdog_timeout"] == [7, 7]
    assert notes_of(path) == [("repeated", "info")]


def test_of_what_is_issued_the_newest_counts(tmp_path: Path) -> None:
    call = "n:40:1 [0] NCCL INFO AllReduce: opCount {:x} sendbuff 0x1 recvbuff 0x1 count 1 datatype 7 op 0 root 0 comm 0x5 [nranks=2]\n"
    (tmp_path / "job.log").write_text("".join(call.format(n) for n in range(5000)))
    assert [row["seq"] for row in rows_of(tmp_path / "job.log")] == list(range(4800, 5000))


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    with path.open("w") as file:
        for _ in range(24):
            file.write("step 1 loss 0.3 lr 1e-4 tokens 1234567 grad norm 0.2\n" * 20_000)
        file.write(job().text())
    rows_of(path)  # imports
    tracemalloc.start()
    assert [row["rank"] for row in rows_of(path) if row["kind"] == "watchdog_timeout"] == [0, 1]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20 < path.stat().st_size


def test_progress(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text("nothing to see\n" * 400_000)
    told: list[tuple[int, int]] = []
    for _ in read([path], on_progress=lambda done, total: told.append((done, total))):
        pass
    assert told == [(n, 5) for n in range(1, 6)]


@pytest.mark.parametrize(
    ("name", "content", "named", "ours"),
    [
        ("job.log", b"epoch 1\n", True, True),
        ("job.log", b"epoch 1\n", False, False),
        ("job", b"[rank0]: Traceback (most recent call last):\n", False, True),
        ("job", b"x\n" * HEAD + b"[rank0]: late\n", False, True),
        ("train.py", b"raise RuntimeError('ProcessGroupNCCL.cpp')\n", False, False),
        ("core", b"\x7fELF\x00\x00\x00" * 100 + b"[rank0]: x", True, False),
        ("README.md", b"collective notes: ProcessGroupNCCL.cpp\n", False, False),
    ],
)
def test_what_a_log_is(name: str, content: bytes, named: bool, ours: bool, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert recognises(tmp_path / name, content[:HEAD], named) is ours
