"""The pack: root skill.yaml, one skill.yaml per skill, and the .sql files, read and checked against each other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import whichrank
from whichrank.engine.query import Library, Parameter, Value, read_yaml
from whichrank.errors import BrokenPack, UsageError

MANIFEST = "skill.yaml"
M = TypeVar("M", bound=BaseModel)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Chain(_Model):
    """The next skill, for a machine. parameters: name -> template over the row."""

    skill: str
    parameters: dict[str, str] = {}


class Check(_Model):
    """A check and its words. All texts are templates over the columns of the check's rows (and `path`, `skill`)."""

    check: str
    headline: str
    says: str
    means: str = ""
    might_be_wrong_if: list[str] = []
    do_next: list[str] = []
    next: Chain | None = None


class SkillParameter(_Model):
    """A parameter people may set; it reaches every statement of the skill that declares the same name."""

    type: Literal["integer", "boolean", "double", "text"]
    default: Value
    doc: str


class Skill(_Model):
    """skill/<folder>/skill.yaml."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    category: str
    description: str
    question: str
    keywords: dict[str, list[str]]
    tags: list[str] = []
    needs: list[str] = []
    parameters: dict[str, SkillParameter] = {}
    verdict: str | None = None
    gaps: str | None = None
    coverage: str | None = None
    statements: list[str] = []
    nothing_found: str = ""
    shows: dict[str, str] = {}  # label -> text, both templates; a line under every finding where both are not empty
    checks: list[Check] = []
    gap_words: dict[str, str] = {}
    related: dict[str, str] = {}

    def parameter(self, name: str) -> Parameter:
        spec = self.parameters[name]
        return Parameter(name, spec.type, spec.default, spec.doc)

    def resolve(self, given: dict[str, Any]) -> dict[str, Value]:
        """Defaults, overridden by what was given. Raises UsageError for an unknown name or a wrong type."""
        for name in given:
            if name not in self.parameters:
                known = ", ".join(f"{n} ({p.type}, default {p.default})" for n, p in self.parameters.items())
                raise UsageError(
                    f"{self.id} has no parameter {name}",
                    looked_for=known or "it has none",
                    next=f"whichrank skills {self.id}",
                )
        return {n: self.parameter(n).parse(given[n]) if n in given else p.default for n, p in self.parameters.items()}

    def query_ids(self) -> list[str]:
        """The queries a run needs, in the order in which they run; the verdict comes last."""
        statements = [name for name in (self.gaps, self.coverage, self.verdict) if name]
        return [f"checks.{c.check}" for c in self.checks] + [f"statements.{name}" for name in statements]


class Entry(_Model):
    """A skill in the root manifest. entry: people may start with it; others are reached through a chain."""

    id: str
    folder: str
    category: str
    entry: bool = True


class PackChain(_Model):
    """An edge between two skills; `when` is for people and agents."""

    source: str = Field(alias="from")
    to: str
    when: str


class Manifest(_Model):
    """The root skill.yaml. tables: table -> how to get rows into it (said when a skill lacks it)."""

    name: str
    version: str
    description: str = ""
    tables: dict[str, str]
    skills: list[Entry]
    chains: list[PackChain] = []


class Pack:
    """Skills and statements below one folder (`skill.yaml`, `skill/`, `sql/`). Files are read when asked for."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or Path(whichrank.__file__).parent
        self.library = Library(self.root / "sql")
        self._skills: dict[str, Skill] = {}

    @cached_property
    def manifest(self) -> Manifest:
        return _read(Manifest, self.root / MANIFEST)

    def skill(self, id: str) -> Skill:
        """The skill of that id; hyphens are as good as underscores. Raises UsageError when there is none."""
        wanted = id.replace("-", "_")
        entry = next((e for e in self.manifest.skills if e.id == wanted), None)
        if entry is None:
            known = ", ".join(e.id for e in self.manifest.skills)
            raise UsageError(f"there is no skill {id}", looked_for=f"one of: {known}", next="whichrank skills")
        if entry.id not in self._skills:
            path = self.skill_path(entry.id)
            skill = _read(Skill, path)
            if (skill.id, skill.category) != (entry.id, entry.category):
                raise BrokenPack(
                    f"{path}: id, category: {skill.id}, {skill.category} differ from {self.root / MANIFEST}",
                    looked_for=f"{entry.id}, {entry.category}",
                )
            self._skills[entry.id] = skill
        return self._skills[entry.id]

    def skill_path(self, id: str) -> Path:
        folder = next(e.folder for e in self.manifest.skills if e.id == id)
        return self.root / "skill" / folder / MANIFEST

    def skills(self) -> Iterator[Skill]:
        """All skills, in the manifest's order."""
        return (self.skill(entry.id) for entry in self.manifest.skills)


def _read(model: type[M], path: Path) -> M:
    if not path.is_file():
        raise BrokenPack(f"{path}: there is no such file", looked_for=f"a {model.__name__.lower()} in YAML")
    data = read_yaml(path, path.read_text(encoding="utf-8"))
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "(top level)"
        raise BrokenPack(f"{path}: {key}: {first['msg']}") from None
