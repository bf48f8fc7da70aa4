"""Logs of a job -> rows of `python.torch_nccl_watchdog_log`: one file for all ranks or one per rank, plain or gzip.

    read([Path("job.log")])  ->  batches of rows, notes about what could not be read

Messages wrapped by a terminal are put together again, reports without words of their own (desync, torchrun) are
followed to their end, and what is printed over and over is kept a limited number of times and counted.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from whichrank.batch import Batch, note, notes_batch, rows_to_arrow
from whichrank.collectors.watchdog_log_formats import integer, parse
from whichrank.collectors.watchdog_log_lines import Lines, recognises
from whichrank.collectors.watchdog_log_prefixes import Piece, clean, pieces, plain, rank_of_file
from whichrank.tables import WATCHDOG_LOG

__all__ = ["read", "recognises"]

_BATCH = 20_000
_MAX_TEXT = 500
_WRAPPED = 3  # further lines a message may be wrapped over
_REPORT = {"desync_head": 400, "elastic": 400, "stack_head": 60, "nccl_error_kind": 2}
_MOST = 2_000  # rows of one kind from one rank: the rest is counted
_FEWER = {"nccl_coll": 200, "work_update": 200, "nccl_line": 200, "exception": 200}
_ELASTIC_HEAD = ("ChildFailedError", "Root Cause (first observed failure)")
_ELASTIC = re.compile(
    r"(?:time +: (?P<logged_at>\S+)|host +: (?P<host>\S+)|rank +: (?P<rank>\d+) \(local_rank: (?P<local_rank>\d+)\)|"
    r"exitcode +: (?P<exit_code>-?\d+) \(pid: (?P<pid>\d+)\)(?: \((?P<signal>\w+)\))?|error_file: (?P<file>.*)|"
    r"traceback : (?P<text>.*))$"
)
_SIGNAL = re.compile(r"\((SIG\w+)\)")
_OF_WORK = ("work_rank", "seq", "op", "numel_in", "numel_out", "timeout_ms", "ran_ms")
_OF_DEFAULT_GROUP = ("dump_received", "dump_received_old", "store_barrier")

Progress = Callable[[int, int], None]
Row = dict[str, Any]


def read(paths: Sequence[Path], *, on_progress: Progress | None = None) -> Iterator[Batch]:
    """The rows of these logs, a batch at a time; rank is None, for a log belongs to many.

    on_progress: called with (megabytes read, megabytes in all).
    """
    total = sum(path.stat().st_size for path in paths) >> 20
    done = 0

    def step(count: int) -> None:
        nonlocal done
        done += count
        if on_progress and total:
            on_progress(min(done >> 20, total), total)

    snapshot = _snapshot_id(paths)
    notes: list[Row] = []
    for path in paths:
        rows: list[Row] = []
        reader = _Reader(path, step)
        for row in reader.rows():
            rows.append({"snapshot_id": snapshot, **row})
            if len(rows) >= _BATCH:
                yield Batch(snapshot, None, {WATCHDOG_LOG.name: rows_to_arrow(WATCHDOG_LOG, rows)})
                rows = []
        if rows:
            yield Batch(snapshot, None, {WATCHDOG_LOG.name: rows_to_arrow(WATCHDOG_LOG, rows)})
        notes += reader.notes()
    if notes:
        yield notes_batch(snapshot, None, notes)


def _snapshot_id(paths: Sequence[Path]) -> str:
    """Time and a hash of names, sizes and times, so that reading the same logs twice gives the same id."""
    stats = [(str(path), status.st_size, status.st_mtime_ns) for path in paths for status in (path.stat(),)]
    digest = hashlib.blake2b(repr(sorted(stats)).encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"log-{max(each[2] for each in stats) // 10**9}-{digest}"


class _Reader:
    """One log. Keeps what a line needs from the lines before it."""

    def __init__(self, path: Path, on_read: Callable[[int], None]) -> None:
        self._lines = Lines(path, on_read)
        self._name = str(path).encode("utf-8", "replace").decode()
        self._rank_of_file = rank_of_file(path)
        self._rank_of_pid: dict[tuple[str, int], tuple[int, int]] = {}  # (host, pid) -> ranks of its communicator, rank
        self._last: Piece | None = None  # the last message that had a rank: reports below it are its own
        self._report: str | None = None
        self._process: Row | None = None  # the process torchrun's summary is telling of
        self._root_cause = False
        self._kept: Counter[tuple[str, int | None]] = Counter()

    def rows(self) -> Iterator[Row]:
        """The rows of the log, in its order."""
        waiting: tuple[int, Piece, str] | None = None  # a message that may go on in the next line
        for number, raw in self._lines:
            line = clean(raw)
            parts = list(pieces(line))
            if waiting and not any(piece.head for piece in parts[:1]) and line.strip():
                started, piece, text = waiting
                joined = self._wrapped(piece, text, line)
                if row := self._said(joined):
                    waiting = None
                    yield from self._finish(row, started, piece)
                    continue
                waiting = (started, piece, joined.body) if number - started < _WRAPPED else None
            elif parts:
                waiting = None
            for piece in parts:
                row = self._said(piece)
                if row and not _open_ended(row, piece):
                    yield from self._finish(row, number, piece)
                elif piece.head and self._report is None:
                    if row:  # what it says so far; the end of the sentence, if it comes, is a row of its own
                        yield from self._finish(row, number, piece)
                    waiting = (number, piece, piece.body)
                    self._lines.follow(_WRAPPED)
                    self._last = piece
        yield from self._end_of_process()

    def _wrapped(self, piece: Piece, text: str, line: str) -> Piece:
        """The message with the next line added: a terminal breaks within words, a mail program between them."""
        tight = text + line.lstrip()
        body = tight if parse(tight) or not parse(f"{text} {line.lstrip()}") else f"{text} {line.lstrip()}"
        return Piece(
            body,
            piece.rank,
            piece.local_rank,
            piece.pid,
            piece.host,
            piece.logged_at,
            piece.severity,
            piece.source,
            True,
        )

    def _said(self, piece: Piece) -> Row | None:
        """What the message says, or None. Follows reports."""
        body = piece.body
        if self._report == "elastic":
            return self._elastic(body)
        if self._report:
            if row := parse(body.rstrip(), in_report=True):
                return row
            if piece.head or (self._report == "stack_head" and body.strip()):
                self._leave()
        row = parse(body)
        if row and (row["kind"] in _REPORT):
            self._enter(row["kind"])
        elif any(word in body for word in _ELASTIC_HEAD):
            self._enter("elastic")
            self._root_cause = _ELASTIC_HEAD[1] in body
            return None
        return row

    def _enter(self, report: str) -> None:
        self._report = report
        self._lines.follow(_REPORT[report])

    def _leave(self) -> None:
        self._report = None
        self._lines.unfollow()

    def _elastic(self, body: str) -> Row | None:
        """Torchrun's summary: six lines for each process, the first failure last."""
        if "Root Cause" in body or "Failures:" in body:
            self._root_cause = "Root Cause" in body
        elif match := _ELASTIC.search(body):
            found = {key: text for key, text in match.groupdict().items() if text}
            if "logged_at" in found:
                self._process = {"kind": "elastic_failure", "is_first": self._root_cause}
            if self._process is not None:
                for key, text in found.items():
                    self._process[key] = integer(text) if key in ("rank", "local_rank", "exit_code", "pid") else text
                if "text" in found:
                    row, self._process = self._process, None
                    return row
        elif body.startswith("=====") and self._root_cause:
            self._leave()
        elif "[rank" in body or "ProcessGroup" in body:
            self._leave()
            return parse(body)
        return None

    def _end_of_process(self) -> Iterator[Row]:
        if self._process and "exit_code" in self._process:
            yield from self._finish(self._process, self._lines.number, Piece(""))

    def _finish(self, row: Row, number: int, piece: Piece) -> Iterator[Row]:
        """The row with place, rank and text; nothing where enough of the kind was kept."""
        row.pop("file", None)
        whole: Row = {
            "path": self._name, "line": number, "logged_at": piece.logged_at, "severity": piece.severity,
            "source": piece.source, "local_rank": piece.local_rank, "host": piece.host, "pid": piece.pid,
        }  # fmt: skip
        whole |= row
        whole["rank"] = self._rank(row, piece)
        whole["text"] = plain(row.get("text") or piece.body)[:_MAX_TEXT]
        if row["kind"] == "elastic_failure":
            found = _SIGNAL.search(row.get("text", ""))
            whole["signal"] = row.get("signal") or (found[1] if found else None)
        if row["kind"] == "watchdog_terminated" and (inner := parse(row.get("text", ""))):
            whole |= {key: inner[key] for key in _OF_WORK if key in inner}  # the timeout once more, in what()
        if piece.head:
            self._last = piece
        if row["kind"] == "nccl_comm_rank" and "pid" in row:
            key = (row.get("host", ""), row["pid"])
            self._rank_of_pid[key] = max(self._rank_of_pid.get(key, (0, 0)), (row["world_size"], row["group_rank"]))
        self._kept[row["kind"], whole["rank"]] += 1
        if self._kept[row["kind"], whole["rank"]] <= _FEWER.get(row["kind"], _MOST):
            yield whole

    def _rank(self, row: Row, piece: Piece) -> int | None:
        """The global rank a row is about, as far as the log says it."""
        if row["kind"] in ("elastic_failure", "elastic_failed", "scheduler_end", "ray_died", "xid", "oom_killed"):
            rank = row.get("rank")
            return int(rank) if rank is not None else None
        if piece.rank is not None:
            return piece.rank
        if self._report and self._last is not None and self._last.rank is not None:
            return self._last.rank
        if self._rank_of_file is not None:
            return self._rank_of_file
        if (known := self._rank_of_pid.get((row.get("host", ""), row.get("pid", -1)))) is not None:
            return known[1]
        in_default = row.get("pg_id") == 0 or row.get("pg_desc") == "default_pg" or row["kind"] in _OF_DEFAULT_GROUP
        stated = row.get("group_rank") if in_default else row.get("work_rank")
        return int(stated) if stated is not None else None

    def notes(self) -> Iterator[Row]:
        """What was not kept, or not read."""
        if self._lines.cut:
            text = f"{self._name} ends early: {self._lines.cut}; what was read counts"
            yield note("truncated", text, source=self._name)
        dropped = sum(max(0, n - _FEWER.get(kind, _MOST)) for (kind, _), n in self._kept.items())
        if dropped:
            text = f"{self._name}: {dropped} lines repeat what earlier ones say and were only counted"
            yield note("repeated", text, severity="info", source=self._name, count=dropped)
        if not self._kept:
            text = f"{self._name} is text in which no line tells of a timeout, an error or an end"
            yield note("nothing_said", text, severity="info", source=self._name)


def _open_ended(row: Row, piece: Piece) -> bool:
    """A message that fits, but whose numbers may stand in the next line."""
    received = row["kind"] in ("dump_received", "dump_received_old")
    return received and "last_enqueued" not in row and "This is most likely" not in piece.body
