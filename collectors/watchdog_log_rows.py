"""Messages of one log -> rows: place, rank, text; what is printed over and over is kept a limited number of times."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from whichrank.batch import note
from whichrank.collectors.watchdog_log_messages import Message, Messages
from whichrank.collectors.watchdog_log_parsing import parse
from whichrank.collectors.watchdog_log_prefixes import attempt_of_file, plain, rank_of_file

_MAX_TEXT = 500
_MOST = 2_000  # rows of one kind from one rank: the rest is counted
_FEWER = {"nccl_line": 200, "exception": 200, "uncaught": 200}
_NEWEST = {"nccl_coll": 200, "work_update": 200}  # what counts is where they end
_OF_WORK = ("work_rank", "seq", "op", "numel_in", "numel_out", "timeout_ms", "ran_ms")
_OF_DEFAULT_GROUP = ("dump_received", "dump_received_old", "store_barrier")
_OF_NAMED_RANK = (
    "elastic_failure",
    "elastic_failed",
    "elastic_restart",
    "scheduler_end",
    "ray_died",
    "xid",
    "oom_killed",
)
_NO_EVENT = ("file", "process", "nccl_comm_rank", "nccl_coll", "work_update", "elastic_restart")

Row = dict[str, Any]


class Rows:
    """The rows of one log, in its order, the newest of what repeats and the row of the file itself last."""

    def __init__(self, path: Path, on_read: Callable[[int], None] | None = None) -> None:
        self._messages = Messages(path, on_read)
        self._name = plain(str(path).encode("utf-8", "replace").decode())
        self._rank_of_file = rank_of_file(path)
        self._attempt = attempt_of_file(path)
        self._tasks_are_ranks = True  # until a line shows that srun started one torchrun for several
        self._news = False  # since the last restart something was said
        self._kept: Counter[tuple[str, int | None]] = Counter()
        self._newest: dict[tuple[str, int | None, int | None], deque[Row]] = {}

    def __iter__(self) -> Iterator[Row]:
        for message in self._messages:
            row = self._row(message)
            kind = row["kind"]
            self._count_attempts(row)
            self._kept[kind, row["rank"]] += 1
            if most := _NEWEST.get(kind):
                key = kind, row["rank"], row.get("pid")
                self._newest.setdefault(key, deque(maxlen=most)).append(row)
            elif self._kept[kind, row["rank"]] <= _FEWER.get(kind, _MOST):
                yield row
        for rows in self._newest.values():
            yield from rows
        lines = self._messages.lines.number
        yield self._blank(lines) | {"kind": "file", "text": f"{lines} lines"}

    def _blank(self, line: int) -> Row:
        return {"path": self._name, "line": line, "attempt": self._attempt, "rank": self._rank_of_file}

    def _count_attempts(self, row: Row) -> None:
        """Every host's torchrun says that it restarts: what comes before the first word of a rank is one restart."""
        if row["kind"] == "elastic_restart":
            self._attempt += self._news
            self._news = False
        elif row["kind"] not in _NO_EVENT:
            self._news = True

    def _row(self, message: Message) -> Row:
        piece, fields = message.piece, message.group | message.fields
        fields.pop("file", None)
        row = self._blank(message.line) | {
            "logged_at": piece.logged_at, "severity": piece.severity, "source": piece.source,
            "local_rank": piece.local_rank, "host": piece.host, "pid": piece.pid,
        }  # fmt: skip
        row |= fields
        row["rank"] = self._rank(message, fields)
        row["text"] = plain(fields.get("text") or piece.body)[:_MAX_TEXT]
        if row["kind"] == "watchdog_terminated" and (inner := parse(fields.get("text", ""))):
            row |= {key: inner[key] for key in _OF_WORK if key in inner}  # the timeout once more, in what()
        return row

    def _rank(self, message: Message, fields: Row) -> int | None:
        """The global rank a row is about, as far as the line says it."""
        if fields["kind"] in _OF_NAMED_RANK:
            return _number(fields.get("rank"))
        piece = message.piece
        if piece.task is not None and piece.rank not in (None, piece.task):
            self._tasks_are_ranks = False
        task = piece.task if self._tasks_are_ranks else None
        for rank in (piece.rank, message.reporter, task, self._rank_of_file):
            if rank is not None:
                return rank
        if fields["kind"] in ("nccl_comm_rank", "nccl_coll"):
            return None  # facts know which process is which rank when all is read
        in_default = fields.get("pg_id") == 0 or fields.get("pg_desc") == "default_pg"
        if in_default or fields["kind"] in _OF_DEFAULT_GROUP:
            return _number(fields.get("group_rank"))
        return _number(fields.get("work_rank"))

    def notes(self) -> Iterator[Row]:
        """What was not kept, or not read."""
        if cut := self._messages.lines.cut:
            text = f"{self._name} ends early: {cut}; what was read counts"
            yield note("truncated", text, source=self._name)
        most = {**_FEWER, **_NEWEST}
        dropped = sum(max(0, n - most.get(kind, _MOST)) for (kind, _), n in self._kept.items())
        if dropped:
            text = f"{self._name}: {dropped} lines repeat what others say and were only counted"
            yield note("repeated", text, severity="info", source=self._name, count=dropped)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
