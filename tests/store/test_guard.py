"""What a stranger's SQL can and cannot do. Each setting of the connection is tried by the attack it stops."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.mini import batches
from whichrank.errors import QueryFailed, QueryRefused, UsageError
from whichrank.store.evidence import Evidence
from whichrank.store.guard import Guard, Limits


@pytest.fixture(scope="module")
def evidence() -> Iterator[Evidence]:
    with Evidence(batches({0: 3, 1: 2}), comments=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def guard(evidence: Evidence) -> Guard:
    return Guard(evidence, Limits(rows=5, characters=1000, seconds=1))


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT rank FROM python.torch_nccl_dump ORDER BY rank", [(0,), (1,)]),
        ("SELECT _rank, _host FROM global.python.torch_nccl_dump ORDER BY ALL LIMIT 1;", [(0, None)]),
        ("WITH x AS (SELECT 1 AS a) FROM x", [(1,)]),
        ("SELECT comment FROM duckdb_columns() WHERE table_name = 'torch_nccl_dump' AND column_name = 'bytes' LIMIT 1",
         [("Size of the dump. [bytes]",)]),
        ("SELECT 'EXPLAIN ANALYZE; INSERT' AS text -- DELETE", [("EXPLAIN ANALYZE; INSERT",)]),
    ],
)  # fmt: skip
def test_reading_works(guard: Guard, sql: str, rows: list[tuple[object, ...]]) -> None:
    answer = guard.run(sql)
    assert answer.rows == rows
    assert not answer.truncated


@pytest.mark.parametrize(
    "sql", ["DESCRIBE python.torch_nccl_dump", "EXPLAIN SELECT 1", "EXPLAIN (FORMAT json) SELECT 1"]
)
def test_looking_around_works(guard: Guard, sql: str) -> None:
    assert guard.run(sql).rows


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELECT 1; SELECT 2",
        "CREATE TABLE x AS SELECT 1",
        "INSERT INTO global.shard.torch_nccl_dump (rank) VALUES (9)",
        "DROP VIEW python.torch_nccl_dump",
        "SET memory_limit = '99GB'",
        "SET VARIABLE x = 1",
        "COPY (SELECT 1) TO 'x.csv'",
        "ATTACH 'x.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA version",
        "CALL enable_logging()",
        "COMMIT",
        "EXPLAIN ANALYZE SELECT 1",
        "explain /* quietly */ analyze INSERT INTO global.shard.torch_nccl_dump (rank) VALUES (9)",
        "EXPLAIN (FORMAT json, ANALYZE) SELECT 1",
        "SELECT sleep_ms(100000)",
    ],
)
def test_refused_before_it_runs(guard: Guard, sql: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        guard.run(sql)
    assert "one SELECT" in str(refused.value.looked_for)


@pytest.mark.parametrize(
    ("sql", "because"),
    [
        (
            "WITH x AS (INSERT INTO global.shard.torch_nccl_dump (rank) VALUES (9) RETURNING *) FROM x",
            "read-only|INSERT",
        ),
        ("EXPLAIN INSERT INTO global.shard.torch_nccl_dump (rank) VALUES (9)", "read-only|INSERT"),
        ("WITH x AS (COPY (SELECT 1) TO 'x.csv') FROM x", "disabled by configuration|COPY"),
        ("FROM '/etc/passwd'", "does not exist"),
        ("FROM read_csv('/etc/passwd')", "disabled by configuration"),
        ("FROM read_blob('/etc/passwd')", "disabled by configuration"),
        ("FROM glob('/etc/*')", "disabled by configuration"),
        ("FROM 'x.parquet'", "disabled by configuration"),
        ("FROM parquet_metadata('x.parquet')", "disabled by configuration"),
        ("FROM duckdb_secrets()", "disabled by configuration"),
        ("FROM read_parquet('https://example.invalid/x.parquet')", "disabled by configuration"),
        ("FROM enable_logging(storage = 'file', storage_path = 'x')", "locked"),
        ("FROM sqlite_scan('x', 'y')", "not in the catalog"),
        ("FROM evidence", "does not exist"),  # a Python variable in sight
        ("SELECT count(*) FROM range(10000000) AS a, range(1000000) AS b", "stopped after 1 s"),
        ("SELECT nothing FROM python.torch_nccl_dump", "nothing"),
        ("SELEC 1", "syntax error"),
    ],
)
def test_stopped_by_the_connection(guard: Guard, sql: str, because: str) -> None:
    with pytest.raises((QueryFailed, QueryRefused), match=because):
        guard.run(sql)


def test_nothing_was_written(guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((QueryFailed, QueryRefused)):
        guard.run("WITH x AS (COPY (SELECT 1) TO 'x.csv') FROM x")
    assert guard.run("SELECT count(*) FROM global.shard.torch_nccl_dump").rows == [(2,)]
    assert not list(tmp_path.iterdir())


def test_the_settings_cannot_be_changed_back(guard: Guard) -> None:
    values = dict(guard.run(
        "SELECT name, value FROM duckdb_settings() WHERE name IN ('lock_configuration', 'enable_external_access', "
        "'temp_directory', 'max_execution_time', 'allow_community_extensions') ORDER BY name"
    ).rows)  # fmt: skip
    assert values == {
        "allow_community_extensions": "false",
        "enable_external_access": "false",
        "lock_configuration": "true",
        "max_execution_time": "1000",
        "temp_directory": "",
    }


def test_answers_are_capped_and_say_so(guard: Guard) -> None:
    rows = guard.run("SELECT * FROM range(1000000000)")
    assert (len(rows.rows), rows.truncated) == (5, True)
    assert "cut at 5 rows" in str(rows.hint)
    wide = guard.run("SELECT repeat('x', 400) AS a FROM range(4)")
    assert (len(wide.rows), wide.truncated) == (2, True)
    assert "1,000 characters" in str(wide.hint)
    assert wide.as_dict()["truncated"] is True
    assert not guard.run("SELECT * FROM range(5)").truncated


def test_equal_names_keep_their_values(guard: Guard) -> None:
    assert guard.run("SELECT 1 AS a, 2 AS a, 3 AS a").as_dict()["rows"] == [{"a": 1, "a_2": 2, "a_3": 3}]


def test_limits_come_from_the_operator() -> None:
    limits = Limits.from_environment({"WHICHRANK_SQL_ROWS": "7", "WHICHRANK_SQL_SECONDS": "1.5"})
    assert (limits.rows, limits.seconds, limits.characters) == (7, 1.5, 50_000)
    for text in ("many", "0", "-3", "nan"):
        with pytest.raises(UsageError, match="WHICHRANK_SQL_ROWS"):
            Limits.from_environment({"WHICHRANK_SQL_ROWS": text})


@pytest.mark.skipif(importlib.util.find_spec("sqlglot") is None, reason="needs the extra agent")
def test_sqlglot_refuses_what_writes_inside(guard: Guard) -> None:
    with pytest.raises(QueryRefused, match="INSERT inside the statement"):
        guard.run("WITH x AS (INSERT INTO global.shard.torch_nccl_dump (rank) VALUES (9) RETURNING *) FROM x")


@pytest.mark.parametrize(
    ("sql", "code"),
    [("SELECT length(repeat('x', 4000000000))", 7), ("SELECT list_sum(range(500000000))", 7), ("loop", 9)],
)
def test_what_duckdb_does_not_limit_the_process_does(sql: str, code: int) -> None:
    """In a process of its own, for the limits cannot be taken back."""
    script = f"""
import sys, time
from tests.engine.mini import batches
from whichrank.errors import QueryFailed
from whichrank.store import confine
from whichrank.store.evidence import Evidence
from whichrank.store.guard import Guard, Limits
confine._GRACE_S = 0.5
guard = Guard(Evidence(batches({{0: 3}})), Limits(seconds=20, memory_mib=256))
assert confine.confine_memory(256)
if {sql!r} == "loop":
    with confine.hard_stop(0.1, lambda: print("over"), 9):
        time.sleep(60)
try:
    guard.run({sql!r})
except QueryFailed as error:
    assert "stopped at 256 MiB" in str(error), error
    assert guard.run("SELECT 1").rows == [(1,)]
    sys.exit(7)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
