"""The tables: one module for each kind of evidence, one spec for each table.

A new table: its spec into a module here, its name into `TABLES`, and `python -m tools.docs`.
"""

from __future__ import annotations

from whichrank.tables.cluster import NODES
from whichrank.tables.collection import NOTE
from whichrank.tables.flight_recorder import DUMP, FLIGHT_RECORD, LOOKUPS, PG_STATUS, RANKS, SIGNATURE, STACK
from whichrank.tables.nccl import COLL_PERF, PROXY_OPS, RAS_STATUS
from whichrank.tables.spec import Column, Table, arrow_row, arrow_schema, comments, view_ddl
from whichrank.tables.stacks import BACKTRACE, CPU, KMSG
from whichrank.tables.watchdog_log import WATCHDOG_LOG

TABLES: tuple[Table, ...] = (
    FLIGHT_RECORD,
    PG_STATUS,
    DUMP,
    STACK,
    SIGNATURE,
    RANKS,
    NODES,
    WATCHDOG_LOG,
    RAS_STATUS,
    BACKTRACE,
    CPU,
    KMSG,
    PROXY_OPS,
    COLL_PERF,
    NOTE,
)

__all__ = [
    "BACKTRACE",
    "COLL_PERF",
    "CPU",
    "DUMP",
    "FLIGHT_RECORD",
    "KMSG",
    "LOOKUPS",
    "NODES",
    "NOTE",
    "PG_STATUS",
    "PROXY_OPS",
    "RANKS",
    "RAS_STATUS",
    "SIGNATURE",
    "STACK",
    "TABLES",
    "WATCHDOG_LOG",
    "Column",
    "Table",
    "arrow_row",
    "arrow_schema",
    "by_name",
    "comments",
    "view_ddl",
]


def by_name(name: str) -> Table | None:
    """The table of that name, with or without its schema (`torch_nccl_stack`, `python.torch_nccl_stack`)."""
    bare = name.removeprefix("global.")
    return next((t for t in TABLES if bare in (t.name, t.full_name)), None)
