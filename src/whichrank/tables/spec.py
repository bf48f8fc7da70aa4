"""What a table is: one spec, from which the row schema, the DDL, the Parquet schema and the docs page follow.

A column is *stored* (it stands in the shard) or *looked up* (`via`): the shard then holds only `<via>_id`, and the
public view fetches the column from the lookup table. Stacks, signatures and rank lists repeat in every dump, often a
million times; they are stored once.

`python.<table>` is what this host collected, `global.python.<table>` the same rows of every rank, with `_host` and
`_rank` in front.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

FRAME = "STRUCT(name VARCHAR, filename VARCHAR, line BIGINT)"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `type` is DuckDB's name; NULL always means unknown; `via` names the lookup that holds it."""

    name: str
    type: str
    doc: str
    unit: str | None = None
    via: str | None = None


@dataclass(frozen=True, slots=True, eq=False)  # a table is itself: it is looked up for every dump
class Table:
    """One table. `grain` says what one row is; `key` is set on lookup tables only (content hash, equal everywhere).

    name names its shards as well, so it is unique over all schemas; `shown_as` is its name in its schema where two
    schemas have a table of one name (`cpu.utilization`, `gpu.utilization`).
    """

    schema: str
    name: str
    grain: str
    doc: str
    columns: tuple[Column, ...]
    key: str | None = None
    shown_as: str | None = None

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.shown_as or self.name}"

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns of a shard: everything that is not looked up."""
        return tuple(c for c in self.columns if c.via is None)

    @property
    def lookups(self) -> tuple[str, ...]:
        """The lookups the public view joins, in column order."""
        return tuple(dict.fromkeys(c.via for c in self.columns if c.via))


# ---- who and when: the columns every table of evidence starts with ------------------------------------------------
ORIGIN = (
    Column("snapshot_id", "VARCHAR", "The collection this row came with; rows of one request share it over all ranks."),
    Column("rank", "BIGINT", "Global rank of the process."),
)
PLACE = (
    Column("host", "VARCHAR", "Host the process ran on. A dump file does not say it."),
    Column("job_id", "VARCHAR", "Job (SLURM, torchelastic, Kubernetes) and attempt. A dump file does not say it."),
)


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow (and Parquet) schema of a shard: the stored columns, with unit and doc as field metadata."""
    import pyarrow as pa

    def field(column: Column) -> pa.Field:
        meta = {"doc": column.doc} | ({"unit": column.unit} if column.unit else {})
        return pa.field(column.name, _arrow_type(column.type), metadata=meta)

    return pa.schema([field(c) for c in table.stored], metadata={"table": table.full_name})


@cache
def arrow_row(table: Table) -> pa.StructType:
    """The stored columns as one Arrow type."""
    import pyarrow as pa

    return pa.struct(list(arrow_schema(table)))


def _arrow_type(duck: str) -> pa.DataType:
    import pyarrow as pa

    if duck.endswith("[]"):
        return pa.list_(_arrow_type(duck[:-2]))
    if duck == FRAME:
        return pa.struct([("name", pa.string()), ("filename", pa.string()), ("line", pa.int64())])
    return {
        "BIGINT": pa.int64(),
        "INTEGER": pa.int32(),
        "DOUBLE": pa.float64(),
        "BOOLEAN": pa.bool_(),
        "VARCHAR": pa.string(),
    }[duck]


def view_ddl(table: Table, view: str, source: str, lookups: dict[str, str]) -> Iterator[str]:
    """DDL of the public view of `table` over `source` (a relation of stored columns), then its comments.

    view:    full name of the view. source, lookups: SQL of the relations; `lookups` maps lookup name to relation.
    """
    columns = ",\n  ".join(_view_column(c) for c in table.columns)
    joins = "".join(f"\nLEFT JOIN {lookups[via]} AS {via} USING ({via}_id)" for via in table.lookups)
    from_all = view.startswith("global.") and not table.key
    prefix = '\n  stored.host AS "_host", stored.rank AS "_rank",' if from_all else ""
    yield f"CREATE OR REPLACE VIEW {view} AS SELECT{prefix}\n  {columns}\nFROM {source} AS stored{joins}"
    yield from comments(table, view)


def _view_column(column: Column) -> str:
    if column.via is None:
        return f"stored.{column.name}"
    if column.name == "backend":
        return "regexp_extract(signature.profiling_name, '^(.*):[^:]*$', 1) AS backend"
    return f"{column.via}.{column.name}"


def comments(table: Table, view: str) -> Iterator[str]:
    """COMMENT ON statements for a view of `table`: its doc, and unit and doc of each column."""
    yield f"COMMENT ON VIEW {view} IS {_quote(table.doc + ' One row: ' + table.grain + '.')}"
    for column in table.columns:
        unit = f" [{column.unit}]" if column.unit else ""
        yield f"COMMENT ON COLUMN {view}.{column.name} IS {_quote(column.doc + unit)}"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
