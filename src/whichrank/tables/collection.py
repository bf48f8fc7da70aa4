"""What a collector could not read, or read with a doubt."""

from __future__ import annotations

from whichrank.tables.spec import ORIGIN, PLACE, Column, Table

NOTE = Table(
    "python",
    "collection_note",
    "one thing that could not be read, or was read with a doubt",
    "Nothing is lost silently: what cannot be parsed is kept, counted and named here.",
    (
        *ORIGIN,
        *PLACE,
        Column("source", "VARCHAR", "File, URL or process the note is about."),
        Column("kind", "VARCHAR", "Short fixed word: `truncated`, `foreign`, `refused_global`, `duplicate_rank` …"),
        Column("severity", "VARCHAR", "`info`: nothing is missing; `warning`: something may be; `error`: it is."),
        Column("message", "VARCHAR", "One sentence for a person."),
        Column("count", "BIGINT", "How many items the note stands for."),
    ),
)
