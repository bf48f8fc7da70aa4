"""The compacted file of a store, STORE/global.duckdb: which shards are in it, and which lie beside it.

    shard.<table>        the stored columns, and `file_id`, the shard a row came from (lookups have none)
    shard.source_file    one row per shard that is in the file: its path, size and time when it was read
    shard.fact           one row per fact that was made of all this: its id, and a hash of its statement

A reader attaches the file first and lists the folder afterwards: a shard that is in the file as it lies in the folder
is read from the file, any other from the folder. So nothing is read twice, whatever is compacted meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whichrank.store.shards import shards

if TYPE_CHECKING:
    import duckdb

SOURCE_FILE = "source_file"
FACTS = "fact"


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard as it was when it was looked at. path: relative to the store."""

    table: str
    path: str
    bytes: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Beside:
    """A store with a compacted file. fresh: shards that are not in it; stale: what it holds of shards that changed."""

    known: dict[int, Shard]
    fresh: list[Shard]
    stale: list[int]


def listed(store: Path) -> Iterator[Shard]:
    """The shards of a store with size and time; one that goes away meanwhile is left out."""
    for table, paths in shards(store).items():
        for path in paths:
            with suppress(FileNotFoundError):
                stat = path.stat()
                yield Shard(table, path.relative_to(store).as_posix(), stat.st_size, stat.st_mtime_ns)


def known_to(connection: duckdb.DuckDBPyConnection, database: str) -> dict[int, Shard] | None:
    """What the attached file `database` holds: file_id -> shard. None where it does not say (made by hand)."""
    tables = connection.table_function("duckdb_tables").filter(
        f"database_name = '{database}' AND schema_name = 'shard' AND table_name = '{SOURCE_FILE}'"
    )
    if not tables.count("*").fetchall()[0][0]:
        return None
    rows = connection.table(f"{database}.shard.{SOURCE_FILE}")
    found = rows.project("file_id, table_name, path, bytes, modified_ns").fetchall()
    return {row[0]: Shard(*row[1:]) for row in found}


def compare(known: dict[int, Shard], now: Iterable[Shard]) -> Beside:
    """Compare what a file holds with what lies in the folder."""
    by_path = {shard.path: file_id for file_id, shard in known.items()}
    fresh, stale = [], []
    for shard in now:
        file_id = by_path.get(shard.path)
        if file_id is None:
            fresh.append(shard)
        elif known[file_id] != shard:
            fresh.append(shard)
            stale.append(file_id)
    return Beside(known, fresh, stale)
