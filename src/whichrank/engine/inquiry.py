"""Strangers' SQL: what a statement mentions is made ready, then the connection is locked."""

from __future__ import annotations

import re

from whichrank.engine.manifest import Pack
from whichrank.engine.runner import Runner
from whichrank.store.evidence import Evidence
from whichrank.store.guard import Guard, Limits
from whichrank.tables import TABLES

_WORD = re.compile(r"[A-Za-z_]\w*")


def guard_for(evidence: Evidence, pack: Pack, sql: str | None, limits: Limits) -> Guard:
    """A guard over the tables and facts whose names occur in `sql`; all of them for None (a server).

    Nothing can be read from shards afterwards. Facts are made for every rank, with default parameters.
    """
    words = None if sql is None else set(_WORD.findall(sql.lower()))
    facts = [id for id in pack.library.ids() if id.startswith("facts.")]
    wanted = [id for id in facts if words is None or ("facts" in words and id.partition(".")[2] in words)]
    Runner(pack, evidence).make_facts(wanted, {})
    evidence.load(table.name for table in TABLES if words is None or table.name in words)
    return Guard(evidence, limits)
