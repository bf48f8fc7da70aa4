"""Sixty-four writers, some of them killed, a compaction beside them, and a reader that counts what it sees."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.store.writers import ROWS
from whichrank.engine.compaction import compact
from whichrank.store.evidence import Evidence

WRITERS, SECONDS, KILLED = 64, 30.0, 16
REPOSITORY = Path(__file__).resolve().parents[2]


def _written(logs: Path) -> set[tuple[int, str]]:
    """What writers have finished; a last line without its end is not."""
    lines = ((int(log.name), line) for log in logs.iterdir() for line in log.read_text().splitlines(keepends=True))
    return {(rank, line.strip()) for rank, line in lines if line.endswith("\n")}


def _seen(store: Path) -> tuple[dict[tuple[int, str], tuple[int, int]], dict[tuple[int, str], int]]:
    """(rank, snapshot) -> its entries and how many of them differ; and how often its dump is there."""
    with Evidence(stores=[store], lazy=True) as evidence:
        evidence.show(["torch_nccl_dump", "torch_nccl_flight_record"])
        run = evidence.connection.execute
        # What is finished comes last, so it is read first: a dump that is seen has its entries.
        dumps = run("SELECT rank, snapshot_id, count(*) FROM global.shard.torch_nccl_dump GROUP BY ALL").fetchall()
        sql = "SELECT rank, snapshot_id, count(*), count(DISTINCT record_id) FROM global.shard.torch_nccl_flight_record"
        entries = run(f"{sql} GROUP BY ALL").fetchall()
    return {(r, s): (n, d) for r, s, n, d in entries}, {(r, s): n for r, s, n in dumps}


def _check(store: Path, logs: Path) -> int:
    written = _written(logs)
    entries, dumps = _seen(store)
    assert set(entries.values()) <= {(ROWS, ROWS)}, "whole or not at all, and never twice"
    assert set(dumps.values()) <= {1}
    assert written <= dumps.keys(), "what a writer has finished is there"
    assert dumps.keys() <= entries.keys()
    return len(entries)


@pytest.mark.slow
def test_no_row_is_lost_and_none_is_there_twice(tmp_path: Path) -> None:
    store, logs = tmp_path / "store", tmp_path / "logs"
    logs.mkdir()
    command = [sys.executable, "-m", "tests.store.writers", str(store), str(logs), str(WRITERS), str(SECONDS)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    }
    writers = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=REPOSITORY)
    compacting: subprocess.Popen[bytes] | None = None
    try:
        assert writers.stdout
        with writers.stdout as said:
            children = [int(line) for line in iter(said.readline, "started\n")]
        assert len(children) == WRITERS
        until = time.monotonic() + 120
        while len(_written(logs)) < WRITERS and time.monotonic() < until:
            time.sleep(0.1)
        reads = 0
        while writers.poll() is None:
            assert _check(store, logs) > 0
            reads += 1
            for child in children[: KILLED if reads == 2 else 0]:
                os.kill(child, signal.SIGKILL)
            if reads == 2 or (reads > 2 and compacting and compacting.poll() is not None):
                code = "import sys, pathlib, whichrank.engine.compaction as c; c.compact(pathlib.Path(sys.argv[1]))"
                assert compacting is None or compacting.returncode == 0
                compacting = subprocess.Popen([sys.executable, "-c", code, store], env=environment)
        assert reads > 2
        if compacting:
            assert compacting.wait(120) == 0
    finally:
        for process in (writers, compacting):
            if process and process.poll() is None:
                process.kill()
                process.wait()
    before = _check(store, logs)
    compact(store)
    assert _check(store, logs) == before
    compact(store, grace_s=0)
    assert not list(store.glob("*/*/*.parquet"))
    assert _check(store, logs) == before
