"""Other people's skills: folders in WHICHRANK_SKILLS, and packages with an entry point in the group `whichrank.skills`.

A skill is a folder with a skill.yaml (as ours have) and its own `sql/facts`, `sql/checks` and `sql/statements`,
which may read our facts and tables. A place holds one, or is a folder of such folders. An entry point is a path, a
function that returns one or several, or a package whose folder is meant. They are read when a name is asked for
that is not ours, and when all skills are listed; so they cost our own skills nothing. What is broken, or takes a
name that is taken, becomes one note and is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from whichrank.engine.manifest import MANIFEST, Entry, Pack, Skill, read_skill
from whichrank.engine.query import KINDS
from whichrank.errors import BrokenPack

VARIABLE = "WHICHRANK_SKILLS"
GROUP = "whichrank.skills"
_NAME = re.compile(r"[a-z]\w*", re.ASCII)


class Guests:
    """skills: id -> skill. paths: id -> its skill.yaml. notes: what was left out, and why; a line for each."""

    def __init__(self) -> None:
        self.skills: dict[str, Skill] = {}
        self.paths: dict[str, Path] = {}
        self.notes: list[str] = []

    def find(self, pack: Pack) -> None:
        """Look for them; `pack` is to have them as its guests already, as one may chain to another."""
        candidates = [folder for place in self._places() for folder in self._folders(place)]
        for folder in dict.fromkeys(candidates):
            try:
                self._take(pack, folder)
            except (BrokenPack, OSError, UnicodeError) as error:
                self._note(folder / MANIFEST, error)
        if self.paths:  # checking them takes more imports than finding that there are none
            self._leave_out_broken(pack)

    def entries(self) -> list[Entry]:
        """As the manifest would list them."""
        return [Entry(id, str(self.paths[id].parent), skill.category) for id, skill in self.skills.items()]

    def _places(self) -> Iterator[Path]:
        for text in os.environ.get(VARIABLE, "").split(os.pathsep):
            if text:
                yield Path(text).expanduser().resolve()
        for entry in entry_points(group=GROUP):
            try:
                yield from map(Path.resolve, _paths(entry))
            except (
                Exception
            ) as error:  # someone else's code: it may raise anything, and must not cost us our own skills
                self.notes.append(f"entry point {entry.name} = {entry.value}: left out: {_one_line(error)}")

    def _folders(self, place: Path) -> Iterator[Path]:
        if (place / MANIFEST).is_file():
            yield place
            return
        try:
            found = sorted(path.parent for path in place.glob(f"*/{MANIFEST}"))
        except OSError as error:
            self._note(place, error)
            return
        if not found:
            why = f"no {MANIFEST} in it or one folder below" if place.is_dir() else "there is no such folder"
            self.notes.append(f"{place}: left out: {why}")
        yield from found

    def _take(self, pack: Pack, folder: Path) -> None:
        path = folder / MANIFEST
        skill = read_skill(path)
        if skill.id in {entry.id for entry in pack.manifest.skills} or skill.id in self.skills:
            raise BrokenPack(f"id: there is a skill {skill.id} already")
        if not _NAME.fullmatch(skill.id):
            raise BrokenPack(f"id: {skill.id} is no name: small letters, digits, underscores")
        if odd := [id for id in _ids(folder) if not _NAME.fullmatch(id.partition(".")[2])]:
            raise BrokenPack(f"sql: {odd[0]} is no name: small letters, digits, underscores")
        taken = set(pack.library.ids())
        if clash := [id for id in _ids(folder) if id in taken]:
            raise BrokenPack(f"sql: there is a query {clash[0]} already")
        pack.library.add(folder / "sql")
        self.skills[skill.id], self.paths[skill.id] = skill, path

    def _leave_out_broken(self, pack: Pack) -> None:
        """Until all that remain hold together: whoever relied on one that was left out goes as well."""
        from whichrank.engine.validation import guest_problems

        broken = True
        while broken:
            broken = False
            for id, path in list(self.paths.items()):
                if problem := next(guest_problems(pack, id), None):
                    broken = True
                    self.notes.append(f"{problem} (left out)")
                    pack.library.remove(path.parent / "sql")
                    del self.skills[id], self.paths[id]

    def _note(self, path: Path, error: Exception) -> None:
        text = _one_line(error)
        self.notes.append(f"{text} (left out)" if text.startswith(str(path.parent)) else f"{path}: {text} (left out)")


def _ids(folder: Path) -> Iterator[str]:
    return (f"{kind}.{path.stem}" for kind in KINDS for path in sorted((folder / "sql" / kind).glob("*.sql")))


def _paths(entry: EntryPoint) -> list[Path]:
    loaded: Any = entry.load()
    if isinstance(loaded, ModuleType):
        return [Path(folder) for folder in getattr(loaded, "__path__", [])] or [Path(str(loaded.__file__)).parent]
    given = loaded() if callable(loaded) else loaded
    return [Path(given)] if isinstance(given, str | os.PathLike) else [Path(path) for path in given]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
