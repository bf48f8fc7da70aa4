"""DDL from the specs: schemas, tables and views of the stored columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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


def shard_table(table: Table, name: str, *, with_file: bool = False) -> str:
    """A table of the stored columns. with_file: and of the shard each row came from."""
    columns = [f"{c.name} {c.type}" for c in table.stored] + ["file_id INTEGER"] * with_file
    return f"CREATE TABLE {name} ({', '.join(columns)})"


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


def parquet_files(paths: Sequence[Path]) -> list[str]:
    """The relation over these shards, each by its name, or none."""
    names = ", ".join(quote(re.sub(r"([*?\[])", r"[\1]", str(path))) for path in paths)
    return [f"read_parquet([{names}], union_by_name = true, hive_partitioning = false)"] if paths else []


def compacted_table(table: Table, database: str, stale: Sequence[int]) -> str:
    """The relation over a compacted table, without the rows of shards that have changed since."""
    name = f"{database}.shard.{table.name}"
    if not stale or table.key:
        return name
    return f"(FROM {name} WHERE file_id NOT IN ({', '.join(map(str, stale))}))"


def copies(table: Table, database: str, old: str | None, files: Sequence[Path], store: Path) -> Iterator[str]:
    """Fill `<database>.shard.<table>` from the relation `old` and from shards; of a lookup each key once."""
    target, columns = f"{database}.shard.{table.name}", ", ".join(c.name for c in table.stored)
    if old:  # an older version had fewer columns
        typed = ", ".join(f"NULL::{c.type} AS {c.name}" for c in table.stored)
        file_id = "" if table.key else ", file_id"
        whole = f"(SELECT {typed} WHERE false UNION ALL BY NAME FROM {old})"
        yield f"INSERT INTO {target} BY NAME SELECT {columns}{file_id} FROM {whole}"
    if not files:
        return
    if table.key:
        new = f"FROM {_with_path(table, files)} WHERE {table.key} NOT IN (SELECT {table.key} FROM {target})"
        yield f"INSERT INTO {target} BY NAME SELECT {_one_per_key(table)} {new} GROUP BY {table.key}"
    else:
        joined = f"{_with_path(table, files)} AS r JOIN {_paths(database, table, store)} AS s USING (path_)"
        yield f"INSERT INTO {target} BY NAME SELECT {columns}, s.file_id FROM {joined}"


def differing(table: Table, database: str, files: Sequence[Path], store: Path) -> str:
    """How many of these shards are not in `<database>.shard.<table>` as they are: rows counted, contents hashed."""
    target = f"{database}.shard.{table.name}"
    if table.key:
        return f"SELECT count(*) FROM {_with_path(table, files)} ANTI JOIN {target} USING ({table.key})"
    row = f"count(*) AS n, bit_xor(hash(struct_pack({', '.join(f'{c.name} := {c.name}' for c in table.stored)}))) AS h"
    read = f"SELECT path_, {row} FROM {_with_path(table, files)} GROUP BY path_"
    kept = f"SELECT path_, {row} FROM {target} JOIN {_paths(database, table, store)} USING (file_id) GROUP BY path_"
    return f"SELECT count(*) FROM (({read}) EXCEPT ({kept}))"


def comments(relation: str, doc: str, columns: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """COMMENT ON a table and its columns, which have `doc` and perhaps `unit`."""
    yield f"COMMENT ON TABLE {relation} IS {quote(doc)}"
    for name, column in columns.items():
        unit = f" [{column['unit']}]" if column.get("unit") else ""
        yield f"COMMENT ON COLUMN {relation}.{name} IS {quote(column.get('doc', '') + unit)}"


def _with_path(table: Table, files: Sequence[Path]) -> str:
    """The stored columns of these shards, and the name of the file as `path_`."""
    typed = ", ".join(f"NULL::{c.type} AS {c.name}" for c in table.stored)
    read = parquet_files(files)[0].removesuffix(")") + ", filename = 'path_')"
    return f"(SELECT {typed}, NULL::VARCHAR AS path_ WHERE false UNION ALL BY NAME FROM {read})"


def _paths(database: str, table: Table, store: Path) -> str:
    names = f"SELECT file_id, {quote(str(store))} || '/' || path AS path_ FROM {database}.shard.source_file"
    return f"({names} WHERE table_name = {quote(table.name)})"


def _one_per_key(table: Table) -> str:
    def pick(column: Column) -> str:
        return column.name if table.key in (None, column.name) else f"any_value({column.name}) AS {column.name}"

    return ", ".join(pick(column) for column in table.stored)


def quote(text: str) -> str:
    """Text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"
