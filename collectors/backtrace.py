"""Stacks of a process, however they were written down -> rows of `python.backtrace`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from whichrank.batch import Batch, rows_to_arrow
from whichrank.tables import BACKTRACE

MAX_FRAMES = 500  # of a stack; a recursion without end is told by less
_ENTRY = ("<module>", "_run_module_as_main", "_run_code")
_NATIVE = re.compile(r"\.so(?:\.\d+)*$|\.(?:c|cc|cpp|cxx|cu|h|hpp|rs|pyx|S)$")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. func: without its class."""

    func: str
    file: str
    lineno: int | None

    @property
    def native(self) -> bool:
        return bool(_NATIVE.search(self.file)) or not self.file


@dataclass(slots=True)
class Thread:
    """One thread. frames: innermost first."""

    frames: list[Frame] = field(default_factory=list)
    name: str | None = None
    os_id: int | None = None
    active: bool | None = None
    owns_gil: bool | None = None


@dataclass(slots=True)
class Look:
    """One process at one moment. rank: what the text itself says, or None."""

    threads: list[Thread]
    rank: int | None = None
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where looks came from. The columns of the same names."""

    snapshot_id: str
    source: str
    path: str | None = None
    host: str | None = None
    job_id: str | None = None


def bare(func: str) -> str:
    """The name of a function without its class, which only newer versions of py-spy put in front."""
    return func if func.startswith("<") else func.rsplit(".", 1)[-1]


def main_thread(look: Look) -> int | None:
    """The position of the main thread: by its name or number, else by where it began."""
    for place, thread in enumerate(look.threads):
        if thread.name == "MainThread" or (thread.os_id is not None and thread.os_id == look.pid):
            return place
    began = [place for place, thread in enumerate(look.threads) if thread.frames and thread.frames[-1].func in _ENTRY]
    if began:
        return began[-1]
    return 0 if len(look.threads) == 1 else None


def to_batch(rank: int, looks: Sequence[tuple[Look, int]], origin: Origin) -> Batch:
    """The looks at one rank, oldest first, each with its time in ns since epoch."""
    rows = [row for sample, (look, taken) in enumerate(looks) for row in _rows(rank, sample, look, taken, origin)]
    return Batch(origin.snapshot_id, rank, {BACKTRACE.name: rows_to_arrow(BACKTRACE, rows)})


def _rows(rank: int, sample: int, look: Look, taken_ns: int, origin: Origin) -> Iterator[dict[str, Any]]:
    main = main_thread(look)
    for place, thread in enumerate(look.threads):
        common = {
            "snapshot_id": origin.snapshot_id,
            "rank": rank,
            "host": origin.host,
            "job_id": origin.job_id,
            "source": origin.source,
            "path": origin.path,
            "sample": sample,
            "taken_ns": taken_ns,
            "pid": look.pid,
            "thread": place,
            "os_thread_id": thread.os_id,
            "thread_name": thread.name,
            "is_main": place == main,
            "active": thread.active,
            "owns_gil": thread.owns_gil,
        }
        if not thread.frames:
            yield common
        yield from ({**common, **frame} for frame in _frames(thread.frames))


def _frames(frames: Iterable[Frame]) -> Iterator[dict[str, Any]]:
    for depth, frame in zip(range(MAX_FRAMES), frames, strict=False):
        kind = "Native" if frame.native else "Python"
        yield {"depth": depth, "frame_type": kind, "func": frame.func, "file": frame.file, "lineno": frame.lineno}
