"""What stands in front of a message: launchers, schedulers, torchrun, ranks, glog. And what terminals put between."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]{0,200}\x07|[()][A-Z0-9])")
# C0 and C1, and what turns the direction of writing or is not seen.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
# Several messages on one line: progress bars and interleaved writers swallow newlines.
_GLUED = re.compile(r"(?=(?:\[default\d+\]:)?\[rank\d{1,7}\]: ?\S)")
_RANK = re.compile(r"^(?:\[default(?P<local_rank>\d{1,5})\]:)?\[rank(?P<rank>\d{1,7})\]:")
_GLOG = re.compile(
    r"\[(?P<severity>[IWEF])(?:(?P<month>1[0-2]|[1-9])(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d\.\d{9}))? "
    r"(?P<source>\w+\.(?:cpp|hpp|h):\d+)\]"
)
_DEFAULT = re.compile(r"^\[default(?P<local_rank>\d{1,5})\]:")
_ACTOR = re.compile(
    r"^\((?P<actor>[\w:]+(?:\[[^\]]*\])?)(?: rank=(?P<rank>\d{1,7}))? pid=(?P<pid>\d{1,9})(?:, ip=[\w.:]+)?\) ?"
)
_STAMP = re.compile(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*(?: std(?:out|err) [FP])? ")
_HOST = re.compile(r"^(?P<host>[\w.-]{1,80}):\d{1,6}: ")
_TASK = re.compile(r"^ {0,6}(?P<task>\d{1,7}): ")
_POD = re.compile(
    r"^(?:\[(?!\d+\])(?:pod/)?[\w./-]{1,120}\]|[\w.-]{1,80} +\||[\w.-]{1,80} \[std(?:out|err)\]|"
    r"\[\d{1,7}\](?! (?:is setting|finished|started|joined))|>) "
)
_ATTEMPT = re.compile(r"attempt_(\d{1,5})/\d{1,5}/std(?:out|err)\.log(?:\.gz)?$")
_NODE_FILE = re.compile(r"attempt_\d+/(\d{1,5})/std(?:out|err)\.log(?:\.gz)?$")
_RANK_FILE = re.compile(r"(?:^|[^a-z])rank[_-]?(\d{1,7})(?!\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Piece:
    """One message.

    rank: global; None where the line does not say it. task: srun's; a rank where each task is one, else a host.
    body: without prefixes. head: it has a prefix of its own.
    """

    body: str
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    host: str | None = None
    logged_at: str | None = None
    severity: str | None = None
    source: str | None = None
    head: bool = False
    task: int | None = None


def clean(line: bytes) -> str:
    """A line as text: wrong bytes replaced, colours taken out. Carriage returns stay: they part messages."""
    text = line.decode("utf-8", "replace")
    text = _unpacked(text) if text.startswith('{"log":"') else text
    text = _ANSI.sub("", text) if "\x1b" in text else text
    return text.rstrip()


def _unpacked(text: str) -> str:
    """A line as container engines keep it: `{"log":"…\\n","stream":"stderr","time":"…"}`."""
    try:
        inner = json.loads(text)["log"]
    except (ValueError, KeyError, RecursionError):
        return text
    return inner if isinstance(inner, str) else text


def plain(text: str) -> str:
    """Text without control characters, fit to be shown."""
    return _CONTROL.sub(" ", text).strip()


def pieces(line: str) -> Iterator[Piece]:
    """The messages of one line."""
    for part in line.split("\r"):
        if not part.strip():
            continue
        outer = Piece("")
        for text in _GLUED.split(part) if "[rank" in part else (part,):
            piece = _piece(text, outer)
            if piece.body.strip() or piece.head:
                yield piece
            if not piece.head:
                outer = piece  # what a launcher puts in front belongs to what follows


def _piece(text: str, outer: Piece) -> Piece:
    rank, local, pid, host, task = outer.rank, outer.local_rank, outer.pid, outer.host, outer.task
    for _ in range(6):
        before = text
        if match := _ACTOR.match(text):
            pid, rank = int(match["pid"]), int(match["rank"]) if match["rank"] else rank
        elif match := _HOST.match(text):
            host = match["host"]
        elif match := _TASK.match(text):
            task = int(match["task"])
        else:
            match = _STAMP.match(text) or _POD.match(text)
        text = text[match.end() :] if match else text
        if text == before:
            break
    head = False
    if match := _RANK.match(text):
        rank, head = int(match["rank"]), True
        local = int(match["local_rank"]) if match["local_rank"] else local
        text = text[match.end() :]
    elif match := _DEFAULT.match(text):
        local = int(match["local_rank"])
        text = text[match.end() :]
    glog = _GLOG.search(text, 0, 400)
    if glog is None:
        return Piece(text.removeprefix(" ") if head else text, rank, local, pid, host, head=head, task=task)
    time = f"{int(glog['month']):02d}-{glog['day']} {glog['time']}" if glog["time"] else None
    body = text[glog.end() :].removeprefix(" ")
    return Piece(body, rank, local, pid, host, time, glog["severity"], glog["source"], True, task)


def rank_of_file(path: Path) -> int | None:
    """The rank a log belongs to as its name says (`rank_3.log`, torchrun's `attempt_0/3/stderr.log`), or None."""
    match = _RANK_FILE.search(path.name) or _NODE_FILE.search(path.as_posix())
    return int(match[1]) if match else None


def attempt_of_file(path: Path) -> int:
    """Which restart a log of torchrun's belongs to (`attempt_1/3/stderr.log`); 0 where the name does not say."""
    match = _ATTEMPT.search(path.as_posix())
    return int(match[1]) if match else 0
