"""Where a process with a probe stands -> a look, as `python.backtrace` keeps it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from whichrank.collectors import backtrace_inside
from whichrank.collectors.backtrace import Frame, Look, Thread
from whichrank.collectors.probing_endpoint import Endpoint, NoProbe, NoSuchTable, value_of

# A statement for probing's own engine. Its column lineno is the line on which a Python function begins.
_BY_SIGNAL = "SELECT func, file, lineno, frame_type FROM python.backtrace ORDER BY depth"
_HANDLER = "backtrace_signal_handler"  # the frames up to here are probing's


def from_inside(door: Endpoint, timeout_s: float) -> tuple[Look, int]:
    """All Python threads, exact lines, and when (ns since epoch). Raises NoProbe where Python does not answer."""
    try:
        said = json.loads(value_of(door, backtrace_inside, "stacks_text()", timeout_s))
        threads = [_thread(thread) for thread in said["threads"]]
        return Look(threads, pid=int(said["pid"])), int(said["taken_ns"])
    except (ValueError, KeyError, TypeError) as error:
        raise NoProbe(f"{door} gave no stacks: {error}") from None


def by_signal(door: Endpoint, timeout_s: float) -> tuple[Look, int]:
    """The main thread, native frames and all, also of a process that holds the GIL. Raises NoProbe.

    probing sends SIGUSR2 for it: a system call that is not restarted after a signal (sleep, poll) returns early.
    """
    try:
        rows = door.rows(_BY_SIGNAL, timeout_s)
        frames = [Frame(str(row["func"]), str(row["file"] or ""), None) for row in rows]
    except (NoSuchTable, KeyError) as error:
        raise NoProbe(f"{door} gave no stack: {error}") from None
    own = next((place + 1 for place, frame in enumerate(frames) if _HANDLER in frame.func), 0)
    return Look([Thread(frames[own:], "MainThread", door.pid)], pid=door.pid), time.time_ns()


def _thread(said: Mapping[str, Any]) -> Thread:
    frames = [
        Frame(str(func), str(file), int(line) if line is not None else None) for func, file, line in said["frames"]
    ]
    return Thread(frames, said["name"], said["os_id"])
