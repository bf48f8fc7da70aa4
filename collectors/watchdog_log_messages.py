"""Lines of a log -> messages: wrapped ones put together, reports without words of their own followed to their end.

A message is what `parse` finds in it, and the Piece it stood in: who printed it, when.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from whichrank.collectors.watchdog_log_lines import Lines
from whichrank.collectors.watchdog_log_parsing import group_of, integer, parse
from whichrank.collectors.watchdog_log_prefixes import Piece, clean, pieces

_WRAPPED = 3  # further lines a message may be wrapped over
_REPORT = {"desync_head": 400, "elastic": 400, "stack_head": 60, "nccl_error_kind": 2}
_ELASTIC_HEAD = ("ChildFailedError", "Root Cause (first observed failure)")
_ELASTIC = re.compile(
    r"(?:time +: (?P<logged_at>\S+)|host +: (?P<host>\S+)|rank +: (?P<rank>\d+) \(local_rank: (?P<local_rank>\d+)\)|"
    r"exitcode +: (?P<exit_code>-?\d+) \(pid: (?P<pid>\d+)\)(?: \((?P<signal>\w+)\))?|error_file: (?P<file>.*)|"
    r"traceback : (?P<text>.*))$"
)
_BEGUN = re.compile(r"collective|onitoredBarrier|store based|ncclUniqueId|Watchdog|watchdog|CUDA")
_SIGNAL = re.compile(r"\((SIG\w+)\)")

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One message that says something. fields: `kind` and columns. reporter: the rank whose report it belongs to."""

    line: int
    fields: Fields
    piece: Piece
    reporter: int | None = None
    group: Fields = field(default_factory=dict)  # of the report's head, for lines that name no group


@dataclass(slots=True)
class _Agent:
    """How far the summary of one torchrun has come."""

    process: Fields | None = None
    root_cause: bool = False

    def hears(self, found: dict[str, str]) -> Fields | None:
        """The next line; the process when it is whole."""
        if "logged_at" in found:
            self.process = {"kind": "elastic_failure", "is_first": self.root_cause}
        if (process := self.process) is None:
            return None
        for key, text in found.items():
            process[key] = integer(text) if key in ("rank", "local_rank", "exit_code", "pid") else text
        if "text" not in found:
            return None
        if (signal := _SIGNAL.search(found["text"])) and not process.get("signal"):
            process["signal"] = signal[1]
        self.process = None
        return process


class Messages:
    """The messages of one log, in its order. Keeps what a line needs from the lines before it."""

    def __init__(self, path: Path, on_read: Callable[[int], None] | None = None) -> None:
        self.lines = Lines(path, on_read)
        self._last = Piece("")  # the last message with a head: reports below it are its own
        self._report: str | None = None
        self._processes: set[int] = set()
        self._agents: dict[int | None, _Agent] = {}  # torchrun's summaries, by the task that prints them

    def __iter__(self) -> Iterator[Message]:
        waiting: tuple[int, Piece] | None = None  # a message that may go on in the next line
        for number, raw in self.lines:
            line = clean(raw)
            parts = list(pieces(line))
            if waiting and not any(piece.head for piece in parts[:1]) and line.strip():
                started, piece = waiting
                joined = _wrapped(piece, line)
                fields = self._said(joined)
                if fields and not (_open_ended(fields, joined) and number - started < _WRAPPED):
                    waiting = None
                    yield self._message(started, fields, piece)
                    continue
                waiting = (started, joined) if number - started < _WRAPPED else None
            elif parts:
                waiting = None
            for piece in parts:
                if piece.pid is not None and piece.rank is not None and piece.pid not in self._processes:
                    self._processes.add(piece.pid)  # Ray later tells of a dead process by its number alone
                    yield Message(number, {"kind": "process"}, piece)
                self._last = piece if piece.head and self._report != "elastic" else self._last
                fields = self._said(piece)
                if fields:
                    yield self._message(number, fields, piece)
                if (
                    self._report is None
                    and piece.head
                    and (_open_ended(fields, piece) if fields else _may_go_on(piece))
                ):
                    waiting = (number, piece)  # the end of the sentence, if it comes, is a message of its own
                    self.lines.follow(_WRAPPED)
        for agent in self._agents.values():
            if agent.process and "exit_code" in agent.process:
                yield self._message(self.lines.number, agent.process, Piece(""))

    def _message(self, number: int, fields: Fields, piece: Piece) -> Message:
        below = self._report if self._report != "elastic" else None
        group = group_of(self._last.body) if below else {}
        return Message(number, fields, piece, self._last.rank if below else None, group)

    def _said(self, piece: Piece) -> Fields | None:
        """What the message says, or None. Follows reports."""
        body = piece.body
        if any(word in body for word in _ELASTIC_HEAD):
            self._enter("elastic")
            self._agents.setdefault(piece.task, _Agent()).root_cause = _ELASTIC_HEAD[1] in body
            return None
        if self._report == "elastic":
            return self._elastic(piece)
        if self._report:
            if fields := parse(body.rstrip(), in_report=True):
                return fields
            if piece.head or (self._report == "stack_head" and body.strip()):
                self._leave()
        fields = parse(body)
        if fields and fields["kind"] in _REPORT:
            self._enter(fields["kind"])
        if fields and fields["kind"] == "exception" and piece.head and piece.source is None:
            fields["kind"] = "uncaught"  # Python itself puts the rank in front of what ends the process
        return fields

    def _enter(self, report: str) -> None:
        self._report = report
        self.lines.follow(_REPORT[report])

    def _leave(self) -> None:
        self._report = None
        self.lines.unfollow()

    def _elastic(self, piece: Piece) -> Fields | None:
        """Torchrun's summary: six lines for each process, the first failure last. Several hosts may print at once."""
        body, agent = piece.body, self._agents.setdefault(piece.task, _Agent())
        if "Failures:" in body:
            agent.root_cause = False
        elif match := _ELASTIC.search(body):
            return agent.hears({key: text for key, text in match.groupdict().items() if text})
        elif "[rank" in body or "ProcessGroup" in body or piece.head:
            self._leave()
            return parse(body)
        elif body.startswith("=====") and agent.root_cause and len(self._agents) == 1:
            self._leave()
        else:
            return parse(body)
        return None


def _wrapped(piece: Piece, line: str) -> Piece:
    """The message with the next line added: a terminal breaks within words, a mail program between them."""
    tight = piece.body + line.lstrip()
    loose = f"{piece.body} {line.lstrip()}"
    return replace(piece, body=tight if parse(tight) or not parse(loose) else loose, head=True)


def _may_go_on(piece: Piece) -> bool:
    """A beginning of a sentence of ours: whatever PyTorch's C++ side prints, and what it has Python raise."""
    return piece.source is not None or _BEGUN.search(piece.body) is not None


def _open_ended(fields: Fields, piece: Piece) -> bool:
    """A message that fits, but whose numbers may stand in the next line."""
    received = fields["kind"] in ("dump_received", "dump_received_old")
    return received and "last_enqueued" not in fields and "This is most likely" not in piece.body
