"""The views over dumps, shards, a compacted store, and all of them together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.engine.mini import batches
from whichrank.batch import Batch
from whichrank.errors import NoEvidence
from whichrank.store.evidence import Evidence
from whichrank.tables import TABLES, by_name

COUNT = "SELECT count(*), count(DISTINCT rank), count(profiling_name), count(frames) FROM {}.torch_nccl_flight_record"


def _write(store: Path, rows: Iterable[Batch]) -> Path:
    """Shards as store/shards.py names them."""
    for batch in rows:
        for name, table in batch.tables.items():
            folder = store / name / f"rank={batch.rank}"
            folder.mkdir(parents=True)
            pq.write_table(table, folder / f"{batch.snapshot_id}.parquet")
    return store


def _all(evidence: Evidence, sql: str) -> list[tuple[Any, ...]]:
    return evidence.connection.execute(sql).fetchall()


def test_every_table_has_both_views_even_when_nothing_was_read() -> None:
    with Evidence() as evidence:
        for table in TABLES:
            names = [column.name for column in table.columns]
            for prefix, extra in (("", []), ("global.", [] if table.key else ["_host", "_rank"])):
                result = evidence.connection.execute(f"FROM {prefix}{table.full_name}")
                assert [column[0] for column in result.description or ()] == extra + names
                assert result.fetchall() == []


def test_lazy_views_come_when_they_are_asked_for() -> None:
    with Evidence(batches({0: 3}), lazy=True) as evidence:
        assert evidence.present == {
            f"python.torch_nccl_{name}" for name in ("dump", "flight_record", "signature", "stack")
        }
        assert not _all(evidence, "SELECT * FROM duckdb_views() WHERE NOT internal")
        assert evidence.count("python.torch_nccl_flight_record") == 3
        evidence.load(["python.torch_nccl_flight_record"])
        views = _all(evidence, "SELECT DISTINCT view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL")
        assert views == [("torch_nccl_flight_record",), ("torch_nccl_signature",), ("torch_nccl_stack",)]
        evidence.show()
        assert _all(evidence, "FROM global.python.collection_note") == []


def test_dumps_are_views_over_rows_in_memory() -> None:
    with Evidence(batches({0: 3, 1: 2})) as evidence:
        assert _all(evidence, COUNT.format("global.python")) == [(5, 2, 5, 5)]
        assert evidence.count("python.torch_nccl_stack") == 1, "both dumps brought the same stack"
        assert _all(evidence, "SELECT DISTINCT backend, top_frame FROM python.torch_nccl_flight_record") == [
            ("nccl", "step (train.py:88)")
        ]


def test_python_is_this_host_and_dumps_count_as_it() -> None:
    with Evidence(batches({0: 3, 1: 2, 2: 1}, {0: "here", 1: "there"}), host="here") as evidence:
        assert _all(evidence, "SELECT rank FROM python.torch_nccl_dump ORDER BY rank") == [(0,), (2,)]
        assert _all(evidence, "SELECT _rank, _host FROM global.python.torch_nccl_dump ORDER BY 1") == [
            (0, "here"), (1, "there"), (2, None),
        ]  # fmt: skip


def test_a_host_may_have_a_quote_in_its_name() -> None:
    with Evidence(batches({0: 3}, {0: "o'h"}), host="o'h") as evidence:
        assert _all(evidence, "SELECT rank FROM python.torch_nccl_dump") == [(0,)]


def test_shards_temporary_files_and_odd_folders(tmp_path: Path) -> None:
    store = _write(tmp_path / "it's a [store]*", batches({0: 3, 1: 2}))
    (store / "torch_nccl_dump" / "rank=1" / "s2.parquet.tmp-1").write_bytes(b"half a shard")
    (store / "raw").mkdir()
    with Evidence(stores=[store]) as evidence:
        assert _all(evidence, COUNT.format("global.python")) == [(5, 2, 5, 5)]
        assert _all(evidence, "SELECT count(*) FROM python.torch_nccl_stack") == [(1,)]


def test_shards_of_an_older_and_a_newer_version(tmp_path: Path) -> None:
    store = _write(tmp_path, batches({0: 3}))
    folder = store / "torch_nccl_dump" / "rank=1"
    folder.mkdir()
    pq.write_table(pa.table({"rank": [1], "from_the_future": ["x"]}), folder / "s1.parquet")
    with Evidence(stores=[store]) as evidence:
        rows = _all(evidence, "SELECT rank, entries FROM global.python.torch_nccl_dump ORDER BY rank")
        assert rows == [(0, 3), (1, None)]


def test_dumps_beside_two_stores(tmp_path: Path) -> None:
    stores = [_write(tmp_path / "a", batches({0: 3})), _write(tmp_path / "b", batches({1: 2}))]
    with Evidence(batches({2: 1}), stores=stores) as evidence:
        assert _all(evidence, COUNT.format("global.python")) == [(6, 3, 6, 6)]


def _compact(store: Path, rows: Iterable[Batch]) -> Path:
    """`shard.<table>` in STORE/global.duckdb."""
    store.mkdir(exist_ok=True)
    with Evidence(rows) as evidence:
        run = evidence.connection.execute
        run(f"ATTACH '{store}/global.duckdb' AS out")
        run("CREATE SCHEMA out.shard")
        for table in TABLES[:-1]:  # an older version had fewer tables
            run(f"CREATE TABLE out.shard.{table.name} AS FROM global.shard.{table.name}")
        run("DETACH out")
    return store


def test_a_compacted_store_and_newer_shards_beside_it(tmp_path: Path) -> None:
    store = _write(_compact(tmp_path / "store", batches({0: 3})), batches({1: 2}))
    with Evidence(stores=[store]) as evidence:
        assert _all(evidence, COUNT.format("global.python")) == [(5, 2, 5, 5)]
        with pytest.raises(duckdb.Error, match="read-only"):
            evidence.connection.execute("DELETE FROM compacted.shard.torch_nccl_dump")
    with Evidence(stores=[store / "global.duckdb"]) as evidence:
        assert _all(evidence, COUNT.format("global.python")) == [(3, 1, 3, 3)]


def test_a_damaged_compacted_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "global.duckdb").write_bytes(b"no database")
    with pytest.raises(NoEvidence, match=r"global\.duckdb cannot be opened"):
        Evidence(stores=[tmp_path])


def test_loaded_tables_are_read_without_a_file_system(tmp_path: Path) -> None:
    store = _write(tmp_path, batches({0: 3, 1: 2}))
    with Evidence(stores=[store]) as evidence:
        evidence.load(["torch_nccl_flight_record", "no_such_table"])
        evidence.connection.execute("SET enable_external_access = false")
        assert _all(evidence, COUNT.format("python")) == [(5, 2, 5, 5)]


@pytest.mark.parametrize("kind", ["dumps", "shards", "compacted"])
def test_the_prelude_gives_a_bare_client_the_same_views(tmp_path: Path, kind: str) -> None:
    rows, stores = batches({0: 3, 1: 2}), [tmp_path / "store"]
    (_compact if kind == "compacted" else _write)(tmp_path / "store", batches({0: 3, 1: 2}))
    with Evidence(rows) if kind == "dumps" else Evidence(stores=stores) as evidence:
        prelude = evidence.prelude(["python.torch_nccl_flight_record"], str(tmp_path / "store"))
    with duckdb.connect() as bare:
        for statement in prelude:
            bare.execute(statement)
        for schema in ("global.python", "python"):
            assert bare.execute(COUNT.format(schema)).fetchall() == [(5, 2, 5, 5)]


def test_comments_are_there_when_asked_for() -> None:
    sql = "SELECT count(comment) FROM duckdb_columns() WHERE schema_name = 'python' AND table_name = 'torch_nccl_dump'"
    table = by_name("torch_nccl_dump")
    assert table is not None
    with Evidence(comments=True) as evidence:
        assert _all(evidence, sql) == [(2 * len(table.columns),)]
