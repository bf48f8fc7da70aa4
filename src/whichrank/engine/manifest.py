"""The pack: root skill.yaml, one skill.yaml per skill, and the .sql files.

The models are plain dataclasses, so that a start costs no pydantic (0.2 s). pydantic validates the same classes for
packs of other people, and for ours in `make check` (see validation.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import whichrank
from whichrank.engine.parameter import Parameter, Value
from whichrank.engine.query import EVERY_TABLE, Library, read_yaml
from whichrank.errors import BrokenPack, UsageError

if TYPE_CHECKING:
    from whichrank.engine.guests import Guests

MANIFEST = "skill.yaml"
_STRICT = {"extra": "forbid"}


@dataclass(frozen=True)
class Chain:
    """The next skill, for a machine. skill: its id, or a template. parameters: name -> template over the row.

    A parameter whose text is empty is not set.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    skill: str
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """A check and its words. All texts are templates over the columns of the check's rows (and `path`, `skill`).

    needs: the table without which it is not run, and no fact is made for it.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    check: str
    headline: str
    says: str
    means: str = ""
    might_be_wrong_if: list[str] = field(default_factory=list)
    do_next: list[str] = field(default_factory=list)
    next: Chain | None = None
    needs: str | None = None


@dataclass(frozen=True)
class SkillParameter:
    """A parameter people may set; it reaches every statement of the skill that declares the same name."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    type: Literal["integer", "boolean", "double", "text"]
    default: Value
    doc: str


@dataclass(frozen=True)
class Skill:
    """skill/<folder>/skill.yaml. shows: label -> text, templates; a line under a finding where both are not empty.

    needs: all of these tables must have rows. seen_by: what a rank left that was seen. surveys: the other skills run
    first; its statements have them as $pack and what they found as $outcomes. collected: column of the coverage (a list
    of rows) -> template over one of them. nothing_found: over the row of the verdict.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    id: str
    category: str
    description: str
    question: str
    keywords: dict[str, list[str]]
    tags: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)  # all of these tables must have rows
    needs_any: list[str] = field(default_factory=list)  # and one of these
    seen_by: str = "left a dump"
    surveys: bool = False
    parameters: dict[str, SkillParameter] = field(default_factory=dict)
    verdict: str | None = None
    gaps: str | None = None
    coverage: str | None = None
    statements: list[str] = field(default_factory=list)
    collected: dict[str, str] = field(default_factory=dict)
    nothing_found: str = ""
    verdict_also: str = ""
    shows: dict[str, str] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    gap_words: dict[str, str] = field(default_factory=dict)
    related: dict[str, str] = field(default_factory=dict)

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

    def as_dict(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return asdict(self)

    def summary(self) -> dict[str, Any]:
        """What a catalogue shows of it, for agents."""
        keys = ("id", "category", "question", "description", "keywords", "tags", "parameters", "needs", "needs_any")
        return {key: value for key, value in asdict(self).items() if key in keys}

    def query_ids(self, has: AbstractSet[str] = EVERY_TABLE) -> list[str]:
        """The queries a run needs where these tables have rows, in the order in which they run; the verdict is last."""
        statements = [name for name in (self.gaps, self.coverage, self.verdict) if name]
        return [f"checks.{c.check}" for c in self.checks_given(has)] + [f"statements.{name}" for name in statements]

    def checks_given(self, has: AbstractSet[str]) -> list[Check]:
        """The checks that are worth their time where these tables have rows."""
        return [check for check in self.checks if check.needs is None or check.needs in has]


@dataclass(frozen=True)
class Entry:
    """A skill in the root manifest. entry: people may start with it; others are reached through a chain."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    id: str
    folder: str
    category: str
    entry: bool = True


@dataclass(frozen=True)
class PackChain:
    """An edge between two skills; `when` is for people and agents."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    source: str
    to: str
    when: str


@dataclass(frozen=True)
class Manifest:
    """The root skill.yaml. tables: table -> how to get rows into it (said when a skill lacks it).

    keywords: words of the field, by language; they tell no skill from another (see routing.py).
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    name: str
    version: str
    tables: dict[str, str]
    skills: list[Entry]
    description: str = ""
    keywords: dict[str, list[str]] = field(default_factory=dict)
    chains: list[PackChain] = field(default_factory=list)


