"""Stores: as shards and compacted, against DuckDB's own group-by over the same rows.

python -m benchmarks.stores STORE RANKS ENTRIES     writes a store
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path

from benchmarks import jobs
from benchmarks.measure import PYTHON, WHICHRANK, Measurement, took
from whichrank.collectors.flight_recorder import Origin, to_batch
from whichrank.store.ddl import COMPACTED
from whichrank.store.shards import write

# What aligning ranks comes down to, with nothing of ours: how far each group got, and who was there.
GROUP_BY = """
import sys, duckdb
print(duckdb.sql(f\"\"\"
    SELECT count(*) FROM (
      SELECT pg_id, pg_name, collective_seq_id, count(*), count(DISTINCT rank), min(state), max(time_created_ns)
      FROM {sys.argv[1]} GROUP BY ALL)\"\"\").fetchall())
"""
_TABLE = "torch_nccl_flight_record"
_AT_ONCE = 100


def measurements(folder: Path, *, long: bool) -> Iterator[tuple[Measurement, int]]:
    """Each with how many runs of the asked ones it gets."""
    ranks, entries = (10_000, 2_000) if long else (504, 1_000)
    store = make(folder / "store", ranks, entries)
    name = f"{ranks:,} ranks, {ranks * entries / 1e6:.3g}M rows"
    shards = (PYTHON, "-c", GROUP_BY, f"'{store}/{_TABLE}/*/*.parquet'")
    says = f"rank {jobs.culprit_of(ranks)} never joined"
    command = (*WHICHRANK, "diagnose", str(store))
    several = int(not long)
    yield Measurement(f"diagnose store as shards: {name} / group-by", command, shards, None, says=says), several
    done = took((*WHICHRANK, "collect", "--compact", str(store)))
    print(f"          {done.seconds:.1f} s, {done.peak_mb:,.0f} MB  collect --compact of this store", flush=True)
    copy = folder / "copy.duckdb"
    (store / COMPACTED).rename(copy)
    table = (
        PYTHON,
        "-c",
        f"import duckdb; duckdb.sql(\"ATTACH '{copy}' AS g (READ_ONLY)\")\n{GROUP_BY}",
        f"g.shard.{_TABLE}",
    )
    command = (*WHICHRANK, "diagnose", str(copy))
    yield Measurement(f"diagnose compacted store: {name} / group-by", command, table, 2, says=says), several


def make(store: Path, ranks: int, entries: int) -> Path:
    """A store of one snapshot, a shard of each table for each rank."""
    parts = range(0, ranks, _AT_ONCE)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(partial(_make_part, store, ranks), parts, repeat(entries)))
    return store


def _make_part(store: Path, ranks: int, first: int, entries: int) -> None:
    for rank in range(first, min(first + _AT_ONCE, ranks)):
        dump = jobs.dump(rank, ranks, entries, 10)
        write(store, to_batch(dump, Origin("20261201T000000000Z-benchmark", rank, "file")))


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
