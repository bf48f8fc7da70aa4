"""Finding Flight Recorder dumps on disk and decoding them, whoever wrote them.

A dump is a pickle from someone else's machine. The unpickler here knows no classes and no functions at all: the first
mention of one ends the file. PyTorch writes plain dicts, lists, tuples, texts and numbers, so nothing is lost by that.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from whichrank.batch import note

HEAD = 1 << 16  # bytes in which a dump shows what it is
_GZIP = b"\x1f\x8b"
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_MARKERS = (b"pg_config", b"pg_status", b"profiling_name", b"collective_seq_id")
_OTHER_JSON = (b'"traceEvents"', b'"schemaVersion"')  # a profiler trace has a pg_config as well
_RANK = re.compile(r"([0-9]{1,7})(?:\.[A-Za-z]\w*)*$")
_NAMED_RANK = re.compile(r"rank[_-]?([0-9]{1,7})(?![0-9])", re.IGNORECASE)
_DAMAGED = (
    pickle.UnpicklingError, AttributeError, ImportError, IndexError, KeyError, TypeError, ValueError, OverflowError,
    RecursionError, MemoryError, zlib.error,
)  # fmt: skip


class LoadError(Exception):
    """A file that gave no payload: kind and severity of the note, and its sentence."""

    def __init__(self, kind: str, message: str, severity: str = "error") -> None:
        super().__init__(message)
        self.kind = kind
        self.severity = severity


def rank_of(path: Path) -> int | None:
    """The rank a file name ends in (`_dump_12`, `rank3.json`, `nccl_trace_rank_node01_2`), or None."""
    match = _RANK.search(path.name)
    if match is None or path.name[: match.start()][-1:].isdigit():  # a time stamp: no job has 10 million ranks
        match = _NAMED_RANK.search(path.name)
    return int(match[1]) if match else None


def recognise(path: Path) -> bool:
    """Whether the content of a file is a Flight Recorder dump, whole or damaged; its name does not matter."""
    try:
        return _looks_like_dump(_head(path))
    except (OSError, EOFError, zlib.error):
        return False


def find(paths: Iterable[Path], notes: list[dict[str, Any]]) -> Iterator[Path]:
    """Files at the paths and below them, each once; hidden ones and what is no file are left out."""
    seen: set[tuple[int, int]] = set()
    for path in paths:
        yield from _find(path, seen, notes)


def _find(path: Path, seen: set[tuple[int, int]], notes: list[dict[str, Any]]) -> Iterator[Path]:
    try:
        status = path.stat()
        key = (status.st_dev, status.st_ino)
        if key in seen:  # a link to what was read already, or a loop of links
            return
        seen.add(key)
        if stat.S_ISREG(status.st_mode):
            yield path
        elif stat.S_ISDIR(status.st_mode):
            for name in sorted(os.listdir(path)):
                if not name.startswith("."):
                    yield from _find(path / name, seen, notes)
    except OSError as error:
        notes.append(note("unreadable", f"{path} cannot be read: {error.strerror}", severity="error", source=str(path), rank=rank_of(path)))


def load(path: Path) -> Any:
    """The decoded payload of a pickle or JSON file, gzipped or not. Raises LoadError, and nothing else."""
    try:
        head = _head(path)
        if not head:
            raise LoadError("empty", "the file is empty")
        with _open(path) as file:
            if _PICKLE.match(head):
                return _Unpickler(file).load()
            if head.lstrip()[:1] in (b"{", b"[") and _looks_like_dump(head):
                return json.load(io.TextIOWrapper(file, encoding="utf-8"))
        raise LoadError("foreign", "neither a pickle nor JSON of the Flight Recorder", "info")
    except EOFError:
        raise LoadError("truncated", "the file ends too early") from None
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
            raise LoadError("truncated", "the file ends too early") from None
        raise LoadError("malformed", f"damaged JSON: {error}") from None
    except _DAMAGED as error:
        if "truncated" in str(error):
            raise LoadError("truncated", "the file ends too early") from None
        raise LoadError("malformed", f"damaged: {type(error).__name__}: {str(error)[:200]}") from None
    except OSError as error:
        raise LoadError("unreadable", f"cannot be read: {error.strerror or error}") from None


class _Unpickler(pickle.Unpickler):
    """The C unpickler without any global. Persistent ids are refused by the base class."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise LoadError("refused_global", f"the pickle names {module[:100]}.{name[:100]}; nothing in it was executed")


def _open(path: Path) -> IO[bytes]:
    """Buffered: that is 2.5 times faster for the unpickler than memory (it may look ahead)."""
    file = path.open("rb", buffering=1 << 20)
    if file.peek(2)[:2] != _GZIP:
        return file
    return io.BufferedReader(gzip.GzipFile(fileobj=file), 1 << 20)  # type: ignore[arg-type]


def _head(path: Path) -> bytes:
    with _open(path) as file:
        return file.read(HEAD)


def _looks_like_dump(head: bytes) -> bool:
    if _PICKLE.match(head):
        return any(marker in head for marker in _MARKERS)
    if head.lstrip()[:1] not in (b"{", b"["):
        return False
    return any(b'"' + marker + b'"' in head for marker in _MARKERS) and not any(other in head for other in _OTHER_JSON)
