"""The collector inside a training process: one daemon thread that answers when it is asked.

Whatever goes wrong here ends in a note or in one warning, never in the job. Between requests the thread looks at the
time of one folder, twice a second.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType

from whichrank.answering import Answerer
from whichrank.collectors import flight_recorder_live as recorder
from whichrank.leaving import Termination
from whichrank.store import live
from whichrank.suspicion import Suspicion

POLL_S = 0.5  # half of what may pass until a request is seen: each look wakes a thread up, 0.02 % of a core
_REST_S = 1.0
_LOG = logging.getLogger("whichrank")
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
        self.pid = os.getpid()
        self.every_s = every_s
        self._folder = store / live.REQUESTS
        self._answerer = Answerer(store, job_id or recorder.job_id())
        self._suspicion = Suspicion(suspect_after_s)
        self._termination = Termination()
        self._leave = threading.Event()
        self._warming: threading.Thread | None = None
        self._warned = False
        self._seen_mtime = 0
        self._due = dict.fromkeys(("heartbeat", "interval", "list", "rest"), 0.0)

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
        if self._answerer.described.get("state") != "failed":
            self._guard(partial(self._answerer.describe, "exited"))
        for thread in (self, self._warming):  # none in the middle of a dump while the interpreter goes away
            if thread is not None:
                thread.join(_JOIN_EXIT_S)

    def on_exception(self, error: BaseException) -> None:
        """An exception ends the process: leave what the recorder holds, and ask the other ranks for theirs."""
        if os.getpid() != self.pid or isinstance(error, KeyboardInterrupt):
            return

        def say() -> None:
            self._answerer.answer(self._together("exception", _ONE_ATTEMPT_S), _end(error))
            self._answerer.describe("failed")

        self._guard(say)

    def _on_sigterm(self) -> None:
        """Somebody ends the process. Whatever it waits for is still open now, unlike after an exception."""

        def say() -> None:
            error = self._termination.error()
            said = {"why": "SIGTERM", "raised_in": recorder.main_thread_in()} if error is None else _end(error)
            self._answerer.answer(self._together("exception", _ONE_ATTEMPT_S), said)

        try:
            self._guard(say)
            self._guard(partial(self._answerer.describe, "terminated"))
        finally:
            self._termination.end()

    # ---- the loop ----------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Until the process ends."""
        self._guard(self._begin)
        while not self._leave.is_set():
            if self._termination.wait(POLL_S):
                self._on_sigterm()
            if self._leave.is_set():
                return
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
                what = f"{self.store}: {type(error).__name__}: {error}"
                _LOG.warning("whichrank: %s; training goes on, this is said once", what)

    def _is_due(self, name: str, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._due[name]:
            return False
        self._due[name] = now + seconds
        return True

    def _begin(self) -> None:
        """What was asked before our time is not for us."""
        self._answerer.answered |= {path.stem for path in self._folder.glob("*.json")}

    def _beat(self) -> None:
        if self._is_due("heartbeat", live.HEARTBEAT_S if self._answerer.described else 0.0):
            self._answerer.beat()

    def _warm_up(self) -> None:
        """Once, as soon as there are groups: stacks cost a second of CPU the first time, and the job still starts."""
        if self._warming is None and recorder.ready():
            warm_up = partial(self._guard, recorder.warm_up)
            self._warming = threading.Thread(target=warm_up, name="whichrank warm-up", daemon=True)
            self._warming.start()  # a thread of its own, because ours must answer

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
            if path.stem in self._answerer.answered:
                continue
            request = live.read_request(path)
            if request is None or request.job_id != self._answerer.job_id:
                self._answerer.answered.add(path.stem)
            else:
                self._answerer.answer(request)

    # ---- asking on our own -------------------------------------------------------------------------------------------
    def _suspect(self) -> None:
        if self._suspicion.arises():
            self._answerer.answer(self._together("suspicion", _ONE_EVENT_S))

    def _interval(self) -> None:
        if self.every_s and self._answerer.described.get("rank") == 0 and self._is_due("interval", self.every_s):
            live.ask(self.store, live.new_request(self._answerer.job_id, "interval"))

    def _together(self, reason: str, within_s: float) -> live.Request:
        """The one request of all ranks that notice the same."""
        return live.ask_once(self.store, reason, self._answerer.job_id, within_s)


def _end(error: BaseException) -> dict[str, str | None]:
    return {"why": f"{type(error).__name__}: {str(error)[:300]}", "raised_in": recorder.raised_in(error)}


def _seconds(name: str) -> float | None:
    try:
        return float(os.environ[name]) or None
    except (KeyError, ValueError):
        return None
