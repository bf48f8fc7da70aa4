"""The dumps of one rank -> its batch. Runs here or in a worker; it is what a worker imports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from whichrank.batch import Batch, note, rows_to_arrow
from whichrank.collectors.flight_recorder import (
    NotFlightRecorderError,
    Origin,
    plain_version,
    to_batch,
    to_batch_together,
    without_gc,
)
from whichrank.collectors.flight_recorder_decoding import load
from whichrank.collectors.flight_recorder_entries import CHUNK
from whichrank.collectors.flight_recorder_files import LoadError, shown
from whichrank.tables import FLIGHT_RECORD, NOTE

_MAX_SMALL = 100  # entries of a dump that is not worth tables of its own

Notes = list[dict[str, Any]]
Dump = tuple[dict[str, Any], Origin]


def read_task(task: dict[str, Any]) -> list[Batch]:
    """Batches of some ranks; entry point of the workers. together: small dumps may share a batch of no single rank."""
    snapshot = task["snapshot"]
    small = _Small() if task["together"] else None
    out = []
    with without_gc():
        for rank, paths in task["ranks"]:
            out += _read_rank(snapshot, rank, list(map(Path, paths)), small)
        for dumps in small.portions() if small else ():
            try:
                out.append(to_batch_together(dumps))
            except Exception:  # something is odd about one of them: alone, it will tell
                for _, origin in dumps:
                    assert origin.rank is not None
                    assert origin.path is not None
                    out += _read_rank(snapshot, origin.rank, [Path(origin.path)])
    return out


class _Small:
    """Small dumps, put aside to be converted together."""

    def __init__(self) -> None:
        self._kept: dict[str, list[Dump]] = {}  # by version

    def take(self, payload: Any, origin: Origin) -> bool:
        """Keep a dump; False where it has to be converted alone."""
        version = plain_version(payload)
        if version is None or not 0 < len(payload["entries"]) <= _MAX_SMALL:
            return False
        self._kept.setdefault(version, []).append((payload, origin))
        return True

    def portions(self) -> Iterator[list[Dump]]:
        """What was kept, as `to_batch_together` takes it."""
        most = CHUNK // _MAX_SMALL
        for dumps in self._kept.values():
            yield from (dumps[start : start + most] for start in range(0, len(dumps), most))


def _read_rank(snapshot: str, rank: int, paths: Sequence[Path], small: _Small | None = None) -> list[Batch]:
    """The newest readable dump of a rank, with notes about the others; and a batch of rank None with foreign files.

    small: where to put a dump that can wait; then it is missing here.
    """
    dumps: list[tuple[int, int, str, Batch]] = []
    notes: Notes = []
    foreign: Notes = []
    for path in paths:
        name = shown(path)
        try:
            payload = load(path)
            size = path.stat().st_size
            origin = Origin(snapshot, rank, "file", name, size)
            if small and len(paths) == 1 and small.take(payload, origin):
                return []
            batch = to_batch(payload, origin)
            dumps.append((_newest_ns(batch) if len(paths) > 1 else -1, size, name, batch))
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