class Pack:
    """Skills and statements below one folder (`skill.yaml`, `skill/`, `sql/`). Files are read when asked for.

    root: None is the pack of this package, which `make check` has validated; any other is validated here. guests: with
    other people's skills (see guests.py); the default is with ours only.
    """

    def __init__(self, root: Path | None = None, *, guests: bool | None = None) -> None:
        self.ours = root is None
        self.root = root or Path(whichrank.__file__).parent
        self.library = Library(self.root / "sql")
        self._skills: dict[str, Skill] = {}
        self._guests: Guests | None = None
        self._wants_guests = self.ours if guests is None else guests

    @property
    def guests(self) -> Guests | None:
        """Other people's skills, and why some were left out; looked for when this is first asked."""
        if self._wants_guests and self._guests is None:
            from whichrank.engine.guests import Guests

            self._guests = Guests()
            self._guests.find(self)
        return self._guests

    def entries(self) -> list[Entry]:
        """All skills: ours in the manifest's order, then the guests."""
        guests = self.guests
        return [*self.manifest.skills, *(guests.entries() if guests else [])]

    def notes(self) -> list[str]:
        """Why a guest was left out, a line for each, with file and reason."""
        return self.guests.notes if self.guests else []

    @cached_property
    def manifest(self) -> Manifest:
        return _manifest(self._read(Manifest, self.root / MANIFEST))

    def skill(self, id: str) -> Skill:
        """The skill of that id; hyphens are as good as underscores. Raises UsageError when there is none."""
        wanted = id.replace("-", "_")
        entry = next((e for e in self.manifest.skills if e.id == wanted), None)
        if entry is None:
            if self.guests and wanted in self.guests.skills:
                return self.guests.skills[wanted]
            known = ", ".join(e.id for e in self.entries())
            why = "".join(f"\n{note}" for note in self.notes())
            raise UsageError(f"there is no skill {id}{why}", looked_for=f"one of: {known}", next="whichrank skills")
        if entry.id not in self._skills:
            path = self.skill_path(entry.id)
            skill = _skill(self._read(Skill, path))
            if (skill.id, skill.category) != (entry.id, entry.category):
                raise BrokenPack(
                    f"{path}: id, category: {skill.id}, {skill.category} differ from {self.root / MANIFEST}",
                    looked_for=f"{entry.id}, {entry.category}",
                )
            self._skills[entry.id] = skill
        return self._skills[entry.id]

    def skill_path(self, id: str) -> Path:
        """The skill.yaml of that skill."""
        folder = next((e.folder for e in self.manifest.skills if e.id == id), None)
        if folder is None and self.guests:
            return self.guests.paths[id]
        return self.root / "skill" / str(folder) / MANIFEST

    def skills(self) -> Iterator[Skill]:
        """All skills: ours in the manifest's order, then the guests."""
        return (self.skill(entry.id) for entry in self.entries())

    def _read(self, model: type[Manifest] | type[Skill], path: Path) -> dict[str, Any]:
        return _read(model, path, check=not self.ours)


def read_skill(path: Path) -> Skill:
    """The skill.yaml of a guest, with its types checked. Raises BrokenPack, naming file and key."""
    return _skill(_read(Skill, path, check=True))


def _read(model: type[Manifest] | type[Skill], path: Path, *, check: bool) -> dict[str, Any]:
    if not path.is_file():
        raise BrokenPack(f"{path}: there is no such file", looked_for=f"a {model.__name__.lower()} in YAML")
    data: dict[str, Any] = read_yaml(path, path.read_text(encoding="utf-8"))
    if check:
        from whichrank.engine.validation import check_types

        check_types(model, data, path)
    return data


def _manifest(data: dict[str, Any]) -> Manifest:
    return Manifest(**{
        **data,
        "skills": [Entry(**entry) for entry in data["skills"]],
        "chains": [PackChain(**chain) for chain in data.get("chains", [])],
    })  # fmt: skip


def _skill(data: dict[str, Any]) -> Skill:
    return Skill(**{
        **data,
        "parameters": {name: SkillParameter(**spec) for name, spec in data.get("parameters", {}).items()},
        "checks": [
            Check(**{**check, "next": Chain(**check["next"]) if check.get("next") else None})
            for check in data.get("checks", [])
        ],
    })  # fmt: skip
