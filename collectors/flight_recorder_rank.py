"""The dumps of one rank -> its batch. Runs here or in a worker; it is what a worker imports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from whichrank.batch import Batch, note, rows_to_arrow
from whichrank.collectors.flight_recorder import NotFlightRecorderError, Origin, to_batch, without_gc
from whichrank.collectors.flight_recorder_decoding import load
from whichrank.collectors.flight_recorder_files import LoadError, shown
from whichrank.tables import FLIGHT_RECORD, NOTE

Notes = list[dict[str, Any]]


def read_task(task: dict[str, Any]) -> list[Batch]:
    """Batches of some ranks; entry point of the workers."""
    with without_gc():
        return [
            b for rank, paths in task["ranks"] for b in _read_rank(task["snapshot"], rank, [Path(p) for p in paths])
        ]


def _read_rank(snapshot: str, rank: int, paths: Sequence[Path]) -> list[Batch]:
    """The newest readable dump of a rank, with notes about the others; and a batch of rank None with foreign files."""
    dumps: list[tuple[int, int, str, Batch]] = []
    notes: Notes = []
    foreign: Notes = []
    for path in paths:
        name = shown(path)
        try:
            batch = to_batch(load(path), Origin(snapshot, rank, "file", name, path.stat().st_size))
            newest = _newest_ns(batch) if len(paths) > 1 else -1
            dumps.append((newest, path.stat().st_size, name, batch))
        except LoadError as error:
            notes.append(note(error.kind, f"{name}: {error}", severity=error.severity, source=name, rank=rank))
        except NotFlightRecorderError:
            foreign.append(note("foreign", f"{name} is no Flight Recorder dump", severity="info", source=name))
        except Exception as error:  # a bug of ours, which must not take the other ranks along
            text = f"{name}: whichrank failed over it ({type(error).__name__}: {error}); please report this"
            notes.append(note("malformed", text, severity="error", source=name, rank=rank))
    dumps.sort(key=lambda dump: dump[:3])
    for _, _, name, _ in dumps[:-1]:
        text = f"{name} and {dumps[-1][2]} are both of rank {rank}; the latter, with the newest entries, was read"
        notes.append(note("duplicate_rank", text, source=name, rank=rank))
    batch = dumps[-1][3] if dumps else Batch(snapshot, rank)
    if dumps:
        notes = [n | {"severity": "warning"} for n in notes]  # another dump of the rank speaks for it
    if notes:
        tables = [batch.tables[NOTE.name]] if NOTE.name in batch.tables else []
        batch.tables[NOTE.name] = pa.concat_tables([*tables, notes_table(snapshot, notes)])
    others = [Batch(snapshot, None, {NOTE.name: notes_table(snapshot, foreign)})] if foreign else []
    return ([batch] if batch.tables else []) + others


def _newest_ns(batch: Batch) -> int:
    records = batch.tables.get(FLIGHT_RECORD.name)
    times = records["time_created_ns"].to_pylist() if records is not None else []
    return max((time for time in times if time is not None), default=-1)


def notes_table(snapshot: str, notes: Notes) -> pa.Table:
    """Notes of one snapshot -> the rows of python.collection_note."""
    return rows_to_arrow(NOTE, [n | {"snapshot_id": snapshot} for n in notes])
