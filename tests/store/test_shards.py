"""Shards: whole or not at all, by whom and how often ever they are written."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from whichrank.batch import Batch, note, notes_batch, rows_to_arrow
from whichrank.errors import EXIT_CANNOT_DIAGNOSE, UsageError
from whichrank.store import shards
from whichrank.store.evidence import Evidence
from whichrank.store.shards import StoreNotWritten, keep_raw, write
from whichrank.tables import DUMP, FLIGHT_RECORD, NOTE, RANKS, SIGNATURE, STACK, Table, arrow_schema


def batch(rank: int | None = 3, snapshot_id: str = "snap", entries: int = 4) -> Batch:
    whose = {"snapshot_id": snapshot_id, "rank": rank}
    frames = [{"name": "f", "filename": "/job/a.py", "line": 1}]
    call = whose | {"stack_id": 7, "signature_id": -7, "state": "started"}
    records = [call | {"entry_index": i} for i in range(entries)]
    rows: dict[Table, list[dict[str, Any]]] = {
        DUMP: [whose | {"entries": entries, "source": "file"}],
        FLIGHT_RECORD: records,
        STACK: [{"stack_id": 7, "frames": frames, "top_frame": "f (/job/a.py:1)"}],
        SIGNATURE: [{"signature_id": -7, "profiling_name": "nccl:all_reduce", "input_sizes": [[4, 2], []]}],
        RANKS: [],
    }
    return Batch(snapshot_id, rank, {table.name: rows_to_arrow(table, found) for table, found in rows.items()})


def files(store: Path) -> list[str]:
    return sorted(str(path.relative_to(store)) for path in store.rglob("*") if path.is_file())


def test_a_table_is_a_folder_and_a_rank_a_folder_in_it(tmp_path: Path) -> None:
    written = write(tmp_path / "new/store", batch())
    assert files(tmp_path / "new/store") == [
        "torch_nccl_dump/rank=3/snap.parquet",
        "torch_nccl_flight_record/rank=3/snap.parquet",
        "torch_nccl_signature/rank=3/snap.parquet",
        "torch_nccl_stack/rank=3/snap.parquet",
    ]
    assert sorted(str(path.relative_to(tmp_path / "new/store")) for path in written) == files(tmp_path / "new/store")


def test_a_reader_never_meets_a_row_that_points_nowhere(tmp_path: Path) -> None:
    """Lookups come before the rows that refer to them, and the dump, which says that all is there, comes last."""
    order = [path.parent.parent.name for path in write(tmp_path, batch())]
    assert order.index("torch_nccl_stack") < order.index("torch_nccl_flight_record") < order.index("torch_nccl_dump")


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    whole = batch()
    write(tmp_path, whole)
    for name, found in shards.shards(tmp_path).items():
        (path,) = found
        schema = whole.tables[name].schema
        read = pq.read_table(path, partitioning=None).cast(schema)
        assert read.to_pylist() == whole.tables[name].to_pylist()
    with Evidence(stores=[tmp_path]) as evidence:
        query = "SELECT rank, state, profiling_name, input_sizes, top_frame FROM global.python.torch_nccl_flight_record"
        found_rows = evidence.connection.execute(query).fetchall()
    assert found_rows == [(3, "started", "nccl:all_reduce", [[4, 2], []], "f (/job/a.py:1)")] * 4


def test_rank_none_has_a_folder_of_its_own(tmp_path: Path) -> None:
    (path,) = write(tmp_path, notes_batch("snap", None, [note("foreign", "no dump")]))
    assert path.parent == tmp_path / "collection_note/rank=none"
    with Evidence(stores=[tmp_path]) as evidence:
        assert evidence.count(NOTE.full_name) == 1


def test_writing_twice_changes_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        write(tmp_path, batch())
        write(tmp_path, notes_batch("snap", 3, [note("empty", "it is empty")]))
    assert len(files(tmp_path)) == 5
    with Evidence(stores=[tmp_path]) as evidence:
        assert evidence.count(FLIGHT_RECORD.full_name) == 4


def test_notes_of_two_collectors_do_not_replace_each_other(tmp_path: Path) -> None:
    for text in ("the dump is empty", "the log is cut off"):
        write(tmp_path, notes_batch("snap", 3, [note("truncated", text)]))
    with Evidence(stores=[tmp_path]) as evidence:
        assert evidence.count(NOTE.full_name) == 2


def test_many_writers_at_once(tmp_path: Path) -> None:
    """Ranks and hosts write without a lock, some of them the same thing; a reader sees whole files only."""
    done = threading.Event()
    seen: list[int] = []

    def read() -> None:
        while not done.is_set():
            found = shards.shards(tmp_path).get(FLIGHT_RECORD.name, [])
            seen.extend(pq.read_table(path, partitioning=None).num_rows for path in found)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: write(tmp_path, batch(rank=i % 5, entries=100)), range(40)))
    finally:
        done.set()
        reader.join()
    assert set(seen) <= {100}
    assert len(shards.shards(tmp_path)[FLIGHT_RECORD.name]) == 5
    assert not [name for name in files(tmp_path) if not name.endswith(".parquet")]


def test_temporary_files_are_no_shards(tmp_path: Path) -> None:
    write(tmp_path, batch())
    folder = tmp_path / "torch_nccl_flight_record/rank=3"
    (folder / ".snap.parquet.1234.tmp").write_bytes(b"half a f")
    (folder / ".hidden.parquet").write_bytes(b"half a f")
    (tmp_path / "other/rank=3").mkdir(parents=True)
    (tmp_path / "other/rank=3/x.parquet").write_bytes(b"not ours")
    assert shards.shards(tmp_path)[FLIGHT_RECORD.name] == [folder / "snap.parquet"]
    assert "other" not in shards.shards(tmp_path)
    assert shards.shards(tmp_path / "missing") == {}


def test_a_killed_writer_leaves_no_shard(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from tests.store.test_shards import batch\n"
        "from whichrank.store import shards\n"
        "shards.os.fsync = lambda _: os._exit(9)\n"
        f"shards.write(Path({str(tmp_path)!r}), batch())\n"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", program], env=env, check=False).returncode == 9
    assert [name for name in files(tmp_path) if name.endswith(".tmp")]
    assert shards.shards(tmp_path) == {}
    write(tmp_path, batch())
    assert len(shards.shards(tmp_path)) == 4


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("step", ["os.fsync", "Path.replace", "Path.mkdir", "_write_parquet"])
def test_a_full_disk_is_an_error_a_person_can_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setattr(f"whichrank.store.shards.{step}", failing(errno.ENOSPC))
    with pytest.raises(StoreNotWritten) as caught:
        write(tmp_path / "store", batch())
    assert "No space left on device" in caught.value.what
    assert str(tmp_path / "store") in caught.value.what
    assert caught.value.next is not None
    assert caught.value.exit_code == EXIT_CANNOT_DIAGNOSE
    assert files(tmp_path) == []


def test_arrow_tells_of_a_full_disk_too(tmp_path: Path) -> None:
    with pytest.raises(StoreNotWritten), shards._new_file(tmp_path, tmp_path / "x.parquet") as file:
        pq.write_table(pa.table({"x": [1]}), Full(file))
    assert files(tmp_path) == []


class Full:
    """A file on a disk without room."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, _: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_store_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreNotWritten):
            write(tmp_path / "store", batch())
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("where", ["store", "store/torch_nccl_stack"])
def test_a_file_where_a_folder_should_be(tmp_path: Path, where: str) -> None:
    (tmp_path / where).parent.mkdir(exist_ok=True)
    (tmp_path / where).touch()
    with pytest.raises(StoreNotWritten) as caught:
        write(tmp_path / "store", batch())
    assert caught.value.looked_for is not None


