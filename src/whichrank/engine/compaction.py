"""whichrank collect --compact: the shards of a store, and the facts of its newest snapshot, in one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from whichrank.engine.beforehand import recipe
from whichrank.engine.intake import is_store
from whichrank.engine.manifest import Pack
from whichrank.engine.parameter import Value
from whichrank.engine.runner import Runner
from whichrank.errors import NoEvidence, QueryFailed
from whichrank.store.compacted import compare, listed
from whichrank.store.compaction import GRACE_S, NotCompacted, alone, facts_made, new_file, remove_shards, write
from whichrank.store.ddl import COMPACTED, comments
from whichrank.store.evidence import Evidence
from whichrank.store.live import ANSWERS


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was done. added: shards taken up; removed: shards the file already held; unreadable: left as they are."""

    path: Path
    added: int
    removed: int
    unreadable: list[str]
    without_facts: str | None = None  # why the file holds no facts; they can be made of it at any time


def compact(store: Path, *, grace_s: float = GRACE_S, pack: Pack | None = None) -> Compacted:
    """Write or renew STORE/global.duckdb. Doing it twice changes nothing, a reader notices nothing.

    grace_s: shards are removed when the file has held them for longer.
    Raises NoEvidence, NotCompacted, StoreNotWritten.
    """
    import duckdb

    if not store.is_dir() or not is_store(store):
        raise NoEvidence(
            f"{store} is no store",
            looked_for="folders <table>/rank=<n>/*.parquet",
            next="whichrank collect DUMPS --into STORE",
        )
    if (store / ANSWERS).is_dir():
        from whichrank.engine.snapshot import convert_all

        convert_all(store)
    with alone(store), Evidence(stores=[store], lazy=True) as evidence:
        now = evidence.beside(store)
        if now is None and (store / COMPACTED).exists():
            raise NotCompacted(f"{store / COMPACTED} was not made by whichrank", next="move it away, then try again")
        now = now or compare({}, listed(store))
        added, unreadable = [shard.path for shard in now.fresh], []
        if added:
            why = None
            try:
                with new_file(evidence, store) as database:
                    unreadable = [shard.path for shard in write(evidence, store, database, now)]
                    if not unreadable:
                        why = _facts(evidence, database, pack or Pack())
            except duckdb.Error as error:
                raise NotCompacted(f"{store} cannot be compacted: {error}", next="make room, then try again") from None
            return Compacted(store / COMPACTED, len(added) - len(unreadable), 0, unreadable, why)
        removed = remove_shards(store, now.known, grace_s) if now.known else 0
        return Compacted(store / COMPACTED, 0, removed, unreadable)


def _facts(evidence: Evidence, database: str, pack: Pack) -> str | None:
    """The facts of the newest snapshot as tables, so that printed statements run on the file alone; or why not."""
    facts = [id for id in pack.library.ids() if id.startswith("facts.")]
    values: dict[str, Value] = {"use_global": True}
    runner = Runner(pack, evidence)
    try:
        runner.make_facts(facts, values)
    except QueryFailed as error:
        return error.what  # the rows are what must be there
    connection = evidence.connection
    made = pack.library.facts_for(facts, evidence.present)
    facts_made(evidence, database, {fact.id: recipe(fact, values, evidence.present) for fact in made})
    for fact in made:
        connection.table(f"memory.{fact.id}").create(f"{database}.{fact.id}")
        for statement in comments(f"{database}.{fact.id}", fact.summary, fact.columns):
            connection.execute(statement)
    return None
