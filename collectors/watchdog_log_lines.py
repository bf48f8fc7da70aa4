"""The lines of a log that may say something, out of gigabytes that do not.

A log is read in blocks. One pass over a block (RE2, in pyarrow) tells whether any line of it holds a word of ours; only
then the block is cut into lines. That keeps a gigabyte within a few times of what a bare loop over its lines takes.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

from whichrank.collectors.watchdog_log_formats import TRIGGER

HEAD = 1 << 16  # bytes at either end in which a log shows what it is
MAX_LINE = 1 << 14  # bytes of a line that are looked at: the longest message of ours has some thousand
_CHUNK = 1 << 20
_BLOCK = 1 << 16
_FEW = 1 << 18  # bytes below which importing pyarrow's functions costs more than it saves
_WORKERS = 2
_AHEAD = 4  # chunks
_GZIP = b"\x1f\x8b"
_TRIGGER = re.compile(TRIGGER.encode())
# What no other text in a folder of dumps has: a note that speaks of collectives is no log.
_TELLTALE = re.compile(
    rb"ProcessGroup\w*\.[ch]|WorkNCCL|NCCL (?:WARN|INFO) |\[rank\d+\]:|\[TC\]|NVRM: Xid|Traceback \(most recent|"
    rb"ncclRemoteError|monitoredBarrier|ChildFailedError|exitcode|OutOfMemoryError|CUDA error: |srun: error"
)
_LOG_SUFFIXES = (".log", ".out", ".err", ".txt")
_OTHER_SUFFIXES = (
    ".py",
    ".md",
    ".rst",
    ".yaml",
    ".yml",
    ".json",
    ".jsonl",
    ".sh",
    ".toml",
    ".csv",
    ".html",
    ".parquet",
)
_BLACK = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # no text has these, but for a few

Progress = Callable[[int], None]


def recognises(path: Path, head: bytes, named: bool) -> bool:
    """Whether a file is a log of a job: text with a line of ours near its beginning or end, or a log as its user says.

    head: its first HEAD bytes, unpacked. named: the user named this very file. False where it cannot be read.
    """
    if not is_text(head):
        return False
    if named and (path.suffix in _LOG_SUFFIXES or _TRIGGER.search(head)):
        return True
    if path.suffix in _OTHER_SUFFIXES:
        return False
    if _TELLTALE.search(head):
        return True
    try:
        with opened(path) as file:
            if isinstance(file, gzip.GzipFile):
                return _anywhere(file)
            file.seek(max(0, path.stat().st_size - HEAD))
            return _TELLTALE.search(file.read(HEAD)) is not None
    except (OSError, EOFError, zlib.error):
        return False


def _anywhere(file: io.BufferedIOBase) -> bool:
    """Whether a line of ours stands in the first 64 MB: the end of a gzip file can only be reached through it."""
    return any(_TELLTALE.search(file.read(_CHUNK)) for _ in range(64))


def is_text(head: bytes) -> bool:
    """Whether bytes are text; stray control characters and wrong encodings are forgiven, binary files are not."""
    return bool(head) and len(_BLACK.findall(head)) * 50 <= len(head)


def opened(path: Path) -> io.BufferedIOBase:
    """The bytes of a file, gzip undone. Raises OSError."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    return gzip.open(path) if packed else path.open("rb")


