"""What runs on the nodes of a Ray cluster: plain functions of their arguments, so that Ray may do any of them again."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from whichrank import __version__
from whichrank.batch import Batch
from whichrank.store.apart import Typed, add, shard_rows, typed
from whichrank.store.evidence import Evidence
from whichrank.tables import FLIGHT_RECORD, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Shared:
    """What every part of a fact needs. rows: table -> stored rows; facts: the facts it reads that were made for all."""

    sql: str
    values: dict[str, Any]
    host: str
    rows: Mapping[str, pa.Table]
    facts: Mapping[str, Typed]


def version() -> str:
    """The version of whichrank here."""
    return __version__


def call(target: str, task: Any) -> list[Batch]:
    """Do a task of the pool. target: `module:function`."""
    module, _, name = target.partition(":")
    return cast(list[Batch], getattr(import_module(module), name)(task))


def convert(target: str, task: dict[str, Any], folder: str, keep: bool) -> tuple[bytes | None, pa.Table | None]:
    """Do a task of the pool in a folder -> packed batches, and apart from them, if told to keep them, the entries.

    Both are None where a file of the task is not to be seen from here.
    """
    import pyarrow as pa

    from whichrank.collectors.flight_recorder_pool import pack

    if not all(Path(folder, path).exists() for _, paths in task["ranks"] for path in paths):
        return None, None
    with chdir(folder):
        batches = call(target, task)
    gc.collect()  # this process goes on to do other work
    if not keep:
        return pack(batches), None
    entries = [rows for batch in batches if (rows := batch.tables.pop(FLIGHT_RECORD.name, None)) is not None]
    schema = arrow_schema(FLIGHT_RECORD)
    return pack(batches), pa.concat_tables(entries) if entries else schema.empty_table()


def read_shards(paths: Sequence[str]) -> pa.Table:
    """The entries in these shards; a column that an older version did not write is NULL."""
    return shard_rows(FLIGHT_RECORD, [Path(path) for path in paths])


def count_rows(table: pa.Table | None) -> int:
    """Rows of a table; 0 for none."""
    return table.num_rows if table is not None else 0


def make_part(shared: Shared, entries: pa.Table | None, names: Sequence[str], *made: Typed) -> Typed:
    """The rows of a fact for some ranks. names: of the facts that were made for these ranks alone: `made`."""
    rows = {**shared.rows, **({FLIGHT_RECORD.name: entries} if entries is not None else {})}
    with Evidence([Batch("", None, rows)], host=shared.host) as evidence:
        for name, fact in (*shared.facts.items(), *zip(names, made, strict=True)):
            add(evidence.connection, name, fact)
        return typed(evidence.connection.sql(shared.sql, params=shared.values))
