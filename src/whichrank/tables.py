"""The tables: one spec each, from which the row schema, the DDL, the Parquet schema and the docs page follow.

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


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `grain` says what one row is; `key` is set on lookup tables only (content hash, equal everywhere)."""

    schema: str
    name: str
    grain: str
    doc: str
    columns: tuple[Column, ...]
    key: str | None = None

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns of a shard: everything that is not looked up."""
        return tuple(c for c in self.columns if c.via is None)

    @property
    def lookups(self) -> tuple[str, ...]:
        """The lookups the public view joins, in column order."""
        return tuple(dict.fromkeys(c.via for c in self.columns if c.via))


# ---- who and when: the columns every table of evidence starts with ------------------------------------------------
_ORIGIN = (
    Column("snapshot_id", "VARCHAR", "The collection this row came with; rows of one request share it over all ranks."),
    Column("rank", "BIGINT", "Global rank of the process."),
)
_PLACE = (
    Column("host", "VARCHAR", "Host the process ran on. A dump file does not say it."),
    Column("job_id", "VARCHAR", "Job (SLURM, torchelastic, Kubernetes) and attempt. A dump file does not say it."),
)

SIGNATURE = Table(
    "python",
    "torch_nccl_signature",
    "one distinct (operation, sizes, dtypes)",
    "What a call looks like, stored once: millions of entries share a few hundred signatures.",
    (
        Column("signature_id", "BIGINT", "Hash of the content; equal signatures have equal ids in every process."),
        Column("profiling_name", "VARCHAR", "`<library>:<operation>`; p2p with group-local ranks: `nccl:send 0->3`."),
        Column("input_sizes", "BIGINT[][]", "Shape of each input tensor."),
        Column("input_dtypes", "VARCHAR[]", "dtype of each input tensor, as torch prints it (`BFloat16`)."),
        Column("output_sizes", "BIGINT[][]", "Shape of each output tensor."),
        Column("output_dtypes", "VARCHAR[]", "dtype of each output tensor."),
    ),
    key="signature_id",
)

STACK = Table(
    "python",
    "torch_nccl_stack",
    "one distinct call stack",
    "Call stacks, stored once and named by content.",
    (
        Column("stack_id", "BIGINT", "Hash of the frames; equal stacks have equal ids in every process."),
        Column("frames", f"{FRAME}[]", "Frames, innermost first."),
        Column("top_frame", "VARCHAR", "Innermost frame as `function (file:line)`."),
        Column("user_frame", "VARCHAR", "Innermost frame outside torch, as `file.py:line in function`."),
        Column("call_site_id", "BIGINT", "Hash of all frames outside torch; NULL where there is none."),
    ),
    key="stack_id",
)

RANKS = Table(
    "python",
    "torch_nccl_ranks",
    "one distinct list of ranks",
    "Members of process groups, stored once: every dump of a 10,000-rank job repeats the whole list.",
    (
        Column("ranks_id", "BIGINT", "Hash of the list; equal lists have equal ids in every process."),
        Column("ranks", "BIGINT[]", "Global ranks in group order: position = group-local rank."),
    ),
    key="ranks_id",
)

FLIGHT_RECORD = Table(
    "python",
    "torch_nccl_flight_record",
    "one Flight Recorder entry of one snapshot",
    "PyTorch's Flight Recorder: the last collectives and p2p calls of a process, as its dump shows them.",
    (
        *_ORIGIN,
        Column("world_size", "BIGINT", "Size of the job. A dump file does not say it."),
        *_PLACE,
        Column("backend", "VARCHAR", "Library before the operation's name (`nccl`, `gloo`).", via="signature"),
        Column("source", "VARCHAR", "`file` (a dump left behind) or `process` (a running job was asked)."),
        Column("only_active", "BOOLEAN", "Only unfinished entries were asked for; dump files do not say it."),
        Column("snapshot_ns", "BIGINT", "When the dump was taken, by the clock of that host.", "ns since epoch"),
        Column("entry_index", "BIGINT", "Position in the dump, oldest first; counts from 0."),
        Column("record_id", "BIGINT", "Counter over all groups of the process. Not comparable between ranks."),
        Column("pg_id", "BIGINT", "Number of the group inside this process. Not comparable between ranks."),
        Column("pg_name", "VARCHAR", "Name of the group; comparable, but one name may mean several sets of ranks."),
        Column("pg_desc", "VARCHAR", "What the user called the group."),
        Column("collective_seq_id", "BIGINT", "Counts a group's collectives; p2p entries carry the current value."),
        Column("p2p_seq_id", "BIGINT", "Counts this rank's p2p launches in the group. Not comparable between ranks."),
        Column("op_id", "BIGINT", "Counts logical operations of the group, p2p too."),
        Column("profiling_name", "VARCHAR", SIGNATURE.columns[1].doc, via="signature"),
        Column("state", "VARCHAR", "`scheduled`, `started` or `completed`; gloo leaves it at scheduled for ever."),
        *(Column(c.name, c.type, c.doc, via="signature") for c in SIGNATURE.columns[2:]),
        Column("time_created_ns", "BIGINT", "When the host enqueued it, by the clock of that host.", "ns since epoch"),
        Column(
            "time_discovered_started_ns", "BIGINT", "When the watchdog, which polls, saw the start.", "ns since epoch"
        ),
        Column(
            "time_discovered_completed_ns", "BIGINT", "When the watchdog, which polls, saw the end.", "ns since epoch"
        ),
        Column("duration_ns", "BIGINT", "Time on the device; only with timing on. PyTorch's duration_ms.", "ns"),
        Column("timeout_ms", "BIGINT", "Timeout of the group.", "ms"),
        Column("retired", "BOOLEAN", "No longer watched. Retired and not completed = timed out (NCCL) or done (gloo)."),
        Column("is_p2p", "BOOLEAN", "Send or receive. The closing entry of a p2p batch says false."),
        Column("thread_id", "VARCHAR", "Issuing CPU thread."),
        Column("thread_name", "VARCHAR", "Its name (`pt_autograd_0`)."),
        Column("fr_version", "VARCHAR", "Version of the dump; `2.2-list` for the unversioned list of torch 2.2."),
        Column("signature_id", "BIGINT", "See torch_nccl_signature."),
        Column("stack_id", "BIGINT", "See torch_nccl_stack; NULL where the dump has no frames."),
        Column("frames", f"{FRAME}[]", STACK.columns[1].doc, via="stack"),
        Column("top_frame", "VARCHAR", STACK.columns[2].doc, via="stack"),
    ),
)

PG_STATUS = Table(
    "python",
    "torch_nccl_pg_status",
    "one process group as one process sees it",
    "What a process says of its groups: counters by pg_id, members by name; one side may be missing.",
    (
        *_ORIGIN,
        Column("world_size", "BIGINT", "Size of the job. A dump file does not say it."),
        *_PLACE,
        Column("snapshot_ns", "BIGINT", "When the dump was taken, by the clock of that host.", "ns since epoch"),
        Column("pg_id", "BIGINT", "Number of the group inside this process; NULL where no entry ties the name to one."),
        Column("pg_name", "VARCHAR", "Name of the group; NULL where no entry ties the pg_id to one."),
        Column("pg_desc", "VARCHAR", "What the user called the group."),
        Column("ranks", "BIGINT[]", "Members in group order; NULL where the dump does not say.", via="ranks"),
        Column("ranks_id", "BIGINT", "See torch_nccl_ranks."),
        Column("ranks_recorded", "BOOLEAN", "True where the dump itself holds the members."),
        Column("last_enqueued_collective", "BIGINT", "Newest number handed out; collectives and p2p share the field."),
        Column("last_started_collective", "BIGINT", "Newest number seen to start; NULL unless timing is on."),
        Column("last_completed_collective", "BIGINT", "Newest number seen to finish; NULL where none has."),
    ),
)

DUMP = Table(
    "python",
    "torch_nccl_dump",
    "one dump of one process",
    "Which dumps were read, and what their heads say: a rank with an empty dump was seen, a rank without one was not.",
    (
        *_ORIGIN,
        Column("world_size", "BIGINT", "Size of the job. A dump file does not say it."),
        *_PLACE,
        Column("source", "VARCHAR", "`file` or `process`."),
        Column("path", "VARCHAR", "File the dump was read from; NULL for a process."),
        Column("fr_version", "VARCHAR", "Version string; `2.2-list` for the unversioned list of torch 2.2."),
        Column("comm_lib_version", "VARCHAR", "NCCL's version; NULL where the dump does not say."),
        Column("only_active", "BOOLEAN", "Only unfinished entries were asked for; dump files do not say it."),
        Column("snapshot_ns", "BIGINT", "When the dump was taken, by the clock of that host.", "ns since epoch"),
        Column("entries", "BIGINT", "Entries in the dump.", "entries"),
        Column("bytes", "BIGINT", "Size of the dump.", "bytes"),
    ),
)

NOTE = Table(
    "python",
    "collection_note",
    "one thing that could not be read, or was read with a doubt",
    "Nothing is lost silently: what cannot be parsed is kept, counted and named here.",
    (
        *_ORIGIN,
        *_PLACE,
        Column("source", "VARCHAR", "File, URL or process the note is about."),
        Column("kind", "VARCHAR", "Short fixed word: `truncated`, `foreign`, `refused_global`, `duplicate_rank` …"),
        Column("severity", "VARCHAR", "`info`: nothing is missing; `warning`: something may be; `error`: it is."),
        Column("message", "VARCHAR", "One sentence for a person."),
        Column("count", "BIGINT", "How many items the note stands for."),
    ),
)

TABLES: tuple[Table, ...] = (FLIGHT_RECORD, PG_STATUS, DUMP, STACK, SIGNATURE, RANKS, NOTE)
LOOKUPS = {"signature": SIGNATURE, "stack": STACK, "ranks": RANKS}


def by_name(name: str) -> Table | None:
    """The table of that name, with or without its schema (`torch_nccl_stack`, `python.torch_nccl_stack`)."""
    bare = name.removeprefix("global.")
    return next((t for t in TABLES if bare in (t.name, t.full_name)), None)


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow (and Parquet) schema of a shard: the stored columns, with unit and doc as field metadata."""
    import pyarrow as pa

    def field(column: Column) -> pa.Field:
        meta = {"doc": column.doc} | ({"unit": column.unit} if column.unit else {})
        return pa.field(column.name, _arrow_type(column.type), metadata=meta)

    return pa.schema([field(c) for c in table.stored], metadata={"table": table.full_name})


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
