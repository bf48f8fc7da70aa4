"""What a diagnosis is: findings, gaps, coverage, one verdict. Plain data; nothing is computed here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from whichrank.errors import EXIT_CANNOT_DIAGNOSE, EXIT_FINDINGS, EXIT_NOTHING_FOUND

INSUFFICIENT = "insufficient_evidence"


@dataclass(frozen=True, slots=True)
class Next:
    """What to type next; `skill` and `parameters` say the same for a machine (None, {} where it is no skill)."""

    command: str
    skill: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of one check, in words.

    root:     part of the verdict; otherwise the finding is a consequence that a root explains, or only a warning.
    ranks:    the accused global ranks, sorted; [] where the evidence accuses nobody.
    explains: labels of the events that this one holds up (`dp #12`).
    shows:    labelled lines for people (`last on rank 2` -> `all_reduce dp #12, train.py:88 in backward`).
    evidence: the rows that prove it, the first 100 of `evidence_rows`. details: the further columns of the row.
    check:    the statement that found it; `Diagnosis.ran` holds its parameters and SQL.
    """

    severity: str
    category: str
    group: str | None
    seq: int | None
    op: str | None
    ranks: list[int]
    root: bool
    headline: str
    says: str
    means: str
    shows: dict[str, str]
    could_be_wrong_if: list[str]
    next: list[Next]
    explains: list[str]
    evidence: list[dict[str, Any]]
    evidence_rows: int
    details: dict[str, Any]
    check: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that was not seen. matters: it could change the verdict. ranks: whom it is about, sorted."""

    kind: str
    ranks: list[int]
    detail: str | None
    matters: bool
    says: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which ranks were seen, which were expected (as far as anything says), and how much was read.

    collected: label -> rows, each with `says` for people; {} where the skill does not tell.
    """

    ranks_seen: list[int] = field(default_factory=list)
    ranks_expected: list[int] = field(default_factory=list)
    ranks_missing: list[int] = field(default_factory=list)
    records: int = 0
    groups: int = 0
    collected: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form; `collected` only where there is any."""
        data = asdict(self)
        if not self.collected:
            del data["collected"]
        return data


@dataclass(frozen=True, slots=True)
class Ran:
    """One statement that ran. seconds: wall time. printed: makes its text, which few ask for."""

    name: str
    summary: str
    parameters: dict[str, Any]
    rows: int
    seconds: float
    printed: Callable[[], str]

    @property
    def sql(self) -> str:
        """The statement as any DuckDB client can run it."""
        return self.printed()

    def as_dict(self, *, sql: bool) -> dict[str, Any]:
        """The JSON form. sql: with the text."""
        keys = ("name", "summary", "parameters", "rows", "seconds", *(["sql"] if sql else []))
        return {key: getattr(self, key) for key in keys}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer.

    category: see docs/checks.md; None when nothing was found. verdict: one sentence. prelude: SQL that gives a DuckDB
    client the tables that `ran` reads. seen_by: what the ranks of `coverage` left.
    """

    skill: str
    category: str | None
    culprit_ranks: list[int]
    verdict: str
    findings: list[Finding]
    gaps: list[Gap]
    coverage: Coverage
    next: list[Next]
    ran: list[Ran]
    prelude: str = ""
    seen_by: str = "left a dump"

    @property
    def exit_code(self) -> int:
        """0 nothing found, 1 findings, 2 the evidence does not suffice for a verdict."""
        if self.category == INSUFFICIENT:
            return EXIT_CANNOT_DIAGNOSE
        return EXIT_FINDINGS if self.category or self.findings else EXIT_NOTHING_FOUND

    def as_dict(self, *, sql: bool = False) -> dict[str, Any]:
        """The JSON form. Its top-level keys never change meaning. sql: with the text of each statement."""
        return {
            "skill": self.skill,
            "category": self.category,
            "culprit_ranks": self.culprit_ranks,
            "verdict": self.verdict,
            "findings": [asdict(finding) for finding in self.findings],
            "gaps": [asdict(gap) for gap in self.gaps],
            "coverage": self.coverage.as_dict(),
            "next": [asdict(step) for step in self.next],
            "ran": [ran.as_dict(sql=sql) for ran in self.ran],
        }

    def script(self) -> str:
        """Every statement that ran, in order, over the shards of a store; the verdict comes last."""
        return "\n\n".join([self.prelude, *(ran.sql for ran in self.ran)]) + "\n"
