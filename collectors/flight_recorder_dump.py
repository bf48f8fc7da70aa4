"""Flight Recorder dump files, and folders of them -> a batch for each rank, and one for what belongs to no rank.

Whatever is wrong with a file becomes a note, and the rest is read.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

from whichrank.batch import Batch, note, rows_to_arrow
from whichrank.collectors import flight_recorder_pool as pool
from whichrank.collectors.flight_recorder_files import Found, Kind, find, listed, rank_of, recognise, shown
from whichrank.tables import NOTE

__all__ = ["rank_of", "read", "recognise"]

BYTES_PER_WORKER = 24 << 20  # starting a process takes as long as reading about so much
BYTES_FOR_A_WORKER = 1 << 20
_BYTES_PER_TASK = 2 << 20  # a worker holds the columns of a task three times while it packs them
_BYTES_HERE = 1 << 20  # of a task that is done here
_MAX_FOREIGN = 20  # notes about files that are no dumps; the rest is one note with a count
_NOT_DUMPS = {".log", ".out", ".err", ".txt", ".csv", ".py", ".sh", ".md", ".yaml", ".yml", ".toml", ".parquet"}

Notes = list[dict[str, Any]]
Group = tuple[int, list[Found]]  # a rank and its files
Progress = Callable[[int, int], None]
Here = Callable[[Any], list[Batch]]
Run = Callable[[str, Sequence[Any], int, Here | None], Iterator[list[Batch] | None]]


def read(
    paths: Iterable[Path],
    *,
    apart_from: Container[Path] = (),
    snapshot_id: str | None = None,
    together: bool = False,
    workers: int | None = None,
    run: Run | None = None,
    on_progress: Progress | None = None,
) -> Iterator[Batch]:
    """Batches of the dumps at the paths and below, by rank; the last one, if any, has rank None and only notes.

    Finding the files, and the work of other processes, begin at once; closing the iterator ends it.

    apart_from:   files in folders that somebody else reads.
    snapshot_id:  default: time and hash of the content, so that reading the same dumps twice gives the same id.
    together:     small dumps may share a batch of rank None, for a reader to whom all rows are one.
    workers:      processes; default: as many as pay off. The batches do not depend on it.
    run:          who does the work: processes of this machine, or others with the contract of `pool.run`.
    on_progress:  called with (dumps done, dumps in all).
    """
    reading = _read(list(map(Path, paths)), apart_from, snapshot_id, together, workers, run, on_progress)
    return cast(Iterator[Batch], pool.started(reading))


def _read(
    paths: Sequence[Path],
    apart_from: Container[Path],
    snapshot_id: str | None,
    together: bool,
    workers: int | None,
    run: Run | None,
    on_progress: Progress | None,
) -> Iterator[Batch | None]:
    """None when the workers have begun, then the batches."""
    notes: Notes = []
    files = listed(paths, notes, apart_from)
    early = _workers(sum(size for _, size in files)) if workers is None and run is None else 0
    workforce = pool.Workforce(_TARGET, early)
    try:
        found = find((path for path, _ in files), notes)
        snapshot = snapshot_id or _snapshot_id(found)
        groups = _by_rank(found, notes)
        total = sum(len(files) for _, files in groups)
        done = 0
        first = run or partial(pool.run, workforce=workforce)
        kind = {"snapshot": snapshot, "together": together}
        reading = pool.started(_read_groups(kind, groups, workers, first, run or pool.run))
        yield None
        for results, count in reading:
            for batch in results:
                if batch.rank is None and NOTE.name in batch.tables:
                    notes += batch.tables.pop(NOTE.name).to_pylist()
                if batch.tables:
                    yield batch
            done += count
            if on_progress:
                on_progress(done, total)
        if notes:
            yield _noted(snapshot, None, _few(notes))
    finally:
        workforce.end()


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
def _read_groups(
    kind: dict[str, Any], groups: Sequence[Group], workers: int | None, run: Run, again: Run
) -> Iterator[tuple[list[Batch], int]]:
    """Nothing when the workers have begun; then batches and number of files of some ranks, in order of rank.

    kind: what all tasks have in common. again: does once more what a worker died over.
    """
    size = sum(file.size for _, files in groups for file in files)
    workers = _workers(size) if workers is None else workers - (workers == 1)
    parts = list(_parts(groups, min(_BYTES_PER_TASK, size // (4 * workers)))) if workers else []
    tasks = [_task(kind, part) for part in parts]
    answers = run(_TARGET, tasks, workers, _read_here if workers == 1 else None) if parts else iter(())
    yield [], 0
    done = 0
    try:
        for part, result in zip(parts, answers, strict=True):
            batches = result if result is not None else _read_one_by_one(kind, part, again)
            yield batches, sum(len(files) for _, files in part)
            done += len(part)
    except pool.PoolUnavailableError:
        pass  # then everything that is left is read here
    for part in _parts(groups[done:], _BYTES_HERE):
        yield _read_here(_task(kind, part)), sum(len(files) for _, files in part)


def _read_here(task: dict[str, Any]) -> list[Batch]:
    from whichrank.collectors.flight_recorder_rank import read_task

    return read_task(task)


def _workers(size: int) -> int:
    """How many processes read so many bytes fastest; 0: read them here."""
    cores = len(os.sched_getaffinity(0))
    several = min(cores, size // BYTES_PER_WORKER)
    if several > 1:
        return several
    # A program that has just started has more to import than Arrow: meanwhile a worker can import it, and read.
    return int(cores > 1 and size >= BYTES_FOR_A_WORKER and "pyarrow" not in sys.modules)


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


def _read_one_by_one(kind: dict[str, Any], part: Sequence[Group], run: Run) -> list[Batch]:
    """A worker died over one of these: they are read one at a time, and the one that kills its worker is named."""
    out = []
    results = run(_TARGET, [_task(kind, [group]) for group in part], 1, None)
    for (rank, files), result in zip(part, results, strict=True):
        if result is None:
            names = " or ".join(shown(file.path) for file in files)
            text = f"{names}: the process that read it was killed, probably because it ran out of memory"
            kept = note("malformed", text, severity="error", source=shown(files[0].path), rank=rank)
            result = [_noted(kind["snapshot"], rank, [kept])]
        out += result
    return out


def _task(kind: dict[str, Any], groups: Sequence[Group]) -> dict[str, Any]:
    return kind | {"ranks": [[rank, [str(file.path) for file in files]] for rank, files in groups]}


_TARGET = "whichrank.collectors.flight_recorder_rank:read_task"


def _noted(snapshot: str, rank: int | None, notes: Notes) -> Batch:
    return Batch(snapshot, rank, {NOTE.name: rows_to_arrow(NOTE, [n | {"snapshot_id": snapshot} for n in notes])})
