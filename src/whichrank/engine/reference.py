"""What can be queried, as data: tables from their specs, facts, checks and statements from their headers."""

from __future__ import annotations

from typing import Any

from whichrank.engine.query import KINDS, Library
from whichrank.errors import UsageError
from whichrank.tables import TABLES, by_name


def relations(library: Library) -> list[dict[str, str]]:
    """Everything that a statement can name: name, grain, doc."""
    return [
        *({"name": t.full_name, "grain": t.grain, "doc": t.doc} for t in TABLES),
        *({"name": q.id, "grain": q.grain, "doc": q.summary} for q in map(library.get, library.ids())),
    ]


def describe(library: Library, name: str) -> dict[str, Any]:
    """One of them with its parameters (name, type, default, doc) and columns (name, type, unit, doc).

    name: with or without schema. The types of columns that a query makes are None. Raises UsageError when there is
    none of that name.
    """
    table = by_name(name)
    if table:
        columns = [{"name": c.name, "type": c.type, "unit": c.unit, "doc": c.doc} for c in table.columns]
        return {"name": table.full_name, "grain": table.grain, "doc": table.doc, "parameters": [], "columns": columns}
    id = next((id for id in (name, *(f"{kind}.{name}" for kind in KINDS)) if id in library.ids()), None)
    if id is None:
        near = [r["name"] for r in relations(library) if name.lower() in r["name"]]
        raise UsageError(
            f"there is no table {name}",
            looked_for=f"perhaps {', '.join(near)}" if near else "a name that `whichrank tables` prints",
            next="whichrank tables",
        )
    query = library.get(id)
    return {
        "name": query.id,
        "grain": query.grain,
        "doc": query.summary,
        "parameters": [
            {"name": p.name, "type": p.type, "default": p.default, "doc": p.doc} for p in query.params.values()
        ],
        "columns": [
            {"name": column, "type": None, "unit": spec.get("unit"), "doc": spec.get("doc", "")}
            for column, spec in query.columns.items()
        ],
    }
