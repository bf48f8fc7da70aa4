"""One message of a log -> what it says: its kind and the columns its format fills."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from whichrank.collectors.watchdog_log_formats import FORMATS, IN_REPORT, PG
from whichrank.tables import WATCHDOG_LOG

# What NCCL puts in front of its lines: host, process, thread, CUDA device of the process.
_PROCESS = re.compile(r"(?<!\S)(?P<host>[^\s:]{1,80}):(?P<pid>\d{1,9}):\d{1,9} \[(?P<device>-?\d{1,4})\] ")
_GROUP = re.compile(PG.removesuffix(" +"))
_INTEGERS = frozenset(c.name for c in WATCHDOG_LOG.columns if c.type == "BIGINT")
_MAX_RANKS = 100_000


@dataclass(frozen=True, slots=True)
class Format:
    """One compiled format."""

    kind: str
    token: str
    pattern: re.Pattern[str]


@cache
def compiled(in_report: bool = False) -> tuple[Format, ...]:
    """The formats, compiled once. in_report: those of lines below the head of a report."""
    return tuple(Format(kind, token, re.compile(text)) for kind, token, text in (IN_REPORT if in_report else FORMATS))


def parse(text: str, in_report: bool = False) -> dict[str, Any] | None:
    """What one message says: `kind` and the columns its format fills; None where it says nothing to us."""
    for each in compiled(in_report):
        if each.token in text and (match := each.pattern.search(text)):
            of_nccl = process_of(text) if each.kind.startswith("nccl_") else {}
            return {"kind": each.kind} | of_nccl | typed(match.groupdict())
    return None


def group_of(text: str) -> dict[str, Any]:
    """The group a message is said in, `[PG ID 3 PG GUID 7(tp) Rank 1]`; empty where it names none."""
    match = _GROUP.match(text)
    return {key: value for key, value in typed(match.groupdict()).items() if key != "group_rank"} if match else {}


def process_of(text: str) -> dict[str, Any]:
    """The process a line of NCCL comes from; empty where the line lost its head."""
    match = _PROCESS.search(text, 0, 400)
    return typed(match.groupdict()) if match else {}


def typed(fields: dict[str, str | None]) -> dict[str, Any]:
    """Texts of a match -> column values. NULL for -1, which PyTorch prints for `none yet`, and for absurd numbers."""
    row: dict[str, Any] = {}
    for name, text in fields.items():
        if text is None or text == "":
            continue
        if name == "other_seq" and text == "0" and not fields.get("other_shape"):
            continue  # a fingerprint that nobody filled in: that rank was in no such check
        if name == "ranks":
            row["ranks"] = ranks_of(text)
        elif name == "op_count":
            row["seq"] = integer(text, 16)
        elif name in _INTEGERS:
            row[name] = integer(text)
        elif name == "pg_desc" and text == "undefined":
            continue
        else:
            row[name] = text.strip()
    return row


def integer(text: str, base: int = 10) -> int | None:
    """A number that fits a BIGINT; None for others. -1 of `last completed` means none and is kept out as well."""
    if len(text) > 18 or not text.isascii():
        return None
    number = int(text, base)
    return None if number == -1 else number


def ranks_of(text: str) -> list[int]:
    """`3, 4` or `8-12,14` -> ranks, at most 100,000."""
    ranks: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and len(first) < 8 and len(last) < 8:
            end = int(last) if last.isdecimal() else int(first)
            ranks.extend(range(int(first), min(end, int(first) + _MAX_RANKS) + 1))
    return ranks[:_MAX_RANKS]
