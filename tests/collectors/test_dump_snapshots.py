"""One call is one snapshot: same id and same rows, whatever the order, the place and the number of workers."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.dumps import T0, all_rows, entries, entry, notes, payload, rows, write_json, write_pickle
from whichrank.batch import Batch
from whichrank.collectors import flight_recorder_dump, flight_recorder_pool, flight_recorder_rank
from whichrank.collectors.flight_recorder_dump import read


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Ten ranks; one file is damaged, one foreign, one a duplicate, one nameless."""
    folder = tmp_path / "job"
    for rank in range(10):
        write_pickle(folder / f"rank_{rank}", payload(entries(5 + rank, thread_id=str(rank))))
    write_json(folder / "other_rank_3.json", payload(entries(2, frames=...)))
    (folder / "rank_7").write_bytes((folder / "rank_7").read_bytes()[:300])
    (folder / "notes.md").write_text("# notes")
    write_pickle(folder / "nameless", payload())
    return folder


def content(batches: list[Batch]) -> list[tuple[Any, ...]]:
    return [(b.snapshot_id, b.rank, {name: table.to_pylist() for name, table in b.tables.items()}) for b in batches]


def test_one_snapshot_for_all(job: Path) -> None:
    batches = list(read([job]))
    (snapshot_id,) = {batch.snapshot_id for batch in batches}
    tables = [
        (batch, name) for batch in batches for name in batch.tables if "snapshot_id" in batch.tables[name].schema.names
    ]
    assert {row["snapshot_id"] for batch, name in tables for row in rows(batch, name)} == {snapshot_id}
    assert [batch.rank for batch in batches] == [*range(10), None]


def test_a_snapshot_sorts_by_the_newest_call(tmp_path: Path) -> None:
    ids = []
    for day in (2, 0, 1):
        folder = tmp_path / str(day)
        for rank in range(2):
            time = T0 + (day * 86_400 + rank) * 10**9
            call = entry(time_created_ns=time, time_discovered_completed_ns=None)
            write_pickle(folder / f"rank_{rank}", payload([call]))
        ids.append(next(read([folder])).snapshot_id)
    assert sorted(ids) == [ids[1], ids[2], ids[0]]
    assert re.fullmatch(r"20261130T005321000Z-[0-9a-f]{12}", ids[1])


def test_the_time_is_read_from_json_as_well(tmp_path: Path) -> None:
    write_json(tmp_path / "rank_1.json", payload([entry(time_discovered_completed_ns=0)]))
    assert next(read([tmp_path])).snapshot_id.startswith("20261130T005320000Z-")


def test_dumps_without_entries_take_the_time_of_the_file(tmp_path: Path) -> None:
    path = write_pickle(tmp_path / "rank_0", payload([]))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert next(read([tmp_path])).snapshot_id.startswith("20231114T221320000Z-")


def test_the_id_is_that_of_the_content(job: Path, tmp_path: Path) -> None:
    before = next(read([job])).snapshot_id
    copy = tmp_path / "elsewhere"
    shutil.copytree(job, copy)
    (copy / "notes.md").write_text("# other notes")
    (copy / "deeper").mkdir()
    (copy / "rank_2").rename(copy / "deeper/comm_lib_trace_rank_2")
    assert next(read([copy])).snapshot_id == before
    (copy / "rank_4").rename(copy / "rank_11")
    assert next(read([copy])).snapshot_id != before
    (copy / "rank_11").unlink()
    assert next(read([copy])).snapshot_id != before


def test_an_id_may_be_given(job: Path) -> None:
    assert {batch.snapshot_id for batch in read([job], snapshot_id="mine")} == {"mine"}


def test_the_order_of_files_does_not_matter(job: Path) -> None:
    files = sorted(job.iterdir())
    assert content(list(read(files))) == content(list(read(files[::-1]))) == content(list(read([job])))


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_workers_does_not_matter(job: Path, workers: int) -> None:
    alone, together = list(read([job], workers=1)), list(read([job], workers=workers))
    assert content(together) == content(alone)
    for one, other in zip(alone, together, strict=True):
        for name, table in one.tables.items():
            assert other.tables[name].schema.equals(table.schema, check_metadata=True)