@pytest.mark.parametrize("snapshot_id", ["", "a/b", "..", ".hidden", "a\0b", "x" * 300, "ä", "a b"])
def test_a_snapshot_id_must_be_a_file_name(tmp_path: Path, snapshot_id: str) -> None:
    with pytest.raises(UsageError):
        write(tmp_path, batch(snapshot_id=snapshot_id))
    (tmp_path / "raw_file").write_bytes(b"x")
    with pytest.raises(UsageError):
        keep_raw(tmp_path, snapshot_id, tmp_path / "raw_file")


def test_what_could_not_be_converted_is_kept(tmp_path: Path) -> None:
    dumps, store = tmp_path / "dumps", tmp_path / "store"
    for node, content in (("node1", b"cut off"), ("node2", b"cut off as well")):
        (dumps / node).mkdir(parents=True)
        (dumps / node / "rank_3").write_bytes(content)
    kept = [keep_raw(store, "snap", dumps / node / "rank_3") for node in ("node1", "node2", "node1", "node2")]
    assert [path.read_bytes() for path in kept[:2]] == [b"cut off", b"cut off as well"]
    assert kept[0] == store / "raw/snap/rank_3"
    assert kept[2:] == kept[:2]
    assert len(files(store)) == 2
    assert shards.shards(store) == {}


def test_what_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreNotWritten) as caught:
        keep_raw(tmp_path, "snap", tmp_path / "missing")
    assert "missing" in caught.value.what


def test_shards_are_small(tmp_path: Path) -> None:
    """2,000 entries of a dump take 10 kB: what counts up is stored as differences."""
    schema = arrow_schema(FLIGHT_RECORD)
    counting = {"record_id", "entry_index", "collective_seq_id", "op_id", "time_created_ns"}
    rows = [dict.fromkeys(counting, 10**6 + 14 * i) | {"snapshot_id": "snap", "rank": 1} for i in range(2_000)]
    write(tmp_path, Batch("snap", 1, {FLIGHT_RECORD.name: rows_to_arrow(FLIGHT_RECORD, rows)}))
    (path,) = shards.shards(tmp_path)[FLIGHT_RECORD.name]
    assert path.stat().st_size < 12_000
    assert pq.read_schema(path).names == schema.names
