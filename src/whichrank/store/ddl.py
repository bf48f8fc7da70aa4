"""DDL from the specs: schemas, tables and views of the stored columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from whichrank.tables import TABLES, Column, Table

COMPACTED = "global.duckdb"  # file of a compacted store; it attaches as `global` by itself


def schemas(*, compressed: bool = False) -> list[str]:
    """The catalog `global` and every schema, in both. compressed: a CHECKPOINT of `global` packs what is in memory."""
    return [
        f"ATTACH IF NOT EXISTS ':memory:' AS global{' (COMPRESS)' if compressed else ''}",
        *(
            f"CREATE SCHEMA IF NOT EXISTS {s}"
            for s in ("global.shard", "global.dumps", "facts", "checks", "statements")
        ),
        *(f"CREATE SCHEMA IF NOT EXISTS {at}{s}" for s in sorted({t.schema for t in TABLES}) for at in ("global.", "")),
    ]


def shard_table(table: Table, name: str) -> str:
    """A table of the stored columns."""
    return f"CREATE TABLE {name} ({', '.join(f'{c.name} {c.type}' for c in table.stored)})"


def shard_view(table: Table, sources: Sequence[str]) -> str:
    """`global.shard.<table>`: exactly the stored columns, whatever the files have; one row per key of a lookup."""
    typed = ", ".join(f"NULL::{c.type} AS {c.name}" for c in table.stored)
    union = "".join(f"\n  UNION ALL BY NAME FROM {source}" for source in sources)
    rows = f"(SELECT {typed} WHERE false{union})"
    return f"CREATE OR REPLACE VIEW global.shard.{table.name} AS\nSELECT {_one_per_key(table)} FROM {rows}" + (
        f"\nGROUP BY {table.key}" if table.key else ""
    )


def parquet(table: Table, stores: Sequence[Path]) -> list[str]:
    """The relation over the shards of these stores, or none where there are no stores."""
    if not stores:
        return []  # read_parquet does not accept that nothing matches
    folders = [re.sub(r"([*?\[])", r"[\1]", str(store)) for store in stores]  # a name with a star in it is a name
    globs = ", ".join(quote(f"{folder}/{table.name}/*/*.parquet") for folder in folders)
    # The rank in the folder's name is a column of the file as well; older files may lack newer columns.
    return [f"read_parquet([{globs}], union_by_name = true, hive_partitioning = false)"]


def _one_per_key(table: Table) -> str:
    def pick(column: Column) -> str:
        return column.name if table.key in (None, column.name) else f"any_value({column.name}) AS {column.name}"

    return ", ".join(pick(column) for column in table.stored)


def quote(text: str) -> str:
    """Text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"
