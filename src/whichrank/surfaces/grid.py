"""Rows as text: an aligned table for people, JSON, JSON lines or CSV for machines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whichrank.surfaces.columns import columns as columns_of
from whichrank.surfaces.columns import padded

if TYPE_CHECKING:
    from whichrank.store.guard import Answer

_CELL = 60  # characters of a cell before it is cut


def grid(columns: Sequence[str], rows: Sequence[Sequence[Any]], cell: int = _CELL) -> str:
    """Columns side by side, two spaces between them, numbers to the right; ends with a newline."""
    texts = [[_cell(value, cell) for value in row] for row in rows]
    widths = [max(columns_of(line[i]) for line in [list(columns), *texts]) for i in range(len(columns))]
    right = [bool(rows) and all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(columns))]
    lines = [list(columns), ["-" * width for width in widths], *texts]
    return "".join(
        "  ".join(
            f"{text:>{w}}" if r else padded(text, w) for text, w, r in zip(line, widths, right, strict=True)
        ).rstrip()
        + "\n"
        for line in lines
    )


def answer_text(answer: Answer, form: str) -> str:
    """The answer of a guarded statement as table, json, jsonl or csv."""
    if form == "json":
        return _json(answer.as_dict(), 2) + "\n"
    if form == "jsonl":
        return "".join(_json(row) + "\n" for row in answer.as_dict()["rows"])
    if form == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows([_json(v) if isinstance(v, list | dict) else v for v in row] for row in answer.rows)
        return out.getvalue()
    count = f"({len(answer.rows)} row{'' if len(answer.rows) == 1 else 's'}{', cut' if answer.truncated else ''})\n"
    return grid(answer.columns, answer.rows) + count


def _cell(value: Any, width: int) -> str:
    if value is None:
        return "NULL"
    text = _json(value) if isinstance(value, list | dict) else str(value)
    text = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= width else text[: width - 1] + "…"


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, default=str, indent=indent)
