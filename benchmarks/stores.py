"""Stores: as shards and compacted, against DuckDB's own group-by over the same rows.

python -m benchmarks.stores STORE RANKS ENTRIES     writes a store
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import repeat
from pathlib import Path

import pyarrow as pa

from benchmarks import jobs
from benchmarks.measure import PYTHON, WHICHRANK, Measurement, took
from whichrank.batch import Batch
from whichrank.collectors.flight_recorder import Origin, to_batch
from whichrank.store.ddl import COMPACTED
from whichrank.store.shards import write
from whichrank.tables import FLIGHT_RECORD

# What aligning ranks comes down to, with nothing of ours: how far each group got, and who was there.
GROUP_BY = """
import sys, duckdb
print(duckdb.sql(f\"\"\"
    SELECT count(*) FROM (
      SELECT pg_id, pg_name, collective_seq_id, count(*), count(DISTINCT rank), min(state), max(time_created_ns)
      FROM {sys.argv[1]} GROUP BY ALL)\"\"\").fetchall())
"""
SNAPSHOT = "20261201T000000000Z-benchmark"
_TABLE = FLIGHT_RECORD.name
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
    bound = 2 if long else None  # a small one is all start-up
    yield Measurement(f"diagnose compacted store: {name} / group-by", command, table, bound, says=says), several


def make(store: Path, ranks: int, entries: int) -> Path:
    """A store of one snapshot, a shard of each table for each rank."""
    parts = range(0, ranks, _AT_ONCE)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(partial(_make_part, store, ranks), parts, repeat(entries)))
    return store


def _make_part(store: Path, ranks: int, first: int, entries: int) -> None:
    for rank in range(first, min(first + _AT_ONCE, ranks)):
        write(store, _batch(rank, ranks, entries))


def _batch(rank: int, ranks: int, entries: int) -> Batch:
    """The rows of one rank. Ranks of a kind entered the same calls, so the entries are converted once for each kind."""
    culprit = jobs.culprit_of(ranks)
    alike = culprit if rank == culprit else culprit ^ 1 if rank // jobs.TP == culprit // jobs.TP else 0
    origin = Origin(SNAPSHOT, rank, "file")
    some = jobs.dump(rank, ranks, 2 * jobs.PER_STEP, 10)["entries"]  # enough to tell what its groups are called
    batch = to_batch(jobs.payload(rank, ranks, some, list(jobs.issued(rank, ranks, entries))), origin)
    typical = _typical(alike, ranks, entries)
    rows = typical.tables[FLIGHT_RECORD.name]
    descriptions = pa.array([description for description, _ in jobs.groups_of(rank, ranks).values()])
    for name, column in (
        ("rank", pa.repeat(pa.scalar(rank, pa.int64()), rows.num_rows)),
        ("pg_desc", descriptions.take(rows["pg_id"].combine_chunks())),
    ):
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
    return Batch(SNAPSHOT, rank, batch.tables | {FLIGHT_RECORD.name: rows})


@cache
def _typical(rank: int, ranks: int, entries: int) -> Batch:
    return to_batch(jobs.dump(rank, ranks, entries, 10), Origin(SNAPSHOT, rank, "file"))


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
