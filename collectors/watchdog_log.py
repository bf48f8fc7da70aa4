"""Logs of a job -> rows of `python.torch_nccl_watchdog_log`: one file for all ranks or one per rank, plain or gzip.

    read([Path("job.log")])  ->  batches of rows, notes about what could not be read

Each log gives one row of kind `file`, also where it says nothing of a fault: that it was looked at counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from whichrank.batch import Batch, notes_batch, rows_to_arrow
from whichrank.collectors.watchdog_log_lines import recognises
from whichrank.collectors.watchdog_log_rows import Rows
from whichrank.tables import WATCHDOG_LOG

__all__ = ["read", "recognises"]

_BATCH = 20_000

Progress = Callable[[int, int], None]


def read(paths: Sequence[Path], *, on_progress: Progress | None = None) -> Iterator[Batch]:
    """The rows of these logs, a batch at a time; rank is None, for a log belongs to many.

    on_progress: called with (megabytes read, megabytes in all) where the logs are larger than one.
    """
    total = sum(path.stat().st_size for path in paths) >> 20
    done = 0

    def step(count: int) -> None:
        nonlocal done
        before = done >> 20
        done += count
        if on_progress and total and done >> 20 != before:
            on_progress(min(done >> 20, total), total)

    snapshot = _snapshot_id(paths)
    notes: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    for path in paths:
        rows = Rows(path, step)
        for row in rows:
            waiting.append({"snapshot_id": snapshot, **row})
            if len(waiting) >= _BATCH:
                yield Batch(snapshot, None, {WATCHDOG_LOG.name: rows_to_arrow(WATCHDOG_LOG, waiting)})
                waiting = []
        notes += rows.notes()
    if waiting:
        yield Batch(snapshot, None, {WATCHDOG_LOG.name: rows_to_arrow(WATCHDOG_LOG, waiting)})
    if notes:
        yield notes_batch(snapshot, None, notes)


def _snapshot_id(paths: Sequence[Path]) -> str:
    """Time and a hash of names, sizes and times, so that reading the same logs twice gives the same id."""
    stats = [(str(path), status.st_size, status.st_mtime_ns) for path in paths for status in (path.stat(),)]
    digest = hashlib.blake2b(repr(sorted(stats)).encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"log-{max(each[2] for each in stats) // 10**9}-{digest}"
