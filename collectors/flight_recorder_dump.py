"""Flight Recorder dump files, and folders of them -> a batch for each rank, and one for what belongs to no rank.

Whatever is wrong with a file becomes a note, and the rest is read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from whichrank.batch import Batch, note, rows_to_arrow
from whichrank.collectors import flight_recorder_pool as pool
from whichrank.collectors.flight_recorder import NotFlightRecorderError, Origin, to_batch, without_gc
from whichrank.collectors.flight_recorder_decoding import load
from whichrank.collectors.flight_recorder_files import Found, Kind, LoadError, find, rank_of, recognise, shown
from whichrank.tables import FLIGHT_RECORD, NOTE

__all__ = ["rank_of", "read", "recognise"]

BYTES_PER_WORKER = 24 << 20  # starting a process takes as long as reading about so much
_BYTES_PER_TASK = 8 << 20
_MAX_FOREIGN = 20  # notes about files that are no dumps; the rest is one note with a count
_NOT_DUMPS = {".log", ".out", ".err", ".txt", ".csv", ".py", ".sh", ".md", ".yaml", ".yml", ".toml", ".parquet"}

Notes = list[dict[str, Any]]
Group = tuple[int, list[Found]]  # a rank and its files
Progress = Callable[[int, int], None]


def read(
    paths: Iterable[Path],
    *,
    apart_from: Container[Path] = (),
    snapshot_id: str | None = None,
    workers: int | None = None,
    on_progress: Progress | None = None,
) -> Iterator[Batch]:
    """Batches of the dumps at the paths and below, by rank; the last one, if any, has rank None and only notes.

    apart_from:   files in folders that somebody else reads.
    snapshot_id:  default: time and hash of the content, so that reading the same dumps twice gives the same id.
    workers:      processes; default: as many as pay off. The batches do not depend on it.
    on_progress:  called with (dumps done, dumps in all).
    """
    notes: Notes = []
    found = find([Path(path) for path in paths], notes, apart_from)
    snapshot = snapshot_id or _snapshot_id(found)
    groups = _by_rank(found, notes)
    total = sum(len(files) for _, files in groups)
    done = 0
    for results, count in _read_groups(snapshot, groups, workers):
        for batch in results:
            if batch.rank is None:
                notes += batch.tables[NOTE.name].to_pylist()
            else:
                yield batch
        done += count
        if on_progress:
            on_progress(done, total)
    if notes:
        yield Batch(snapshot, None, {NOTE.name: _notes_table(snapshot, _few(notes))})


def _by_rank(found: Sequence[Found], notes: Notes) -> list[Group]:
    """Files by rank; what is no dump, or nobody's, becomes a note, and so does the second copy of a file."""
    groups: dict[int, dict[str, Found]] = {}
    for file in sorted(found, key=lambda f: shown(f.path)):
        name = shown(file.path)
        unlikely = file.kind is Kind.EMPTY and (file.rank is None or file.path.suffix.lower() in _NOT_DUMPS)
        if file.kind is Kind.FOREIGN or unlikely or (file.kind is Kind.PICKLE and file.rank is None):
            what = "is empty" if unlikely else "is no Flight Recorder dump"
            notes.append(note("empty" if unlikely else "foreign", f"{name} {what}", severity="info", source=name))
        elif file.rank is None:
            text = f"{name} is a dump, but its name does not end in a rank: rename it, for instance to {name}_rank_0"
            notes.append(note("no_rank", text, severity="error", source=name))
        else:
            copies = groups.setdefault(file.rank, {})
            key = file.digest or name
            if key in copies:
                text = f"{name} is a copy of {shown(copies[key].path)}"
                notes.append(note("duplicate_rank", text, severity="info", source=name, rank=file.rank))
            copies.setdefault(key, file)
    return [(rank, list(groups[rank].values())) for rank in sorted(groups)]


def _few(notes: Notes) -> Notes:
    """The notes, but at most _MAX_FOREIGN about foreign files; the rest of those counted."""
    foreign = [n for n in notes if n["kind"] == "foreign"]
    others = [n for n in notes if n["kind"] != "foreign"]
    rest = foreign[_MAX_FOREIGN:]
    if rest:
        text = f"{len(rest)} more files are no Flight Recorder dumps"
        foreign[_MAX_FOREIGN:] = [note("foreign", text, severity="info", count=len(rest))]
    return others + foreign


