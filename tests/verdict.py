"""The verdict on a folder of dumps, and how it compares with the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.jobs.story import Truth
from whichrank.engine.diagnosis import Diagnosis
from whichrank.engine.intake import open_evidence
from whichrank.engine.manifest import Pack
from whichrank.engine.runner import Runner

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
Verdict = tuple[str, list[int]]


@cache
def pack() -> Pack:
    """The pack, read once per process."""
    return Pack()


def diagnosis_of(*paths: Path) -> Diagnosis:
    """The whole diagnosis of `watchdog_timeout`."""
    with open_evidence(paths) as evidence:
        return Runner(pack(), evidence, "PATH").run("watchdog_timeout")


def verdict_of(*paths: Path) -> Verdict:
    """(category, culprits) alone, without words: the facts that lead to it and nothing else."""
    with open_evidence(paths) as evidence:
        runner = Runner(pack(), evidence, "PATH")
        values = pack().skill("watchdog_timeout").resolve({})
        runner.make_facts(["statements.verdict"], values)
        (row,) = runner.rows("statements.verdict", values)
    return row["category"] or "no_fault", sorted(row["culprit_ranks"])


def named_besides(diagnosis: Diagnosis, truth: Truth) -> set[int]:
    """Ranks that a root finding accuses although no honest answer does."""
    honest = {rank for ranks in (truth.culprit_ranks, *truth.also_culprits) for rank in ranks}
    return {rank for finding in diagnosis.findings if finding.root for rank in finding.ranks} - honest


def as_certain(verdict: Verdict, truth: Truth) -> bool:
    """The verdict is the truth, or another honest answer."""
    return truth.accepts(*verdict)


def at_most_less_certain(verdict: Verdict, truth: Truth, unseen: Iterable[int] = ()) -> bool:
    """Evidence was removed: the truth, or nobody named, or only ranks that are guilty or no longer seen."""
    category, ranks = verdict
    honest = {rank for some in (truth.culprit_ranks, *truth.also_culprits) for rank in some} | set(unseen)
    nobody = not ranks and category in ("insufficient_evidence", "all_joined_none_finished", "no_fault")
    return as_certain(verdict, truth) or nobody or (truth.category != "no_fault" and set(ranks) <= honest)


def truth_of(case: dict[str, Any]) -> Truth:
    """The truth in a case.yaml or truth.json."""
    return Truth(
        case["category"],
        tuple(case["culprit_ranks"]),
        case.get("why", case.get("note", "")),
        tuple(case.get("also_accept", ())),
        tuple(tuple(ranks) for ranks in case.get("also_culprits", ())),
    )


def cases(skill: str = "watchdog_timeout") -> Sequence[str]:
    """Names of the fixtures that are about this skill."""
    names = sorted(path.parent.name for path in FIXTURES.glob("*/case.yaml"))
    return [name for name in names if case(name).get("skill", "watchdog_timeout") == skill]


def case(name: str) -> dict[str, Any]:
    """The case.yaml of a fixture."""
    loaded: dict[str, Any] = yaml.safe_load((FIXTURES / name / "case.yaml").read_text(encoding="utf-8"))
    return loaded
