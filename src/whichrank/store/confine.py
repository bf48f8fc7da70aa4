"""Limits of the whole process, for statements of strangers: some functions of DuckDB obey neither of its own limits.

`repeat('x', 4000000000)` took 8 GB under a memory_limit of 2 GB, `list_sum(range(500000000))` took 74 s under a
max_execution_time of 1 s (DuckDB 2.0.1). So a process that runs such statements is confined by the kernel, and stops
itself when its time is long over. For short-lived processes (`whichrank query`) only: neither can be undone.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_MIB = 1 << 20
_GRACE_S = 5.0  # DuckDB's own limit comes first and says more


def confine_memory(more_mib: int) -> bool:
    """Let this process take `more_mib` MiB beyond what it has now; False where the system offers no such limit."""
    try:
        import resource

        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        now_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData:"))
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = now_kib * 1024 + more_mib * _MIB
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))
    except (ImportError, OSError, StopIteration, ValueError):
        return False
    return True


@contextmanager
def hard_stop(seconds: float, say: Callable[[], None], code: int) -> Iterator[None]:
    """End the process with `code` when the block takes `seconds` and a grace; `say` prints the reason."""

    def stop() -> None:
        say()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the statement holds its thread and hears no signal

    timer = threading.Timer(seconds + _GRACE_S, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
