"""Strangers' SQL: what a statement mentions is made ready, then the connection is locked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from whichrank.engine.manifest import Pack
from whichrank.engine.parameter import Value
from whichrank.engine.query import KINDS, Query
from whichrank.engine.runner import Runner
from whichrank.errors import UsageError
from whichrank.store.evidence import Evidence
from whichrank.store.guard import Guard, Limits
from whichrank.tables import TABLES

_WORD = re.compile(r"[A-Za-z_]\w*")


def guard_for(
    evidence: Evidence, pack: Pack, sql: str | None, limits: Limits, parameters: Mapping[str, Any] | None = None
) -> Guard:
    """A guard over what is named in `sql`: tables, `facts.*`, `checks.*`, `statements.*`; over everything for None.

    parameters: values for the facts and statements that declare them; defaults elsewhere. Raises UsageError for a
    parameter that nothing named there has. Nothing can be read from shards afterwards.
    """
    words = None if sql is None else set(_WORD.findall(sql.lower()))

    def named(*names: str) -> bool:
        return words is None or words.issuperset(names)

    evidence.show()
    wanted = [id for id in pack.library.ids() if named(*id.split("."))]
    made = [*pack.library.facts_for(wanted), *(pack.library.get(id) for id in wanted)]
    values = _values(made, parameters or {})
    Runner(pack, evidence).make_tables(wanted, values)
    evidence.load(table.name for table in TABLES if named(table.shown_as or table.name))
    evidence.check_nothing_went()
    return Guard(evidence, limits)


def _values(queries: Iterable[Query], given: Mapping[str, Any]) -> dict[str, Value]:
    declared = {name: parameter for query in queries for name, parameter in query.params.items()}
    for name in given:
        if name not in declared:
            known = ", ".join(f"{p.name} ({p.type}, default {p.default})" for p in declared.values())
            raise UsageError(
                f"nothing in the statement has a parameter {name}",
                looked_for=known or f"a name like {KINDS[-1]}.collective_alignment in the statement",
                next="whichrank tables",
            )
    return {name: declared[name].parse(value) for name, value in given.items()}
