"""Statements of somebody who means harm, or asks too much: each is refused or harmless, and every file stays as it was.

The evidence is a store with shards, a compacted file and a raw dump, because that is where there is something to lose.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.builder import Job
from whichrank.engine.compaction import compact
from whichrank.engine.inquiry import guard_for
from whichrank.engine.intake import collect, open_evidence
from whichrank.engine.manifest import Pack
from whichrank.errors import QueryFailed, QueryRefused
from whichrank.store.guard import Guard, Limits

pytestmark = pytest.mark.xdist_group("attacks")

INSERT = "INSERT INTO global.shard.torch_nccl_dump (rank) VALUES (9)"
SHARD = "{store}/torch_nccl_dump/rank=none/x.parquet"

REFUSED = [
    # writes
    INSERT,
    "UPDATE global.shard.torch_nccl_dump SET rank = 9",
    "DELETE FROM global.shard.torch_nccl_dump",
    "MERGE INTO facts.dump USING (SELECT 1 AS rank) AS s ON false WHEN NOT MATCHED THEN INSERT (rank) VALUES (1)",
    "TRUNCATE facts.dump",
    "CREATE TABLE x AS SELECT 1",
    "CREATE OR REPLACE VIEW python.torch_nccl_dump AS SELECT 1",
    "CREATE OR REPLACE MACRO abs(x) AS 1",
    "CREATE SEQUENCE s",
    "CREATE TYPE t AS ENUM ('a')",
    "CREATE SECRET s (TYPE s3)",
    "ALTER TABLE facts.dump RENAME TO gone",
    "DROP SCHEMA facts CASCADE",
    "COMMENT ON TABLE facts.dump IS 'x'",
    "VACUUM",
    "ANALYZE",
    "CHECKPOINT",
    "FORCE CHECKPOINT global",
    # files and catalogs
    f"COPY (SELECT 1) TO '{SHARD}' (FORMAT parquet)",
    "COPY facts.dump TO '{store}/global.duckdb'",
    "COPY facts.dump FROM '/etc/passwd'",
    "COPY FROM DATABASE memory TO global",
    "ATTACH '{store}/global.duckdb' AS mine",
    "ATTACH OR REPLACE ':memory:' AS global",
    "DETACH global",
    "USE global",
    "EXPORT DATABASE '{store}'",
    "IMPORT DATABASE '{store}'",
    # settings, extensions, control
    "SET enable_external_access = true",
    "SET GLOBAL max_execution_time = 0",
    "RESET memory_limit",
    "PRAGMA enable_external_access = true",
    "PRAGMA database_list",
    "INSTALL httpfs FROM 'http://example.invalid'",
    "LOAD '{store}/evil.duckdb_extension'",
    "UPDATE EXTENSIONS",
    "CALL pragma_version()",
    "CALL force_checkpoint()",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "PREPARE p AS SELECT 1",
    f"PREPARE p AS {INSERT}",
    "EXECUTE p",
    "DEALLOCATE p",
    # one statement that is two, or another one
    f"SELECT 1; {INSERT}",
    f"SELECT 1;;{INSERT};",
    f"/* SELECT */ {INSERT}",
    f"SELECT 1 -- \n;{INSERT}",
    "SELECT 1;\u00a0COMMIT",
    "",
    ";",
    "-- nothing",
    f"EXPLAIN ANALYZE {INSERT}",
    f"EXPLAIN (ANALYZE) {INSERT}",
    f"ExPlAiN/**/aNaLyZe {INSERT}",
    f"EXPLAIN\n--x\nANALYZE {INSERT}",
    "EXPLAIN (FORMAT json, ANALYZE true) SELECT 1",
    "EXPLAIN (\nanalyse) SELECT 1",
    "SELECT sleep_ms(100000)",
    "PIVOT facts.dump ON rank USING count(*)",  # it makes a type first
    "SELECT \ud800",
]

STOPPED = [  # it passes for a SELECT, and the connection or its limits end it
    f"WITH x AS ({INSERT} RETURNING *) FROM x",
    f"SELECT * FROM ({INSERT} RETURNING *)",
    "WITH x AS (DELETE FROM facts.dump RETURNING *) SELECT count(*) FROM x",
    f"WITH x AS (COPY (SELECT 1) TO '{SHARD}') FROM x",
    f"EXPLAIN {INSERT}",
    "FROM '/etc/passwd'",
    "FROM '{store}/torch_nccl_dump/*/*.parquet'",
    'FROM "/etc/passwd"',
    "FROM read_csv('/etc/passwd', header = false)",
    "FROM read_text('/etc/passwd')",
    "FROM read_blob('{store}/raw/*')",
    "FROM read_json('{store}/x.json')",
    "FROM read_parquet('{store}/*/*/*.parquet')",
    "FROM read_parquet('s3://bucket/x.parquet')",
    "FROM read_csv('http://169.254.169.254/latest/meta-data/')",
    "FROM glob('/**')",
    "FROM parquet_schema('{store}/torch_nccl_dump/rank=0/x.parquet')",
    "FROM parquet_metadata('x')",
    "FROM sniff_csv('/etc/passwd')",
    "FROM read_duckdb('{store}/global.duckdb')",
    "SELECT content FROM read_text(['/etc/hostname', '/etc/passwd'])",
    "FROM query('FROM read_text(''/etc/passwd'')')",
    "FROM query_table('/etc/passwd')",
    "FROM duckdb_secrets()",
    "FROM which_secret('s3://x', 's3')",
    f"FROM query('{INSERT}')",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''/etc/passwd'')'))",
    "SELECT nextval('s')",
    "SELECT getenv('ATTACKED')",
    "SELECT current_setting('s3_secret_access_key')",
    "FROM enable_logging(storage = 'file', storage_path = '{store}')",
    "FROM load_aws_credentials()",
    "FROM sqlite_scan('{store}/x', 'y')",
    "FROM postgres_query('x', 'y')",
    "FROM shell('id')",
    "FROM os",
    "FROM LIMITS",
    "SELECT count(*) FROM range(1000000000) AS a, range(1000000) AS b",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "WITH RECURSIVE r AS (SELECT [1] AS n UNION ALL SELECT n || n FROM r) SELECT max(len(n)) FROM r",
    "SELECT list(a.range) FROM range(100000000) AS a, range(1000) AS b",
    "SELECT string_agg(a.range::VARCHAR, '') FROM range(3000000000) AS a",
    "SELECT md5(a.range::VARCHAR) FROM range(10000000000) AS a ORDER BY 1",
    "SELECT " + "(" * 4000 + "1" + ")" * 4000,
    "SELECT 1 FROM python.torch_nccl_dump WHERE \x00",
    "ＳＥＬＥＣＴ 1",
    "SELECT 1 \u202e; TROLLOC",
]

HARMLESS = [  # it runs, and shows nothing but the evidence
    "SELECT '; DROP TABLE x' AS text",
    "SELECT 'EXPLAIN ANALYZE' AS text -- ; DROP TABLE facts.dump",
    "SELECT /* INSERT INTO x */ 1 AS a",
    "SELECT $$; DELETE FROM facts.dump; $$ AS text",
    "SELECT 'a''; DROP TABLE x; --' AS text",
    'SELECT "rank" FROM facts.dump',
    "SELECT repeat('x', 100000) AS long",
    "SELECT * FROM range(1000000000)",
    'SELECT 1 AS "\'; DROP TABLE x"',
    "SHOW ALL TABLES",
    "SELECT current_database(), version()",
    "FROM duckdb_settings()",
    "FROM (DESCRIBE facts.op)",
    "SELECT '\u202eevil' AS text",
    "TABLE facts.dump",
    "VALUES (1), (2)",
    "SELECT 1 UNION ALL SELECT 2",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 100) SELECT max(n) AS n FROM r",
    "SELECT rank, row_number() OVER (ORDER BY rank) AS n FROM global.python.torch_nccl_flight_record QUALIFY n < 3",
    "SUMMARIZE facts.dump",
    'SELECT 1 AS "' + "a" * 100_000 + '"',
    "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1 AS a'))",
    "FROM test_all_types()",
    "FROM duckdb_logs()",
]

BEYOND_DUCKDB = [
    "SELECT length(repeat('x', 4000000000))",
    "SELECT list_sum(range(500000000))",
    "SELECT list_transform(range(10000000), lambda x: repeat('a', x))",
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attacked")
    job = Job(ranks=4).all_reduce().all_reduce().stop(2).all_reduce()
    dumps = job.write(folder / "dumps")
    (dumps / "broken_rank_9").write_bytes(next(dumps.iterdir()).read_bytes()[:100])
    collect([dumps], folder / "store")
    compact(folder / "store")
    assert list((folder / "store" / "raw").rglob("*_9"))
    return folder / "store"


@pytest.fixture(scope="module")
def guard(store: Path) -> Iterator[Guard]:
    os.environ["ATTACKED"] = "a secret"
    with open_evidence([store], comments=True) as evidence:
        yield guard_for(evidence, Pack(), None, Limits(rows=20, characters=4_000, seconds=1, memory_mib=200))
    del os.environ["ATTACKED"]


@pytest.fixture(scope="module")
def whole(store: Path) -> str:
    return digest(store)


def digest(store: Path) -> str:
    """Of the names and bytes of all files."""
    found = hashlib.sha256()
    for path in sorted(store.rglob("*")):
        found.update(f"{path.relative_to(store)}\n".encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


def attack(guard: Guard, sql: str, store: Path) -> str:
    """What happens; and the next honest question still has its answer."""
    sql = sql.replace("{store}", str(store))
    try:
        answer = guard.run(sql)
        outcome = "ran"
        assert len(answer.rows) <= guard.limits.rows
        assert len(json.dumps([answer.columns, answer.rows], default=str)) <= guard.limits.characters + 200
        assert "a secret" not in str(answer.rows)
        assert "root:" not in str(answer.rows)
    except QueryRefused:
        outcome = "refused"
    except QueryFailed:
        outcome = "stopped"
    assert guard.run("SELECT count(DISTINCT rank) FROM global.python.torch_nccl_dump").rows == [(4,)]
    return outcome


def test_there_are_enough() -> None:
    every = [*REFUSED, *STOPPED, *HARMLESS, *BEYOND_DUCKDB]
    assert len(set(every)) == len(every) > 100


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: ascii(sql)[:60])
def test_refused(guard: Guard, store: Path, whole: str, sql: str) -> None:
    assert attack(guard, sql, store) in ("refused", "stopped")
    assert digest(store) == whole


@pytest.mark.parametrize("sql", STOPPED, ids=lambda sql: ascii(sql)[:60])
def test_stopped(guard: Guard, store: Path, whole: str, sql: str) -> None:
    assert attack(guard, sql, store) in ("refused", "stopped")
    assert digest(store) == whole


@pytest.mark.parametrize("sql", HARMLESS, ids=lambda sql: ascii(sql)[:60])
def test_harmless(guard: Guard, store: Path, whole: str, sql: str) -> None:
    assert attack(guard, sql, store) == "ran"
    assert digest(store) == whole


@pytest.mark.parametrize("sql", BEYOND_DUCKDB)
def test_what_only_a_process_can_stop(store: Path, whole: str, sql: str) -> None:
    """`whichrank query`, which is what the MCP tool runs as well."""
    limits = {"WHICHRANK_SQL_SECONDS": "20", "WHICHRANK_SQL_MEMORY_MIB": "256"}
    command = [sys.executable, "-m", "whichrank", "query", str(store), sql]
    done = subprocess.run(command, env=os.environ | limits, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "stopped at 256 MiB" in done.stderr
    assert digest(store) == whole