@pytest.mark.parametrize("workers", [None, 2])
def test_ranks_that_share_a_batch_have_the_same_rows(job: Path, workers: int | None) -> None:
    write_pickle(job / "rank_10", payload([entry(state=5)]))
    write_pickle(job / "rank_11", payload(version="2.99"))
    write_pickle(job / "rank_12", [entry(), entry()])
    write_pickle(job / "rank_13", payload([]))
    write_pickle(job / "rank_14", payload(entries(300)))
    write_json(job / "rank_15.json", payload(entries(4, frames=...)))
    alone, shared = list(read([job])), list(read([job], workers=workers, together=True))
    assert all_rows(shared) == all_rows(alone)
    clean = [path for path in job.iterdir() if path.name in {f"rank_{rank}" for rank in range(7)}]
    (batch,) = read(clean, together=True)
    assert (batch.rank, len(rows(batch, "torch_nccl_dump"))) == (None, 7)


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_counts_the_dumps(job: Path, workers: int) -> None:
    seen: list[tuple[int, int]] = []
    list(read([job], workers=workers, on_progress=lambda done, total: seen.append((done, total))))
    assert seen == sorted(seen)
    assert seen[-1] == (11, 11)


def test_a_small_job_starts_no_process(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_recorder_pool, "_Worker", None)
    assert len(list(read([job]))) == 11


def test_garbage_collection_is_left_as_it_was(job: Path) -> None:
    reading = read([job], workers=1)
    for was_on in (True, False):
        (gc.enable if was_on else gc.disable)()
        try:
            next(reading)
            assert gc.isenabled() is was_on
        finally:
            gc.enable()


def test_without_workers_everything_is_read_here(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = content(list(read([job], workers=1)))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert content(list(read([job], workers=2))) == alone


def die_over_rank_2(task: dict[str, Any]) -> list[Batch]:
    """Stands in for a dump that takes the process along."""
    if any(rank == 2 for rank, _ in task["ranks"]):
        os._exit(9)
    return flight_recorder_rank.read_task(task)


def test_a_dump_that_kills_its_reader_costs_one_rank(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_recorder_dump, "_TARGET", f"{__name__}:die_over_rank_2")
    monkeypatch.setattr(flight_recorder_dump, "_parts", lambda groups, _: iter([groups[:2], groups[2:5], groups[5:]]))
    batches = list(read([job], workers=2))
    assert [b.rank for b in batches if "torch_nccl_dump" in b.tables] == [0, 1, 3, 4, 5, 6, 8, 9]
    (note,) = [note for note in notes(batches) if note["rank"] == 2]
    assert (note["kind"], note["severity"]) == ("malformed", "error")
    assert "killed" in note["message"]


def test_leaving_early_ends_the_workers(job: Path) -> None:
    reading = read([job], workers=2)
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    left = subprocess.run(["ps", "-o", "args", "--ppid", str(os.getpid())], text=True, capture_output=True, check=False)
    assert "flight_recorder_pool" not in left.stdout


def test_a_script_without_a_main_guard_may_read(job: Path, tmp_path: Path) -> None:
    """multiprocessing would run the script again in every worker."""
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\n"
        "from whichrank.collectors.flight_recorder_dump import read\n"
        f"print(len(list(read([Path({str(job)!r})], workers=2))))\n"
    )
    done = subprocess.run([sys.executable, str(script)], text=True, capture_output=True, check=False)
    assert (done.stdout, done.stderr) == ("11\n", "")


def test_batches_survive_the_way(job: Path) -> None:
    batches = list(read([job]))
    packed = flight_recorder_pool.unpack(flight_recorder_pool.pack(batches))
    assert content(packed) == content(batches)
    assert flight_recorder_pool.unpack(flight_recorder_pool.pack([])) == []
