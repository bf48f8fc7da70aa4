"""What a collector hands over: rows of several tables from one process at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whichrank.tables import NOTE, Table, arrow_row, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class Batch:
    """Rows of one process at one moment: table name (`torch_nccl_flight_record`) -> Arrow table of its stored columns.

    rank is None where the rows belong to no single rank (a note about a whole folder).
    """

    snapshot_id: str
    rank: int | None
    tables: dict[str, pa.Table] = field(default_factory=dict)


def rows_to_arrow(table: Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as dicts -> Arrow table of the stored columns; a missing key is NULL. For small tables only."""
    import pyarrow as pa

    # One struct array instead of an array per column: a small table takes half the time that way.
    return pa.Table.from_arrays(pa.array(rows, arrow_row(table)).flatten(), schema=arrow_schema(table))


def note(
    kind: str,
    message: str,
    *,
    severity: str = "warning",
    source: str | None = None,
    rank: int | None = None,
    count: int = 1,
) -> dict[str, Any]:
    """A row of python.collection_note; snapshot_id is filled in where the batch is made."""
    return {"kind": kind, "message": message, "severity": severity, "source": source, "rank": rank, "count": count}


def notes_batch(snapshot_id: str, rank: int | None, notes: Sequence[Mapping[str, Any]]) -> Batch:
    """A batch that holds only notes."""
    rows = [{"snapshot_id": snapshot_id, **n} for n in notes]
    return Batch(snapshot_id, rank, {NOTE.name: rows_to_arrow(NOTE, rows)})
