"""Rows that travel between databases: those of shards, and those of a fact that was made in parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from whichrank.store.ddl import parquet_files, shard_view
from whichrank.store.evidence import Evidence
from whichrank.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

Typed = tuple[list[tuple[str, str]], "pa.Table"]  # columns with their types, and rows: Arrow has no word for some types


def shard_rows(table: Table, paths: Sequence[Path]) -> pa.Table:
    """The stored columns of these shards; NULL where an older version did not write one."""
    with Evidence(lazy=True) as evidence:
        evidence.connection.execute(shard_view(table, parquet_files(paths)))
        return evidence.connection.table(f"global.shard.{table.name}").to_arrow_table()


def typed(relation: DuckDBPyRelation) -> Typed:
    """The rows of a relation, and the types of its columns."""
    columns = [(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)]
    return columns, relation.to_arrow_table()


def drop(connection: DuckDBPyConnection, fact: str) -> None:
    """Drop the table of a fact, if there is one."""
    connection.execute(f"DROP TABLE IF EXISTS {fact}")


def add(connection: DuckDBPyConnection, fact: str, part: Typed) -> None:
    """Add rows to the table of a fact, which the first of them make."""
    columns, rows = part
    named = ", ".join(f'"{name}" {kind}' for name, kind in columns)
    connection.execute(f"CREATE TABLE IF NOT EXISTS {fact} ({named})")
    connection.from_arrow(rows).insert_into(fact)
