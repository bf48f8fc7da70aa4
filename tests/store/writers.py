"""Sixty-four writers of one store, forked from one process so that they start at the same time.

    python -m tests.store.writers STORE LOGS WRITERS SECONDS

Each writes one snapshot after another; LOGS/<rank> gets the id of a snapshot when it is written. The ids of
the processes are printed, one a line, then `started`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pyarrow.parquet  # noqa: F401 - before the fork, once for all

from whichrank.batch import Batch, rows_to_arrow
from whichrank.store.shards import write
from whichrank.tables import DUMP, FLIGHT_RECORD

ROWS = 50


def batch(rank: int, snapshot_id: str) -> Batch:
    origin = {"snapshot_id": snapshot_id, "rank": rank}
    entries = [origin | {"record_id": i, "collective_seq_id": i + 1} for i in range(ROWS)]
    dump = [origin | {"source": "process", "entries": ROWS}]
    return Batch(
        snapshot_id,
        rank,
        {FLIGHT_RECORD.name: rows_to_arrow(FLIGHT_RECORD, entries), DUMP.name: rows_to_arrow(DUMP, dump)},
    )


def work(rank: int, store: Path, logs: Path, until: float) -> None:
    number = 0
    with (logs / str(rank)).open("a", buffering=1) as log:
        while time.monotonic() < until:
            number += 1
            write(store, batch(rank, f"s{number:04d}"))
            log.write(f"s{number:04d}\n")
            time.sleep(0.5 + rank / 64)  # thousands of files are enough


def main(store: Path, logs: Path, writers: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    children = []
    for rank in range(writers):
        child = os.fork()
        if child == 0:
            work(rank, store, logs, until)
            os._exit(0)
        children.append(child)
    print(*children, "started", sep="\n", flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
