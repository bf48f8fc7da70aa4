"""Many shards -> one file. Written beside its place, compared with the shards row by row, then renamed.

Shards are removed only when the file in its place holds them, compared and unchanged, and has been there for a while:
whoever listed the folder before has read them by then. Raw answers of running processes keep their shards.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from whichrank.errors import WhichrankError
from whichrank.store import live
from whichrank.store.compacted import FACTS, SOURCE_FILE, Beside, Shard, listed
from whichrank.store.ddl import COMPACTED, compacted_table, copies, differing, quote, shard_table
from whichrank.store.evidence import Evidence
from whichrank.store.shards import not_written
from whichrank.tables import LOOKUPS, TABLES, view_ddl

STORAGE_VERSION = "v1.5.0"  # clients of 2025 and later open it
GRACE_S = 600.0
_LOCK = ".compaction.lock"


class NotCompacted(WhichrankError):
    """Another compaction is at work, or what was written differs from the shards. Nothing was changed."""


@contextmanager
def alone(store: Path) -> Iterator[None]:
    """One compaction of a store at a time; it also clears away what a killed one left. Raises NotCompacted."""
    try:
        with (store / _LOCK).open("w") as lock:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise NotCompacted(f"{store} is being compacted already", next="wait for it, then try again") from None
            for left in store.glob(f".{COMPACTED}.*"):
                left.unlink(missing_ok=True)
            yield
    except OSError as error:
        raise not_written(store, error) from None


@contextmanager
def new_file(evidence: Evidence, store: Path) -> Iterator[str]:
    """A new database, attached under the name that is given, to take the place of STORE/global.duckdb at the end."""
    temporary = store / f".{COMPACTED}.{uuid.uuid4().hex}.tmp"
    run = evidence.connection.execute
    run(f"ATTACH {quote(str(temporary))} AS new (STORAGE_VERSION '{STORAGE_VERSION}')")
    try:
        try:
            yield "new"
        finally:
            run("DETACH new")  # with a checkpoint: there is no second file beside it
        handle = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        temporary.replace(store / COMPACTED)
    finally:
        for left in store.glob(f"{temporary.name}*"):
            left.unlink(missing_ok=True)


def write(evidence: Evidence, store: Path, database: str, now: Beside) -> list[Shard]:
    """Fill the new file with the rows of the old one and of the fresh shards; returns shards that cannot be read.

    Raises NotCompacted where what was written differs from the shards.
    """
    run = evidence.connection.execute
    readable = [shard for shard in now.fresh if _has_footer(store / shard.path)]
    first = max(now.known, default=-1) + 1
    stale = set(now.stale)
    kept = {file_id: shard for file_id, shard in now.known.items() if file_id not in stale}
    sources = kept | dict(enumerate(readable, first))
    for schema in ("shard", "facts", *sorted({table.schema for table in TABLES})):
        run(f"CREATE SCHEMA {database}.{schema}")
    _source_files(evidence, database, sources)
    for table in TABLES:
        files = [store / shard.path for shard in readable if shard.table == table.name]
        old = evidence.compacted_with(table, store)
        run(shard_table(table, f"{database}.shard.{table.name}", with_file=not table.key))
        for statement in copies(table, database, compacted_table(table, old, now.stale) if old else None, files, store):
            run(statement)
        if files and run(differing(table, database, files, store)).fetchall() != [(0,)]:
            raise NotCompacted(f"{table.name}: what was written differs from the shards", next="try again")
    evidence.read_only_from(database)
    views(evidence, database)
    written = set(readable)  # of tens of thousands
    return [shard for shard in now.fresh if shard not in written]


def views(evidence: Evidence, database: str) -> None:
    """The public view of every table, which in this file shows the rows of every host."""
    lookups = {via: f"global.shard.{table.name}" for via, table in LOOKUPS.items()}
    for table in TABLES:
        # The body names `global`, which is what the file is called when it is attached.
        for statement in view_ddl(table, f"global.{table.full_name}", f"global.shard.{table.name}", lookups):
            here = statement.replace(f" global.{table.full_name}", f" {database}.{table.full_name}", 1)
            evidence.connection.execute(here)


def remove_shards(store: Path, known: dict[int, Shard], grace_s: float = GRACE_S) -> int:
    """Remove the shards the file has held, unchanged, for longer than grace_s; returns how many. Raises OSError."""
    if time.time() - (store / COMPACTED).stat().st_mtime < grace_s:
        return 0
    held = set(known.values())
    removed = 0
    for shard in listed(store):
        snapshot_id = Path(shard.path).stem
        if shard in held and not any((store / live.ANSWERS / i).is_dir() for i in _ids(snapshot_id)):
            with suppress(FileNotFoundError):
                (store / shard.path).unlink()
                removed += 1
    return removed


def _ids(stem: str) -> tuple[str, str]:
    """Notes have a hash behind their snapshot's id."""
    return stem, stem.rpartition("-")[0] or stem


def _source_files(evidence: Evidence, database: str, sources: dict[int, Shard]) -> None:
    import pyarrow as pa

    evidence.connection.execute(
        f"CREATE TABLE {database}.shard.{SOURCE_FILE} "
        "(file_id INTEGER, table_name VARCHAR, path VARCHAR, bytes BIGINT, modified_ns BIGINT)"
    )
    if sources:
        found = list(sources.values())
        rows = {
            "file_id": pa.array(list(sources), pa.int32()),
            "table_name": [s.table for s in found],
            "path": [s.path for s in found],
            "bytes": [s.bytes for s in found],
            "modified_ns": [s.modified_ns for s in found],
        }
        evidence.connection.from_arrow(pa.table(rows)).insert_into(f"{database}.shard.{SOURCE_FILE}")


def facts_made(evidence: Evidence, database: str, made: dict[str, str]) -> None:
    """Write down which facts the file holds: id -> recipe."""
    import pyarrow as pa

    evidence.connection.execute(f"CREATE TABLE {database}.shard.{FACTS} (id VARCHAR, recipe VARCHAR)")
    rows = pa.table({"id": pa.array(list(made), pa.string()), "recipe": pa.array(list(made.values()), pa.string())})
    evidence.connection.from_arrow(rows).insert_into(f"{database}.shard.{FACTS}")


def _has_footer(path: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.read_metadata(path)
    except (pa.ArrowException, OSError):
        return False
    return True
