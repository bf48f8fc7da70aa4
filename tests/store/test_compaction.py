"""Shards into one file: nothing lost, nothing twice, the same verdict, and readers who notice nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.engine.mini import batches
from tests.jobs.builder import Job
from whichrank.engine.compaction import compact
from whichrank.engine.intake import collect
from whichrank.engine.manifest import Pack
from whichrank.engine.runner import Runner, diagnose
from whichrank.errors import NoEvidence
from whichrank.store.compaction import NotCompacted, alone
from whichrank.store.evidence import Evidence
from whichrank.store.shards import shards, write
from whichrank.tables import TABLES

COUNT = "SELECT count(*), count(DISTINCT rank), count(profiling_name), count(frames) FROM global.python.{}"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Rank 2 of four never joins."""
    job = Job(ranks=4).all_reduce().all_reduce().stop(2).all_reduce()
    collect([job.write(tmp_path / "dumps")], tmp_path / "store")
    return tmp_path / "store"


def _said(path: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(json.dumps(diagnose([path]).as_dict(), default=str))
    for ran in said["ran"]:
        ran.pop("seconds")
    return said


def _rows(store: Path, table: str = "torch_nccl_flight_record") -> tuple[int, ...]:
    with Evidence(stores=[store], lazy=True) as evidence:
        evidence.show([table])
        return evidence.connection.execute(COUNT.format(table)).fetchall()[0]


def test_the_verdict_is_the_same_before_and_after(store: Path) -> None:
    before = _said(store)
    assert before["culprit_ranks"] == [2]
    assert compact(store).added == sum(map(len, shards(store).values()))
    assert _said(store) == before
    for table in shards(store):
        shutil.rmtree(store / table)
    assert _said(store) == before, "from the file alone"
    assert diagnose([store / "global.duckdb"]).culprit_ranks == [2]


def _lent(evidence: Evidence) -> set[str]:
    views = evidence.connection.table_function("duckdb_views").filter("schema_name = 'facts'")
    return {f"facts.{name}" for (name,) in views.project("view_name").fetchall()}


def test_facts_in_the_file_are_not_made_again(store: Path) -> None:
    compact(store)
    pack = Pack()
    with Evidence(stores=[store], lazy=True) as evidence:
        runner = Runner(pack, evidence)
        first = runner.run("watchdog_timeout")
        made = {ran.name for ran in first.ran if ran.name.startswith("facts.")}
        assert _lent(evidence) == made
        held = evidence.facts_held
        (snapshot,) = evidence.connection.table("facts.snapshot").project("snapshot_id").distinct().fetchall()[0]
        second = runner.run("watchdog_timeout", {"snapshot": snapshot})
        assert not _lent(evidence) & {"facts.snapshot", "facts.dump", "facts.op"}, "another value: made here"
        assert (second.category, second.culprit_ranks) == (first.category, first.culprit_ranks)
    with Evidence(stores=[store], host="elsewhere", lazy=True) as evidence:
        Runner(pack, evidence).run("watchdog_timeout", {"use_global": False})
        assert not _lent(evidence), "the rows of one host are other rows"
    for batch in batches({7: 3}):
        write(store, batch)
    with Evidence(stores=[store], lazy=True) as evidence:
        assert held, "and with a shard that the file does not hold they are not about all rows"
        assert evidence.facts_held == {}


def test_doing_it_twice_changes_nothing(store: Path) -> None:
    compact(store)
    file = store / "global.duckdb"
    before = (file.stat().st_mtime_ns, file.read_bytes())
    assert compact(store).added == 0
    assert (file.stat().st_mtime_ns, file.read_bytes()) == before


def test_newer_and_rewritten_shards_are_read_once(tmp_path: Path) -> None:
    for batch in batches({0: 3, 1: 2}):
        write(tmp_path, batch)
    compact(tmp_path)
    for batch in batches({0: 3}):  # written again: the same rows
        write(tmp_path, batch)
    for batch in batches({1: 5, 2: 1}):  # rank 1 changed, rank 2 is new
        write(tmp_path, batch)
    assert _rows(tmp_path) == (9, 3, 9, 9)
    assert compact(tmp_path).added == 12
    assert _rows(tmp_path) == (9, 3, 9, 9)
    for table in shards(tmp_path):
        shutil.rmtree(tmp_path / table)
    assert _rows(tmp_path) == (9, 3, 9, 9)


def test_shards_go_when_the_file_has_held_them_for_a_while(store: Path) -> None:
    before = _said(store)
    compact(store)
    assert compact(store).removed == 0, "somebody may be about to read them"
    late = sorted(store.glob("torch_nccl_flight_record/rank=1/*.parquet"))[0]
    changed = pq.read_table(late)
    pq.write_table(changed, late)  # the file does not hold this one: it was never compared
    added = compact(store, grace_s=0)
    assert (added.added, added.removed) == (1, 0)
    assert compact(store, grace_s=0).removed > 0
    assert shards(store) == {}
    assert _said(store) == before
    assert compact(store, grace_s=0).added == 0


def test_a_shard_that_cannot_be_read_stays(store: Path) -> None:
    bad = store / "torch_nccl_dump" / "rank=9" / "s9.parquet"
    bad.parent.mkdir()
    bad.write_bytes(b"PAR1 and no more")
    assert compact(store, grace_s=0).unreadable == ["torch_nccl_dump/rank=9/s9.parquet"]
    compact(store, grace_s=0)
    assert bad.exists()


def test_a_file_without_facts_says_so(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(Pack().root, tmp_path / "pack", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "pack" / "sql" / "facts" / "dump.sql").write_text("-- summary: x\nSELECT broken FROM nowhere")
    done = compact(store, pack=Pack(tmp_path / "pack"))
    assert "nowhere" in str(done.without_facts)
    assert diagnose([store]).culprit_ranks == [2]


def test_every_statement_that_is_printed_runs_in_the_file(store: Path) -> None:
    compact(store)
    script = diagnose([store]).script()
    for opened in (":memory:", str(store / "global.duckdb")):
        with duckdb.connect(opened) as client:
            ran = [client.execute(s.query).fetchall() for s in client.extract_statements(script)]
        assert ran[-1][0][1] == [2], "the verdict comes last"


def test_the_file_tells_a_client_what_is_in_it(store: Path) -> None:
    compact(store)
    with duckdb.connect(str(store / "global.duckdb"), read_only=True) as client:
        silent = "WHERE comment IS NULL AND NOT internal AND schema_name NOT IN ('shard', 'main')"
        silent += " AND column_name NOT IN ('_host', '_rank')"
        assert client.execute(f"SELECT table_name, column_name FROM duckdb_columns() {silent}").fetchall() == []
        for table in TABLES:
            client.execute(f"FROM {table.full_name}")
        assert client.execute("SELECT count(*) FROM facts.dump").fetchall() == [(4,)]
        tags = client.execute("SELECT tags FROM duckdb_databases() WHERE database_name = 'global'").fetchall()[0][0]
    assert tags["storage_version"].startswith("v1.5.0")


def test_only_one_at_a_time(store: Path) -> None:
    script = "import sys, pathlib, whichrank.store.compaction as c\nwith c.alone(pathlib.Path(sys.argv[1])):\n"
    script += "    print('held', flush=True)\n    sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", script, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout
        assert other.stdout.readline() == "held\n"
        with pytest.raises(NotCompacted, match="being compacted already"):
            compact(store)
    finally:
        other.communicate("")
    assert compact(store).added > 0


def test_killed_in_the_middle(store: Path) -> None:
    before = _said(store)
    code = "import sys, pathlib; from whichrank.engine.compaction import compact; compact(pathlib.Path(sys.argv[1]))"
    child = subprocess.Popen([sys.executable, "-c", code, store])
    until = time.monotonic() + 60
    while not list(store.glob(".global.duckdb.*")) and child.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert _said(store) == before
    compact(store)
    assert _said(store) == before
    assert not list(store.glob(".global.duckdb.*"))


def test_what_is_no_store(tmp_path: Path, store: Path) -> None:
    with pytest.raises(NoEvidence, match="is no store"):
        compact(tmp_path / "nowhere")
    foreign = duckdb.connect(str(store / "global.duckdb"))
    foreign.close()
    with pytest.raises(NotCompacted, match="was not made by whichrank"):
        compact(store)
    with alone(store):
        pass
