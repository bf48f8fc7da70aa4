"""Flight Recorder dump files and folders of them -> one batch for each rank, and one for what belongs to no rank."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from whichrank.batch import Batch, note, rows_to_arrow
from whichrank.collectors.flight_recorder import NotFlightRecorderError, Origin, to_batch
from whichrank.collectors.flight_recorder_files import LoadError, find, load, rank_of, recognise
from whichrank.tables import FLIGHT_RECORD, NOTE

__all__ = ["rank_of", "read", "recognise"]

Notes = list[dict[str, Any]]


def read(
    paths: Iterable[Path],
    *,
    snapshot_id: str | None = None,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[Batch]:
    """Batches of the dumps at the paths and below, by rank; the last one (rank None) holds what no rank can be named for.

    snapshot_id:  default: time and hash of the content, so that reading the same folder twice gives the same id.
    workers:      processes; default: as many as pay off.
    on_progress:  called with (files done, files in all).
    """
    notes: Notes = []
    files = list(find(paths, notes))
    by_rank: dict[int | None, list[Path]] = {}
    for path in files:
        by_rank.setdefault(rank_of(path), []).append(path)
    snapshot = snapshot_id or _snapshot_id(files)
    nameless = by_rank.pop(None, [])
    done = 0
    for rank in sorted(r for r in by_rank if r is not None):
        with _no_gc():
            yield _read_rank(snapshot, rank, by_rank[rank])
        done += len(by_rank[rank])
        if on_progress:
            on_progress(done, len(files))
    notes += _nameless(snapshot, nameless)
    if notes:
        yield Batch(snapshot, None, {NOTE.name: rows_to_arrow(NOTE, [{"snapshot_id": snapshot, **n} for n in notes])})


def _read_rank(snapshot: str, rank: int, paths: Sequence[Path]) -> Batch:
    batches: list[tuple[int, str, Batch]] = []
    notes: Notes = []
    for path in sorted(paths):
        try:
            batch = to_batch(load(path), Origin(snapshot, rank, "file", str(path), path.stat().st_size))
            batches.append((_newest_ns(batch) or 0, str(path), batch))
        except LoadError as error:
            notes.append(note(error.kind, f"{path.name}: {error}", severity=error.severity, source=str(path), rank=rank))
        except NotFlightRecorderError as error:
            notes.append(note("foreign", f"{path.name}: {error}", severity="info", source=str(path), rank=rank))
    batches.sort(key=lambda b: b[:2])
    for _, path_, _ in batches[:-1]:
        text = f"{Path(path_).name} and {Path(batches[-1][1]).name} are both of rank {rank}; the newer, the latter, was read"
        notes.append(note("duplicate_rank", text, source=path_, rank=rank))
    out = batches[-1][2] if batches else Batch(snapshot, rank)
    if notes:
        table = rows_to_arrow(NOTE, [{"snapshot_id": snapshot, **n} for n in notes])
        out.tables[NOTE.name] = pa.concat_tables([t for t in (out.tables.get(NOTE.name), table) if t is not None])
    return out


def _nameless(snapshot: str, paths: Sequence[Path]) -> Notes:
    notes = []
    for path in sorted(paths):
        if recognise(path):
            notes.append(note("no_rank", f"{path.name} is a dump, but its name ends in no rank", severity="error", source=str(path)))
        else:
            notes.append(note("foreign", f"{path.name} is no dump", severity="info", source=str(path)))
    return notes


def _newest_ns(batch: Batch) -> int | None:
    table = batch.tables.get(FLIGHT_RECORD.name)
    return pc.max(table["time_created_ns"]).as_py() if table is not None else None


def _snapshot_id(files: Sequence[Path]) -> str:
    digests = []
    for path in files:
        with path.open("rb") as file:
            digests.append(f"{rank_of(path)}:{hashlib.file_digest(file, 'blake2b').hexdigest()}")
    content = hashlib.blake2b("\n".join(sorted(digests)).encode(), digest_size=6).hexdigest()
    newest = max((path.stat().st_mtime for path in files), default=0.0)
    return f"{datetime.fromtimestamp(newest, UTC):%Y%m%dT%H%M%SZ}-{content}"


@contextmanager
def _no_gc() -> Iterator[None]:
    """Garbage collection off: a dump is a million new objects and no garbage."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
