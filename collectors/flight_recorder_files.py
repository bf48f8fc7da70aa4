"""Finding Flight Recorder dumps on disk: which files, whose, and whether they are dumps at all.

Names are free (a custom writer may choose them, and may gzip the file), so what a file is shows in its first bytes, and
only the rank comes from its name: a dump does not say it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import stat
import zlib
from collections import deque
from collections.abc import Container, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from whichrank.batch import note

HEAD = 1 << 16  # bytes in which a dump shows what it is
_END = 1 << 14  # bytes that hold the newest forty entries, more or less
MAX_UNPACKED = 4 << 30  # bytes a gzipped dump may grow to: a few kilobytes can unpack to all the memory there is
_BUFFER = 1 << 20
_MAX_UNKNOWN_PICKLE = 64 << 20  # a larger pickle without a word of the Flight Recorder's is a checkpoint: left alone
_GZIP = b"\x1f\x8b"
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_MARKERS = (b"pg_config", b"pg_status", b"profiling_name", b"collective_seq_id")
_OTHER_JSON = (b'"traceEvents"', b'"schemaVersion"')  # a profiler trace has a pg_config as well
_RANK = re.compile(r"([0-9]{1,7})(?:\.[A-Za-z]\w*)*$")
_NAMED_RANK = re.compile(r"rank[_-]?([0-9]{1,7})(?![0-9])", re.IGNORECASE)
# Times in the last bytes of a dump, as the pickle (8 bytes, little endian) and JSON write them. Two patterns, because
# one that begins with fixed bytes is found twenty times faster.
_PICKLED_TIMES = re.compile(rb"\x8a\x08(.{8})", re.DOTALL)
_JSON_TIMES = re.compile(rb'"time_\w+_ns":\s*([0-9]{19})(?![0-9])')
_PLAUSIBLE_NS = range(1_500_000_000 * 10**9, 4_000_000_000 * 10**9)  # 2017 to 2096


class Kind(StrEnum):
    """What the first bytes say."""

    DUMP = "dump"
    PICKLE = "pickle"  # a pickle without a word of the Flight Recorder's in its head
    EMPTY = "empty"
    FOREIGN = "foreign"


class LoadError(Exception):
    """A file that gave no payload: kind and severity of the note, and its sentence."""

    def __init__(self, kind: str, message: str, severity: str = "error") -> None:
        super().__init__(message)
        self.kind = kind
        self.severity = severity


@dataclass(frozen=True, slots=True)
class Found:
    """A file. digest: of what tells it apart. newest_ns: newest time in its end, ns since epoch; None without one."""

    path: Path
    rank: int | None
    kind: Kind
    size: int
    mtime: float
    digest: str = ""
    newest_ns: int | None = None


def rank_of(path: Path) -> int | None:
    """The rank a file name ends in (`_dump_12`, `rank3.json`, `nccl_trace_rank_node01_2`), or None."""
    match = _RANK.search(path.name)
    if match is None or path.name[: match.start()][-1:].isdigit():  # a time stamp: no job has 10 million ranks
        match = _NAMED_RANK.search(path.name)
    return int(match[1]) if match else None


def recognise(path: Path) -> bool:
    """Whether the content of a file is a Flight Recorder dump, whole or damaged; its name does not matter."""
    try:
        with _buffered(path) as file:
            return _kind(file.peek(HEAD)[:HEAD]) is Kind.DUMP
    except OSError:
        return False


def kind_of(head: bytes) -> Kind:
    """What a file with these first bytes (at most HEAD, unpacked) is."""
    if not head:
        return Kind.EMPTY
    if _PICKLE.match(head):
        return Kind.DUMP if any(marker in head for marker in _MARKERS) else Kind.PICKLE
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"["):
        return Kind.FOREIGN
    ours = any(b'"' + marker + b'"' in head for marker in _MARKERS)
    return Kind.DUMP if ours and not any(other in head for other in _OTHER_JSON) else Kind.FOREIGN


def shown(path: Path) -> str:
    """The path as text; a file name may hold bytes that are none."""
    return os.fsencode(path).decode("utf-8", "replace")


def listed(
    paths: Iterable[Path], notes: list[dict[str, Any]], apart_from: Container[Path] = ()
) -> list[tuple[Path, int]]:
    """Files at the paths and below, each once, with their sizes. What cannot be listed becomes a note."""
    return [(path, size) for path, size in _walk(paths, notes) if path not in apart_from]


def find(files: Iterable[Path], notes: list[dict[str, Any]]) -> list[Found]:
    """What these files are, in no particular order. What cannot be read becomes a note."""

    def look(path: Path) -> Found | OSError:
        try:
            return _look(path)
        except OSError as error:
            return error

    files = list(files)
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # reading and hashing release the GIL
        found = list(pool.map(look, files, chunksize=16))
    for path, result in zip(files, found, strict=True):
        if isinstance(result, OSError):
            notes.append(_unreadable(path, result))
    return [result for result in found if isinstance(result, Found)]


def _walk(paths: Iterable[Path], notes: list[dict[str, Any]]) -> Iterator[tuple[Path, int]]:
    """Regular files and their sizes. Hidden ones below a folder are left out; a link is followed, but nothing twice."""
    seen: set[tuple[int, int]] = set()
    todo = deque(paths)
    while todo:
        path = todo.popleft()
        try:
            status = path.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            if stat.S_ISREG(status.st_mode):
                yield path, status.st_size
            elif stat.S_ISDIR(status.st_mode):
                todo.extend(sorted(child for child in path.iterdir() if not child.name.startswith(".")))
        except OSError as error:
            notes.append(_unreadable(path, error))


def _unreadable(path: Path, error: OSError) -> dict[str, Any]:
    rank = rank_of(path)
    text = f"{shown(path)} cannot be read: {error.strerror or error}"
    severity = "warning" if rank is None else "error"
    return note("unreadable", text, severity=severity, source=shown(path), rank=rank)


def _look(path: Path) -> Found:
    rank = rank_of(path)
    with _opened(path) as file:
        status = os.fstat(file.fileno())
        head = file.read(HEAD)
        kind = _kind(head)
        if kind is Kind.PICKLE and status.st_size > _MAX_UNKNOWN_PICKLE:
            kind = Kind.FOREIGN
        if kind not in (Kind.DUMP, Kind.PICKLE):
            return Found(path, rank, kind, status.st_size, status.st_mtime)
        end = head[-_END:]
        if status.st_size > HEAD:
            file.seek(-_END, os.SEEK_END)
            end = file.read(_END)
    newest = max(_times(end), default=None)
    return Found(path, rank, kind, status.st_size, status.st_mtime, _digest(status.st_size, head, end), newest)


def _digest(size: int, head: bytes, end: bytes) -> str:
    """Tells dumps apart: a small one by all its bytes, a larger one by its ends and its size.

    The newest entries and the state of every group lie at the end, so two dumps that agree there are one. SHA-256 is
    the fastest hash on processors that know it, as those beside a GPU do.
    """
    digest = hashlib.sha256(head)
    if size > HEAD:
        digest.update(end)
        digest.update(size.to_bytes(8, "little"))
    return digest.hexdigest()[:32]


def _kind(head: bytes) -> Kind:
    if not head.startswith(_GZIP):
        return kind_of(head)
    try:  # only the beginning: a damaged end does not make it somebody else's
        return kind_of(zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, 1 << 12))
    except zlib.error:
        return Kind.FOREIGN


def _times(end: bytes) -> Iterator[int]:
    times = [int.from_bytes(found, "little") for found in _PICKLED_TIMES.findall(end)]
    times += map(int, _JSON_TIMES.findall(end))
    return (time for time in times if time in _PLAUSIBLE_NS)


def contents(path: Path) -> bytes:
    """The bytes of a file, its gzip undone. Raises OSError, EOFError or zlib.error; LoadError for a bomb."""
    with _buffered(path) as file:
        if not file.peek(2).startswith(_GZIP):
            return file.read()
        unpacked = bytearray()
        with gzip.GzipFile(fileobj=file) as packed:
            while part := packed.read(_BUFFER):
                unpacked += part
                if len(unpacked) > MAX_UNPACKED:
                    raise LoadError("too_large", f"it unpacks to more than {MAX_UNPACKED >> 30} GiB")
    return bytes(unpacked)


def _buffered(path: Path) -> io.BufferedReader:
    return io.BufferedReader(_opened(path), _BUFFER)


def _opened(path: Path) -> io.FileIO:
    return io.FileIO(path)
