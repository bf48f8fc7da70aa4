"""The collector inside a training process: one daemon thread that answers when it is asked.

Whatever goes wrong here ends in a note or in one warning, never in the job. Between requests the thread looks at the
time of one folder, twice a second.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from whichrank.collectors import flight_recorder_live as recorder
from whichrank.leaving import Termination
from whichrank.store import live

POLL_S = 0.5  # half of what may pass until a request is seen: each look wakes a thread up, 0.02 % of a core
_REST_S = 1.0
_LOG = logging.getLogger("whichrank")
_SUSPICION_SHARE = 2000  # a look at the recorder may take one part in so many of the time between two
_JOIN_EXIT_S = 4.0
_ONE_EVENT_S = 20.0  # what several ranks notice within this time is one event, and one snapshot
_ONE_ATTEMPT_S = 3600.0  # the exceptions that end a job belong together
_current: Watcher | None = None


def watch(
    store: str | os.PathLike[str] | None = None,
    *,
    every_s: float | None = None,
    suspect_after_s: float | None = None,
    job_id: str | None = None,
) -> None:
    """Answer requests of `whichrank snapshot STORE` from this process. Never raises; a second call changes nothing.

    store:            folder all ranks share; default: the variable WHICHRANK_STORE.
    every_s:          also take a snapshot every so many seconds (at most); default: WHICHRANK_EVERY_S, else never.
    suspect_after_s:  take one when an operation is unfinished for so long; default: WHICHRANK_SUSPECT_AFTER_S, else
                      half its timeout.
    job_id:           default: from the variables of torchrun, SLURM or Kubernetes.
    """
    global _current
    try:
        if _current is not None and _current.pid == os.getpid():
            return
        where = store or os.environ.get("WHICHRANK_STORE")
        if not where:
            _LOG.warning(
                "whichrank: no store: give watch() a folder, or set WHICHRANK_STORE; this process is not watched"
            )
            return
        watcher = Watcher(
            Path(where).absolute(),
            every_s=every_s or _seconds("WHICHRANK_EVERY_S"),
            suspect_after_s=suspect_after_s or _seconds("WHICHRANK_SUSPECT_AFTER_S"),
            job_id=job_id,
        )
        watcher.start()
        _current = watcher
    except Exception as error:  # the promise: nothing of ours reaches the job
        _LOG.warning("whichrank: this process is not watched: %s: %s", type(error).__name__, error)


class Watcher(threading.Thread):
    """The thread. Every public method may be called from hooks of the interpreter."""

    def __init__(
        self,
        store: Path,
        *,
        every_s: float | None = None,
        suspect_after_s: float | None = None,
        job_id: str | None = None,
    ) -> None:
        super().__init__(name="whichrank", daemon=True)
        self.store = store
        self._folder = store / live.REQUESTS
        self.pid = os.getpid()
        self.every_s = every_s
        self.suspect_after_s = suspect_after_s
        self.job_id = job_id or recorder.job_id()
        self.started_ns = time.time_ns()
        self._leave = threading.Event()
        self._termination = Termination()
        self._missed: list[str] = []  # answers that could not be written, to be told with the next one
        self._warming: threading.Thread | None = None
        self._answering = threading.Lock()
        self._answered: set[str] = set()
        self._warned = False
        self._described: dict[str, Any] = {}
        self._seen_mtime = 0
        self._suspected: set[str] = set()
        self._due = {
            "heartbeat": 0.0,
            "suspicion": time.monotonic() + 5.0,
            "interval": time.monotonic(),
            "list": 0.0,
            "rest": 0.0,
        }

    # ---- start and end -----------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Start the thread and hook it to the ways a process ends."""
        self._guard(self._termination.install)
        super().start()
        atexit.register(self._at_exit)
        guarded = partial(partial, self._guard)
        os.register_at_fork(
            before=guarded(self._termination.before_fork),
            after_in_parent=guarded(self._termination.after_fork),
            after_in_child=self._forget,
        )
        previous = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            with self._termination.postponed():
                self.on_exception(error)
                previous(kind, error, trace)

        sys.excepthook = hook

    def _forget(self) -> None:
        """In a forked child: the thread is not there, and the rank is its parent."""
        if self.pid != -1:
            self.pid = -1  # no lock is touched: it may be held by the thread that is gone
            self._guard(self._termination.forget)
            self._guard(self._termination.after_fork)

    def _at_exit(self) -> None:
        if os.getpid() != self.pid or self._leave.is_set():
            return
        self._leave.set()
        self._guard(self._termination.wake)
        self._guard(lambda: self._describe("failed" if self._described.get("state") == "failed" else "exited"))
        for thread in (self, self._warming):  # none in the middle of a dump while the interpreter goes away
            if thread is not None:
                thread.join(_JOIN_EXIT_S)

    def on_exception(self, error: BaseException) -> None:
        """An exception ends the process: leave what the recorder holds, and ask the other ranks for theirs."""
        if os.getpid() != self.pid or isinstance(error, KeyboardInterrupt):
            return
        said = {"why": f"{type(error).__name__}: {str(error)[:300]}", "raised_in": recorder.raised_in(error)}

        def say() -> None:
            self._answer(live.ask_once(self.store, "exception", self.job_id, _ONE_ATTEMPT_S), said)
            self._describe("failed")

        self._guard(say)

    def _on_sigterm(self) -> None:
        """Somebody ends the process. Whatever it waits for is still open now, unlike after an exception."""
        said = {"why": "SIGTERM", "raised_in": recorder.main_thread_in()}
        try:
            self._guard(lambda: self._answer(live.ask_once(self.store, "exception", self.job_id, _ONE_ATTEMPT_S), said))
            self._guard(lambda: self._describe("terminated"))
        finally:
            self._termination.end()

    # ---- the loop ----------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Until the process ends."""
        while not self._leave.is_set():
            if self._termination.wait(POLL_S):
                self._on_sigterm()
                continue
            self._guard(self._requests)
            if self.every_s:
                self._guard(self._interval)
            if self._is_due("rest", _REST_S):
                for step in (self._beat, self._warm_up, self._suspect):
                    self._guard(step)

    def _guard(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            if not self._warned:
                self._warned = True
                _LOG.warning(
                    "whichrank: %s: %s: %s; training goes on, this is said once",
                    self.store,
                    type(error).__name__,
                    error,
                )

    def _is_due(self, name: str, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._due[name]:
            return False
        self._due[name] = now + seconds
        return True

    def _beat(self) -> None:
        """Say who we are when that has changed, else touch the file."""
        if not self._is_due("heartbeat", live.HEARTBEAT_S if self._described else 1.0):
            return
        path = self._node_path()
        if path is not None and path.exists() and self._described | recorder.identity() == self._described:
            os.utime(path)
        else:
            self._describe("running")

    def _warm_up(self) -> None:
        """Once, as soon as there are groups: stacks cost a second of CPU the first time, and the job still starts."""
        if self._warming is None and recorder.ready():
            warm_up = partial(self._guard, recorder.warm_up)
            self._warming = threading.Thread(target=warm_up, name="whichrank warm-up", daemon=True)
            self._warming.start()  # a thread of its own, because ours must answer

    def _describe(self, state: str) -> None:
        who = recorder.identity() | {"job_id": self.job_id, "started_ns": self.started_ns, "state": state}
        if who["rank"] is None:
            return
        live.write_whole(live.node_path(self.store, self.job_id, who["rank"]), json.dumps(who).encode(), sync=False)
        self._described = who

    def _node_path(self) -> Path | None:
        rank = self._described.get("rank")
        return None if rank is None else live.node_path(self.store, self.job_id, rank)

    # ---- requests ----------------------------------------------------------------------------------------------------
    def _requests(self) -> None:
        """Answer what is new. The folder's time tells; lately changed or not, it is read every five seconds."""
        try:
            changed = self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            return
        fresh = changed != self._seen_mtime or time.time_ns() - changed < 2 * 10**9
        if not fresh and not self._is_due("list", 5.0):
            return
        self._seen_mtime = changed
        for path in sorted(self._folder.glob("[!.]*.json")):
            if path.stem in self._answered:
                continue
            request = live.read_request(path)
            if request is None or request.job_id != self.job_id or path.stat().st_mtime_ns < self.started_ns - 10**9:
                self._answered.add(path.stem)
                continue
            self._answer(request)

    def _answer(self, request: live.Request, end: dict[str, Any] | None = None) -> None:
        """First without stacks, because that is quick; the bytes are on the disk before anything else happens.

        end: why this process ends (`why`, `raised_in`); it says more than an answer given before.
        """
        with self._answering:
            if request.snapshot_id in self._answered and end is None:
                return
            self._answered.add(request.snapshot_id)
            try:
                found = self._write_answer(request, end, stacks=False)
            except OSError as error:
                self._missed.append(f"{request.snapshot_id}: {error}")
                raise
        if found and request.stacks and end is None:
            self._write_answer(request, end, stacks=True)

    def _write_answer(self, request: live.Request, end: dict[str, Any] | None, *, stacks: bool) -> bool:
        head = recorder.identity() | {"job_id": self.job_id, "snapshot_id": request.snapshot_id} | (end or {})
        if head["rank"] is None:
            return False
        parts: dict[str, bytes] = {}
        notes = []
        try:
            head["snapshot_ns"] = time.time_ns()
            parts = recorder.dumps(stacks=stacks)
        except recorder.NoRecorder as error:
            notes.append({"kind": "no_recorder", "message": f"rank {head['rank']}: {error}"})
        except Exception as error:  # an answer without entries still says that this rank is alive
            notes.append(
                {"kind": "recorder_failed", "message": f"rank {head['rank']}: {type(error).__name__}: {error}"}
            )
        head |= {"reason": request.reason, "groups": recorder.groups(), "parts": [len(p) for p in parts.values()]}
        head["notes"] = notes + self._notes(head["rank"], end)
        path = live.answer_path(self.store, request.snapshot_id, head["rank"], stacks=stacks)
        live.write_whole(path, live.join(head, b"".join(parts.values())))
        self._missed.clear()
        return bool(parts)

    def _notes(self, rank: int, end: dict[str, Any] | None) -> list[dict[str, str]]:
        notes = [{"kind": "answer_lost", "message": f"rank {rank} could not write {text}"} for text in self._missed]
        if end:
            notes.append({"kind": "exception", "message": f"rank {rank} ended with {end['why']}"})
        if recorder.recorder_off():
            message = f"rank {rank}: the Flight Recorder is off: {recorder.TURN_ON}"
            notes.append({"kind": "recorder_off", "message": message})
        return notes

    # ---- asking on our own -------------------------------------------------------------------------------------------
    def _suspect(self) -> None:
        """Look for an operation that is unfinished for too long, as rarely as the look is dear."""
        limit = self.suspect_after_s
        if not self._is_due("suspicion", min(30.0, max(1.0, (limit or 120.0) / 4))):
            return
        started = time.thread_time()
        try:
            new = self._overdue(only_active=True) - self._suspected
            # What is active may be a part of a coalesced call, which never finishes: ask for what came behind it.
            sure = self._overdue(only_active=False) & new if new else set()
        except recorder.NoRecorder:
            self._due["suspicion"] = time.monotonic() + 30.0
            return
        self._suspected |= new
        cost = time.thread_time() - started
        self._due["suspicion"] = max(self._due["suspicion"], time.monotonic() + cost * _SUSPICION_SHARE)
        if sure:
            self._answer(live.ask_once(self.store, "suspicion", self.job_id, _ONE_EVENT_S))

    def _overdue(self, *, only_active: bool) -> set[str]:
        dumps = recorder.dumps(stacks=False, only_active=only_active)
        return {name for part in dumps.values() for name in overdue(part, self.suspect_after_s)}

    def _interval(self) -> None:
        if self.every_s and self._described.get("rank") == 0 and self._is_due("interval", self.every_s):
            live.ask(self.store, live.new_request(self.job_id, "interval"))


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


def _seconds(name: str) -> float | None:
    try:
        return float(os.environ[name]) or None
    except (KeyError, ValueError):
        return None
