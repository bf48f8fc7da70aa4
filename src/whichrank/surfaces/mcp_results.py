"""What the MCP tools give back: shapes, for schemas that an agent can read, and cuts, so that nothing is too long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

NARROW = "give parameters that narrow it, or ask for the rows with the tool query"


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SkillInfo(_Shape):
    """One skill."""

    id: str
    category: str
    question: str
    description: str
    parameters: dict[str, dict[str, Any]] = Field(description="name -> type, default, doc; the arguments of run_skill")
    needs: list[str] = Field(description="tables that must have rows")
    needs_any: list[str] = Field(description="tables of which one must have rows")
    keywords: dict[str, list[str]] = Field(description="by language")


class Skills(_Shape):
    """The result of list_skills."""

    skills: list[SkillInfo]
    left_out: list[str] = Field(description="skills of other people that are broken, and why")
    truncated: bool


class Match(_Shape):
    """A skill that fits. arguments: for run_skill, as they are."""

    skill: str
    category: str
    question: str
    score: float
    matched: list[str] = Field(description="the words that were found")
    arguments: dict[str, Any] = Field(description="call run_skill with these")


class Matches(_Shape):
    """The result of ask; matches is [] where nothing fits."""

    matches: list[Match] = Field(description="best first")
    searched: str = Field(description="what was searched")
    next: str = Field(description="what to call next")


class Step(_Shape):
    """What to do next: a command for a person, and the same as arguments of run_skill where it is a skill."""

    command: str
    skill: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)


class Finding(BaseModel):
    """One fault, or a consequence of one (root: false)."""

    model_config = ConfigDict(extra="allow")
    severity: str
    category: str
    group: str | None = Field(description="process group")
    seq: int | None = Field(description="sequence number of the collective in its group")
    op: str | None
    ranks: list[int] = Field(description="the accused global ranks; [] accuses nobody")
    root: bool
    headline: str
    says: str
    could_be_wrong_if: list[str]
    next: list[Step]
    evidence: list[dict[str, Any]] = Field(description="the rows that prove it, perhaps cut")
    evidence_rows: int = Field(description="how many there are")


class Verdict(_Shape):
    """The result of run_skill."""

    skill: str
    category: str | None = Field(description="null: nothing was found; insufficient_evidence: see gaps")
    culprit_ranks: list[int]
    verdict: str = Field(description="one sentence")
    findings: list[Finding]
    gaps: list[dict[str, Any]] = Field(description="what was not seen, and whether it matters")
    coverage: dict[str, Any] = Field(description="ranks seen, expected and missing; records; groups")
    next: list[Step]
    exit_code: int = Field(description="0 nothing found, 1 findings, 2 the evidence does not suffice")
    truncated: bool
    hint: str | None = Field(description="how to get what was cut")


class Column(_Shape):
    """A column of an answer."""

    name: str
    type: str


class Rows(_Shape):
    """The result of query."""

    columns: list[Column]
    rows: list[dict[str, Any]]
    truncated: bool
    hint: str | None = Field(description="why it was cut, or what was searched where there are no rows")


class Relations(_Shape):
    """The result of describe_tables: all of them, or one with its columns."""

    tables: list[dict[str, Any]] = Field(
        description="name, grain (what one row is), doc; of one also parameters, columns"
    )
    truncated: bool
    hint: str | None


def fitting(result: dict[str, Any], characters: int) -> dict[str, Any]:
    """A diagnosis as JSON in at most so many characters, cut where that costs least; `truncated` and `hint` say it."""
    whole = {key: value for key, value in result.items() if key != "ran"} | {"truncated": False, "hint": None}
    if _size(whole) <= characters:
        return whole
    cut = deepcopy(whole) | {"truncated": True, "hint": f"cut at {characters:,} characters: {NARROW}"}
    for _ in _cut_on(cut):
        if _size(cut) <= characters:
            break
    return cut


def _cut_on(cut: dict[str, Any]) -> Iterator[None]:
    """Ever more of it goes: rows of evidence, consequences, long lists, gaps; the verdict stays."""
    for most in (20, 5, 1):
        for finding in cut["findings"]:
            finding["evidence"] = finding["evidence"][:most]
        yield
    cut["findings"] = [finding for finding in cut["findings"] if finding["root"]]
    yield
    for holder in (cut["coverage"], *cut["findings"], *cut["gaps"]):
        _shorten(holder, 50)
    yield
    for most in (20, 5, 1, 0):
        cut["findings"], cut["gaps"] = cut["findings"][:most], cut["gaps"][:most]
        yield
    _shorten(cut, 100)
    yield


def _shorten(holder: dict[str, Any], most: int) -> None:
    for key, value in holder.items():
        if isinstance(value, list):
            holder[key] = value[:most]
        elif isinstance(value, dict):
            _shorten(value, most)
        elif isinstance(value, str):
            holder[key] = value[:1000]


def first(items: list[dict[str, Any]], characters: int) -> tuple[list[dict[str, Any]], bool]:
    """As many of the items, from the first, as fit as JSON; and whether some were left out."""
    kept: list[dict[str, Any]] = []
    for item in items:
        characters -= _size(item) + 2
        if characters < 0:
            break
        kept.append(item)
    return kept, len(kept) < len(items)


def _size(data: object) -> int:
    return len(json.dumps(data, ensure_ascii=False, default=str))
