"""What can be queried, as data: tables from their specs, facts from their headers."""

from __future__ import annotations

from typing import Any

from whichrank.engine.query import Library
from whichrank.errors import UsageError
from whichrank.tables import TABLES, by_name


def relations(library: Library) -> list[dict[str, str]]:
    """All tables and facts: name, grain, doc."""
    facts = [library.get(id) for id in library.ids() if id.startswith("facts.")]
    return [
        *({"name": t.full_name, "grain": t.grain, "doc": t.doc} for t in TABLES),
        *({"name": q.id, "grain": q.grain, "doc": q.summary} for q in facts),
    ]


def describe(library: Library, name: str) -> dict[str, Any]:
    """One table or fact with its columns (name, type, unit, doc; the type of a fact's column is None).

    name: with or without schema. Raises UsageError when there is none of that name.
    """
    table = by_name(name)
    if table:
        columns = [{"name": c.name, "type": c.type, "unit": c.unit, "doc": c.doc} for c in table.columns]
        return {"name": table.full_name, "grain": table.grain, "doc": table.doc, "columns": columns}
    id = name if name.startswith("facts.") else f"facts.{name}"
    if id not in library.ids():
        near = [r["name"] for r in relations(library) if name.lower() in r["name"]]
        raise UsageError(
            f"there is no table {name}",
            looked_for=f"perhaps {', '.join(near)}" if near else "a table or fact of `whichrank tables`",
            next="whichrank tables",
        )
    query = library.get(id)
    columns = [
        {"name": column, "type": None, "unit": spec.get("unit"), "doc": spec.get("doc", "")}
        for column, spec in query.columns.items()
    ]
    return {"name": query.id, "grain": query.grain, "doc": query.summary, "columns": columns}
