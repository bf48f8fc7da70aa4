"""Facts that a compacted file holds already: used where they would be made by the same statement of the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from hashlib import blake2b

from whichrank.engine.parameter import Value
from whichrank.engine.query import Query


def recipe(fact: Query, values: Mapping[str, Value], has: AbstractSet[str]) -> str:
    """What a fact is made by: a hash of its statement with all values in it. The rows it reads are not part of it."""
    text = fact.printable(bool(values.get("use_global", True)), values, has)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def lent(
    facts: Iterable[Query], values: Mapping[str, Value], has: AbstractSet[str], held: Mapping[str, str]
) -> list[str]:
    """The ids of the facts that need not be made. facts: in an order in which they can be; held: id -> recipe.

    A fact is as it would be made here if its statement is the same, and so are all the facts it reads.
    """
    same: list[str] = []
    for fact in facts:
        reads = [read for read in fact.reads_given(has) if read.startswith("facts.")]
        if held.get(fact.id) == recipe(fact, values, has) and all(read in same for read in reads):
            same.append(fact.id)
    return same