class Lines:
    """Lines of one log that hold a word of ours, and what `follow` asks for below them.

    Iterating gives (number of the line from 1, its bytes without the newline, at most MAX_LINE).
    """

    def __init__(self, path: Path, on_read: Progress | None = None) -> None:
        self.path = path
        self.number = 0  # lines read so far
        self.cut: str | None = None  # why the file could not be read to its end
        self._follow = 0
        self._on_read = on_read
        self._large = path.stat().st_size > _FEW

    def follow(self, lines: int) -> None:
        """Give the next lines, whatever they hold: a report without words of its own."""
        self._follow = max(self._follow, lines)

    def unfollow(self) -> None:
        """The report is over."""
        self._follow = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for chunk, hits in self._scanned():
            done = 0
            for start, end in hits:
                if self._follow and done < start:  # a report goes on where no line has a word of ours
                    head = _end_of_lines(chunk, done, self._follow)
                    yield from self._lines(chunk[done : min(head, start)], None)
                    done = min(head, start)
                self.number += chunk.count(b"\n", done, start)
                block = chunk[start:end]
                yield from self._lines(block, _hit_lines(block) if self._large else _TRIGGER)
                done = end
            if self._follow and done < len(chunk):
                head = _end_of_lines(chunk, done, self._follow)
                yield from self._lines(chunk[done:head], None)
                done = head
            self.number += chunk.count(b"\n", done)

    def _lines(self, block: bytes, told: re.Pattern[bytes] | Sequence[bool] | None) -> Iterator[tuple[int, bytes]]:
        """The lines of a block that are asked for. told: for each whether it has a word of ours, or how to find out."""
        lines = block.removesuffix(b"\n").split(b"\n")
        if isinstance(told, re.Pattern):
            search = told.search
            told = [search(line, 0, MAX_LINE) is not None for line in lines]
        for line, hit in zip(lines, told or repeat(False), strict=False):
            self.number += 1
            if self._follow:
                self._follow -= 1
                yield self.number, line[:MAX_LINE]
            elif hit:
                yield self.number, line[:MAX_LINE]

    def _scanned(self) -> Iterator[tuple[bytes, list[tuple[int, int]]]]:
        """The chunks, and where in them to look. Arrow scans without Python's lock, beside the counting of lines."""
        if not self._large:
            yield from ((chunk, [(0, len(chunk))]) for chunk in self._chunks())
            return
        with ThreadPoolExecutor(_WORKERS) as pool:
            ahead: deque[tuple[bytes, Future[list[tuple[int, int]]]]] = deque()
            for chunk in self._chunks():
                ahead.append((chunk, pool.submit(_hits, chunk)))
                if len(ahead) > _AHEAD:
                    first, scanned = ahead.popleft()
                    yield first, scanned.result()
            for chunk, scanned in ahead:
                yield chunk, scanned.result()

    def _chunks(self) -> Iterator[bytes]:
        """The file in pieces that end with a line; of a line longer than a piece only its beginning."""
        rest = b""
        skipping = False
        try:
            for piece in _unpacked(self.path, self._on_read):
                end = piece.rfind(b"\n") + 1
                if not end:
                    rest = rest if skipping else rest + piece
                    skipping = len(rest) >= _CHUNK
                    rest = rest[:MAX_LINE] if skipping else rest
                    continue
                if skipping:
                    piece, end = piece[(at := piece.find(b"\n")) :], end - at
                    skipping = False
                yield rest + piece[:end]
                rest = piece[end:]
        except (OSError, EOFError, zlib.error) as error:
            self.cut = str(error) or type(error).__name__
        if rest:
            yield rest + b"\n"


def _unpacked(path: Path, on_read: Progress | None) -> Iterator[bytes]:
    """The bytes of a file, gzip undone as far as it is whole. Raises OSError, EOFError, zlib.error where it is not."""
    with path.open("rb") as file:
        packed = file.peek(2)[:2] == _GZIP
        members = zlib.decompressobj(wbits=31) if packed else None
        while raw := file.read(_CHUNK):
            if on_read:
                on_read(len(raw))
            while members:
                yield (some := members.decompress(raw, _CHUNK))
                raw = members.unconsumed_tail or members.unused_data
                if members.eof and raw:
                    members = zlib.decompressobj(wbits=31)
                elif not raw and len(some) < _CHUNK:
                    break
            else:
                yield raw
        if members and not members.eof:
            raise EOFError("it was cut off while it was packed")


def _hits(chunk: bytes) -> list[tuple[int, int]]:
    """Pieces of whole lines (where they start and end) one of which may hold a word of ours. Nothing is copied."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = array("i", (0,))
    while ends[-1] < len(chunk):
        ends.append(chunk.find(b"\n", ends[-1] + _BLOCK) + 1 or len(chunk))
    pieces = pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(chunk)])
    hits = pc.match_substring_regex(pieces, TRIGGER).to_pylist()
    return [(ends[place], ends[place + 1]) for place, hit in enumerate(hits) if hit]


def _hit_lines(block: bytes) -> list[bool]:
    """For each line of a block whether it has a word of ours."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lines = [line[:MAX_LINE] for line in block.removesuffix(b"\n").split(b"\n")]
    hits: list[bool] = pc.match_substring_regex(pa.array(lines, pa.binary()), TRIGGER).to_pylist()
    return hits


def _end_of_lines(chunk: bytes, start: int, lines: int) -> int:
    """Where that many lines from `start` on end, or the chunk."""
    for _ in range(lines):
        start = chunk.find(b"\n", start) + 1
        if not start:
            return len(chunk)
    return start