def _snapshot_id(found: Sequence[Found]) -> str:
    """Sorts by time, and is the same for the same dumps wherever they lie and in whatever order they come."""
    dumps = [file for file in found if file.kind is Kind.DUMP]
    content = "\n".join(sorted(f"{file.rank} {file.digest}" for file in dumps))
    newest = max((file.newest_ns for file in dumps if file.newest_ns), default=None)
    if newest is None:  # dumps without entries; copying them gives another id, but no worse
        newest = int(max((file.mtime for file in dumps or found), default=0)) * 10**9
    time = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=newest // 10**6)
    digest = hashlib.blake2b(content.encode(), digest_size=6).hexdigest()
    return f"{time:%Y%m%dT%H%M%S}{time.microsecond // 1000:03d}Z-{digest}"


# ---- ranks, one after the other or side by side --------------------------------------------------------------------
def _read_groups(snapshot: str, groups: Sequence[Group], workers: int | None) -> Iterator[tuple[list[Batch], int]]:
    """Batches and number of files of each group of ranks, in order of rank."""
    size = sum(file.size for _, files in groups for file in files)
    if workers is None:
        workers = min(len(os.sched_getaffinity(0)), size // BYTES_PER_WORKER)
    done = 0
    if workers > 1:
        parts = list(_parts(groups, min(_BYTES_PER_TASK, size // (4 * workers))))
        try:
            for part, result in zip(
                parts, pool.run(_TARGET, [_task(snapshot, p) for p in parts], workers), strict=True
            ):
                batches = result if result is not None else _read_one_by_one(snapshot, part)
                yield batches, sum(len(files) for _, files in part)
                done += len(part)
        except pool.PoolUnavailableError:
            pass  # then everything that is left is read here
    for group in groups[done:]:
        yield read_task(_task(snapshot, [group])), len(group[1])


def _parts(groups: Iterable[Group], size: int) -> Iterator[list[Group]]:
    """Groups in portions of about `size` bytes."""
    part: list[Group] = []
    held = 0
    for group in groups:
        part.append(group)
        held += sum(file.size for file in group[1])
        if held >= size:
            yield part
            part, held = [], 0
    if part:
        yield part


def _read_one_by_one(snapshot: str, part: Sequence[Group]) -> list[Batch]:
    """A worker died over one of these: they are read one at a time, and the one that kills its worker is named."""
    out = []
    results = pool.run(_TARGET, [_task(snapshot, [group]) for group in part], 1)
    for (rank, files), result in zip(part, results, strict=True):
        if result is None:
            names = " or ".join(shown(file.path) for file in files)
            text = f"{names}: the process that read it was killed, probably because it ran out of memory"
            kept = note("malformed", text, severity="error", source=shown(files[0].path), rank=rank)
            result = [Batch(snapshot, rank, {NOTE.name: _notes_table(snapshot, [kept])})]
        out += result
    return out


def _task(snapshot: str, groups: Sequence[Group]) -> dict[str, Any]:
    return {"snapshot": snapshot, "ranks": [[rank, [str(file.path) for file in files]] for rank, files in groups]}


_TARGET = f"{__name__}:read_task"


def read_task(task: dict[str, Any]) -> list[Batch]:
    """Batches of some ranks; entry point of the workers."""
    with without_gc():
        return [
            b for rank, paths in task["ranks"] for b in _read_rank(task["snapshot"], rank, [Path(p) for p in paths])
        ]


# ---- one rank ------------------------------------------------------------------------------------------------------
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
        batch.tables[NOTE.name] = pa.concat_tables([*tables, _notes_table(snapshot, notes)])
    others = [Batch(snapshot, None, {NOTE.name: _notes_table(snapshot, foreign)})] if foreign else []
    return ([batch] if batch.tables else []) + others


def _newest_ns(batch: Batch) -> int:
    records = batch.tables.get(FLIGHT_RECORD.name)
    times = records["time_created_ns"].to_pylist() if records is not None else []
    return max((time for time in times if time is not None), default=-1)


def _notes_table(snapshot: str, notes: Notes) -> pa.Table:
    return rows_to_arrow(NOTE, [n | {"snapshot_id": snapshot} for n in notes])
