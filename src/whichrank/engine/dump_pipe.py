"""whichrank collect --pipe: PyTorch's own dump pipes on this host. A line into a pipe, and its rank writes a dump.

`TORCH_NCCL_DEBUG_INFO_PIPE_FILE=<stem>` makes a NCCL process read the fifo `<stem><rank>.pipe` (since torch 2.3). Any
write to it dumps the recorder to the file that TORCH_FR_DUMP_TEMP_FILE names, with the rank at its end.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichrank.engine import intake
from whichrank.errors import NoEvidence

POLL_S = 0.1
STILL_S = 0.5  # torch writes into the file itself: it is whole when it has not grown for so long
_RANK = re.compile(r"(\d{1,7})\.pipe")
TURN_ON = "start the job with TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/tmp/fr_pipe_ and TORCH_FR_DUMP_TEMP_FILE=/tmp/fr_"
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class _Dump:
    """The file a rank writes. before: its time and size when the rank was asked; None where there was no file."""

    path: Path
    before: tuple[int, int] | None
    now: tuple[int, int] | None = None
    since: float = 0.0

    def whole(self) -> bool:
        """Whether it was written after the question and has been still for a while."""
        now = _version(self.path)
        if now != self.now:
            self.now, self.since = now, time.monotonic()
        fresh = now is not None and now != self.before and now[1] > 0
        return fresh and time.monotonic() - self.since >= STILL_S


def collect_through_pipes(
    stem: Path, dumps: Path, store: Path, *, wait_s: float = 30.0, on_progress: Progress | None = None
) -> dict[str, Any]:
    """Ask every rank of this host that has a pipe, and collect what it dumps. The keys are those of intake.collect.

    stem, dumps: TORCH_NCCL_DEBUG_INFO_PIPE_FILE and TORCH_FR_DUMP_TEMP_FILE of the job. A rank that does not read its
    pipe, or does not write within wait_s, is named in `notes`. Raises NoEvidence when none writes, StoreNotWritten.
    """
    notes: list[str] = []
    asked: dict[int, _Dump] = {}
    for rank, pipe in pipes(stem):
        dump = _Dump(Path(f"{dumps}{rank}"), _version(Path(f"{dumps}{rank}")))
        if why := _ask(pipe):
            notes.append(f"rank {rank}: {why}")
        else:
            asked[rank] = dump
    written = _wait(asked, time.monotonic() + wait_s, on_progress)
    notes += [
        f"rank {rank} was asked and wrote no {asked[rank].path} within {wait_s:g} s"
        for rank in sorted(asked.keys() - written)
    ]
    if not written:
        said = "; ".join(notes[:3]) or f"there is no pipe {stem}<rank>.pipe on this host"
        raise NoEvidence(f"no rank dumped: {said}", looked_for=f"{stem}<rank>.pipe and {dumps}<rank>", next=TURN_ON)
    done = intake.collect([asked[rank].path for rank in sorted(written)], store)
    return done | {"notes": notes + done["notes"]}


def pipes(stem: Path) -> Iterator[tuple[int, Path]]:
    """The fifos `<stem><rank>.pipe`, by rank."""
    found = {}
    for path in stem.parent.glob("*.pipe") if stem.parent.is_dir() else ():
        rank = _RANK.fullmatch(path.name.removeprefix(stem.name)) if path.name.startswith(stem.name) else None
        if rank and stat.S_ISFIFO(path.stat().st_mode):
            found[int(rank[1])] = path
    yield from sorted(found.items())


def _ask(pipe: Path) -> str | None:
    """Write into the pipe; why it did not work, or None."""
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return f"nobody reads {pipe}: the process is gone, or its watchdog is stuck"
        return f"{pipe} cannot be opened: {error.strerror}"
    try:
        os.write(descriptor, b"dump\n")
    except OSError as error:
        return f"{pipe} takes nothing more: {error.strerror}"
    finally:
        os.close(descriptor)
    return None


def _wait(asked: dict[int, _Dump], deadline: float, on_progress: Progress | None) -> set[int]:
    """The ranks whose dumps are whole, when all are or the time is up."""
    written: set[int] = set()
    while written != asked.keys() and time.monotonic() < deadline:
        written |= {rank for rank, dump in asked.items() if rank not in written and dump.whole()}
        if on_progress:
            on_progress(len(written), len(asked))
        if written != asked.keys():
            time.sleep(POLL_S)
    return written


def _version(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
