"""SIGTERM in a training process: told to a thread of ours at once, even while the main thread waits inside a C call.

Python runs signal handlers in the main thread, between two of its own instructions, and a rank that hangs in a
collective has none. But a byte goes through a pipe at the moment of the signal, and any thread can read it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_MEET_S = 0.2  # the main thread meets the signal at its next instruction, or not at all
GRACE_S = 4.0  # what is not written by then is lost; torchrun and SLURM kill after 30 s


class Termination:
    """Takes SIGTERM over where it would end the process silently; leaves it alone where the job handles it itself."""

    def __init__(self) -> None:
        self._said = threading.Event()
        self._read, self._write = -1, -1
        self._woken = threading.Event()
        self._busy = False
        self._pending = False
        self._met = threading.Event()
        self._error: BaseException | None = None
        self._forking = threading.local()

    def install(self) -> None:
        """From the main thread only, where there is no handler yet; elsewhere nothing happens."""
        if os.environ.get("WHICHRANK_SIGTERM") == "0":
            return
        here = threading.current_thread() is threading.main_thread()
        if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        os.set_blocking(self._read, False)
        before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        if before != -1:  # somebody, an event loop, wants to be told; the handler alone must do
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._handle)

    def wait(self, seconds: float) -> bool:
        """Wait so long for a SIGTERM; whether there was one."""
        if self._read < 0:
            return self._woken.wait(seconds) and False
        if select.select([self._read], [], [], seconds)[0]:
            return signal.SIGTERM in os.read(self._read, 4096)
        return False

    def error(self) -> BaseException | None:
        """The exception the main thread was on its way out with when the signal came; waits a moment for it to tell."""
        self._met.wait(_MEET_S)
        return self._error

    def wake(self) -> None:
        """End a `wait` early, and let nobody wait for it any more."""
        self._said.set()
        self._woken.set()
        if self._write >= 0:
            os.write(self._write, b"\0")

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """A main thread that is writing what it leaves is not interrupted: it would wait for itself."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            if self._pending:
                self._default()

    def end(self) -> None:
        """What had to be written is written: let the signal do what it would have done. From any thread."""
        self._said.set()
        if signal.getsignal(signal.SIGTERM) == self._handle and not self._busy:
            self._default()

    def before_fork(self) -> None:
        """A child shares the pipe: it must not get a SIGTERM before it has let go of it, or its parent would end."""
        if self._read >= 0:
            self._forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def after_fork(self) -> None:
        """In the parent, and at last in the child: signals come as before."""
        mask = getattr(self._forking, "mask", None)
        if mask is not None:
            self._forking.mask = None
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def forget(self) -> None:
        """In a forked child: as if nothing had been installed."""
        if self._read >= 0:
            signal.set_wakeup_fd(-1)
            if signal.getsignal(signal.SIGTERM) == self._handle:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.close(self._read)
            os.close(self._write)
            self._read, self._write = -1, -1

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._error = sys.exc_info()[1] or getattr(sys, "last_value", None)
        self._met.set()
        if self._busy:
            self._pending = True
        else:
            self._said.wait(GRACE_S)
            self._default()

    @staticmethod
    def _default() -> None:
        ctypes.pythonapi.PyOS_setsig(signal.SIGTERM, ctypes.c_void_p(int(signal.SIG_DFL)))  # signal.signal: main only
        os.kill(os.getpid(), signal.SIGTERM)
