"""Whether an operation of this process is unfinished for suspiciously long."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator

from whichrank.collectors import flight_recorder_live as recorder

_SHARE = 2000  # a look at the recorder may take one part in so many of the time between two
_FIRST_S = 5.0


class Suspicion:
    """Looks at the recorder now and then. limit_s: unfinished for so long is suspicious; None: half the timeout."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._every_s = min(30.0, max(1.0, (limit_s or 120.0) / 4))
        self._due = time.monotonic() + _FIRST_S
        self._known: set[str] = set()

    def arises(self) -> bool:
        """Whether something has newly become suspicious; looks as rarely as the look is dear."""
        if time.monotonic() < self._due:
            return False
        started = time.thread_time()
        try:
            return self._look()
        except recorder.NoRecorder:
            return False
        finally:
            cost = time.thread_time() - started
            self._due = time.monotonic() + max(self._every_s, cost * _SHARE)

    def _look(self) -> bool:
        active = self._overdue(only_active=True)
        new = active - self._known
        self._known = active
        # What is active may be a part of a coalesced call, which never finishes: ask for what came behind it.
        return bool(new and new & self._overdue(only_active=False))

    def _overdue(self, *, only_active: bool) -> set[str]:
        dumps = recorder.dumps(stacks=False, only_active=only_active)
        return {name for part in dumps.values() for name in overdue(part, self._limit_s)}


def overdue(dump: bytes, limit_s: float | None) -> Iterator[str]:
    """Names of operations in our own dump that are unfinished for longer than the limit (half their timeout).

    What is older than a finished operation of its group is over: parts of coalesced calls never finish.
    """
    payload = pickle.loads(dump)  # noqa: S301 - these bytes come from our own torch, a moment ago
    now = time.time_ns()
    over: set[object] = set()
    for entry in reversed(payload.get("entries") or []):
        if entry["retired"] or entry["state"] == "completed":
            over.add(entry["pg_id"])
        limit_ms = limit_s * 1000 if limit_s else (entry.get("timeout_ms") or 600_000) / 2
        if entry["pg_id"] not in over and (now - entry["time_created_ns"]) / 1e6 > limit_ms:
            yield f"{entry['pg_id']}:{entry['record_id']}:{entry['time_created_ns']}"
