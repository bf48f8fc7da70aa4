"""What a skill that looks at all others is told: the skills of the pack, and what they found, as JSON for its SQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from whichrank.engine.diagnosis import Diagnosis, Ran
from whichrank.engine.parameter import Value
from whichrank.errors import BrokenPack, QueryFailed, ShardGone

if TYPE_CHECKING:
    from whichrank.engine.manifest import Pack, Skill

FINDINGS = 3  # of each skill; more than that nobody is told


class Survey:
    """The other skills, run on the same evidence. ran: the facts they made; broken: why a skill of others failed."""

    def __init__(self, pack: Pack, skill: Skill) -> None:
        self.pack = pack
        self.ran: list[Ran] = []
        self.broken: list[str] = pack.notes()[:]
        self._others = [other for other in pack.skills() if other.id != skill.id and not other.surveys]
        self._outcomes: list[dict[str, Any]] = []

    def run(
        self, can_run: Callable[[Skill], bool], run: Callable[[str, Mapping[str, Any]], Diagnosis], everywhere: bool
    ) -> None:
        """Run those that have what they need. everywhere: look at every rank."""
        for other in self._others:
            if not other.verdict or not can_run(other):
                continue
            parameters = {"use_global": False} if not everywhere and "use_global" in other.parameters else {}
            try:
                found = run(other.id, parameters)
            except (QueryFailed, BrokenPack) as error:
                if isinstance(error, ShardGone) or not (self.pack.guests and other.id in self.pack.guests.skills):
                    raise
                self.broken.append(" ".join(error.what.split()))
                continue
            self.ran += [ran for ran in found.ran if ran.name.startswith("facts.")]
            self._outcomes += _roots(found, len(self._outcomes))

    def values(self) -> dict[str, Value]:
        """The values of $pack and $outcomes."""
        ways = self.pack.manifest.tables
        pack = [
            {
                "nth": number,
                "skill": other.id,
                "checks": len(other.checks) if other.verdict else 0,
                "needs": other.needs,
                "needs_any": other.needs_any,
                "ways": [
                    {"table": table, "way": ways.get(table, "nothing collects it yet")}
                    for table in (*other.needs, *other.needs_any)
                ],
            }
            for number, other in enumerate(self._others, 1)
        ]
        return {"pack": _json(pack), "outcomes": _json(self._outcomes)}


def _roots(found: Diagnosis, before: int) -> list[dict[str, Any]]:
    """The findings of its verdict, as rows of facts.health_outcome."""
    roots = [finding for finding in found.findings if finding.root][:FINDINGS]
    return [
        {
            "nth": before + number,
            "skill": found.skill,
            "severity": finding.severity,
            "category": finding.category,
            "group": finding.group,
            "seq": finding.seq,
            "op": finding.op,
            "ranks": finding.ranks,
            "headline": finding.headline,
        }
        for number, finding in enumerate(roots, 1)
    ]


def _json(rows: list[dict[str, Any]]) -> str:
    return json.dumps(rows, ensure_ascii=False, default=str)
