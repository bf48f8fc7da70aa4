"""Files with stacks (one per rank, a page of all ranks, or logs in which a process printed its own) -> batches."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from whichrank.batch import Batch, note, notes_batch, rows_to_arrow
from whichrank.collectors.backtrace import Look, Origin, to_batch
from whichrank.collectors.backtrace_text import Text, is_json, is_text, parse_json, parse_text
from whichrank.collectors.flight_recorder_files import rank_of, shown
from whichrank.tables import NODES

TAIL = 1 << 16
MAX_JSON = 256 << 20
_LINE = 4096  # characters of a line that are read; a stack has none that is longer
_LIST = re.compile(rb"\s*\[\s*\{")  # a log may begin with a bracket, too
Progress = Callable[[int, int], None]
Notes = list[dict[str, Any]]


def recognises(path: Path, head: bytes, named: bool) -> bool:
    """Whether it is py-spy's JSON, or a text with stacks in its first or last 64 kB."""
    if is_json(head):
        return True
    if head.lstrip()[:1] in (b"[", b"{") and b'"' in head[:64]:
        return False
    return b"\0" not in head[:1024] and (is_text(head) or is_text(_tail(path, head)))


def _tail(path: Path, head: bytes) -> bytes:
    """The end of a file that is longer than its head; nothing of a packed one, which would have to be read whole."""
    with path.open("rb") as file:
        if file.read(2) == b"\x1f\x8b":
            return b""
        size = file.seek(0, io.SEEK_END)
        if size <= len(head):
            return b""
        file.seek(max(0, size - TAIL))
        return file.read()


def read(paths: Sequence[Path], *, on_progress: Progress | None = None) -> Iterator[Batch]:
    """A batch per rank, oldest look first; then ranks that did not answer, and notes. Bad files are notes as well."""
    notes: Notes = []
    by_rank: dict[int, list[tuple[int, str, Look]]] = {}
    silent: dict[int, str] = {}
    for number, path in enumerate(sorted(paths, key=shown), 1):
        taken = _time(path)
        text = _looks(path, notes)
        named = rank_of(path) if rank_of(path) is not None else rank_of(path.parent)
        for look in text.looks:
            rank = look.rank if look.rank is not None else named
            by_pid = look.rank is None and rank == look.pid and "rank" not in path.name  # py-spy-4711.json: a process
            if rank is None or by_pid:
                what = "holds stacks, but neither its name nor its text says of which rank"
                said = f"{shown(path)} {what}: name it stack_rank_0 or alike"
                notes.append(note("no_rank", said, severity="error", source=shown(path)))
                break
            by_rank.setdefault(rank, []).append((taken, shown(path), look))
        silent |= dict.fromkeys(text.silent, shown(path))
        if on_progress:
            on_progress(number, len(paths))
    snapshot = _snapshot_id(by_rank)
    for rank in sorted(by_rank):
        yield _batch(snapshot, rank, by_rank[rank])
    if silent:
        yield _silent(snapshot, silent, by_rank)
    if notes:
        yield notes_batch(snapshot, None, notes)


def _batch(snapshot: str, rank: int, looks: list[tuple[int, str, Look]]) -> Batch:
    looks.sort(key=lambda look: look[:2])  # stable: within a file as they stand there
    return to_batch(rank, [(look, taken) for taken, _, look in looks], Origin(snapshot, "file", looks[-1][1]))


def _silent(snapshot: str, silent: dict[int, str], known: Iterable[int]) -> Batch:
    """What the page of a debug server says about ranks that did not answer it."""
    size = max([*silent, *known]) + 1
    rows = [
        {"snapshot_id": snapshot, "rank": rank, "world_size": size, "state": "answered" if rank in known else "silent"}
        for rank in range(size)
        if rank in silent or rank in known
    ]
    said = [note("silent", f"rank {r} did not answer", source=path, rank=r) for r, path in sorted(silent.items())]
    batch = notes_batch(snapshot, None, said)
    batch.tables[NODES.name] = rows_to_arrow(NODES, rows)
    return batch


def _looks(path: Path, notes: Notes) -> Text:
    """The looks in a file. What cannot be read, or is cut off, is a note."""
    try:
        with _opened(path) as file:
            head = file.peek(1 << 16)
            if not _LIST.match(head):
                return parse_text(_lines(file))
            data = file.read(MAX_JSON)
    except (OSError, EOFError, zlib.error) as error:
        notes.append(note("unreadable", f"{shown(path)} cannot be read: {error}", severity="error", source=shown(path)))
        return Text()
    try:
        return Text(parse_json(data.decode("utf-8", "replace")))
    except (ValueError, RecursionError) as error:
        said = f"{shown(path)} is cut off, or no output of py-spy: {error}"
        notes.append(note("truncated", said, severity="error", source=shown(path), rank=rank_of(path)))
        return Text()


def _opened(path: Path) -> io.BufferedReader:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    if packed:
        return io.BufferedReader(gzip.GzipFile(path), 1 << 16)  # a raw reader in all but name
    return io.BufferedReader(io.FileIO(path), 1 << 16)


def _lines(file: io.BufferedReader) -> Iterator[str]:
    """Lines as text, cut where they are too long; a line of megabytes is not held in memory."""
    begun = True
    while line := file.readline(_LINE):
        if begun:
            yield line.decode("utf-8", "replace")
        begun = line.endswith(b"\n")


def _time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _snapshot_id(by_rank: dict[int, list[tuple[int, str, Look]]]) -> str:
    """Sorts by time; the same for the same stacks."""
    newest = max((taken for looks in by_rank.values() for taken, _, _ in looks), default=0)
    content = repr([(rank, [look for _, _, look in looks]) for rank, looks in sorted(by_rank.items())])
    digest = hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=6).hexdigest()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(newest // 10**9))
    return f"{stamp}{newest // 10**6 % 1000:03d}Z-stacks-{digest}"
