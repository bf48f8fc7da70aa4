"""Does the pack hold together? Words against columns, parameters against statements, reads against tables.

Too slow for every start, so it is part of `make check`, and of loading other people's skills.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jinja2 import TemplateSyntaxError, meta
from pydantic import TypeAdapter, ValidationError

from whichrank.engine.language import sayings
from whichrank.engine.manifest import MANIFEST, Check, Manifest, Pack, Skill
from whichrank.engine.query import Query, parameters_used
from whichrank.engine.speech import CONTRACT
from whichrank.engine.words import LANGUAGES, templates, variables
from whichrank.errors import BrokenPack
from whichrank.tables import by_name

STATEMENT_COLUMNS = {
    "verdict": ("category", "culprit_ranks"),
    "gaps": ("kind", "ranks", "detail", "matters"),
    "coverage": ("ranks_seen", "ranks_expected", "ranks_missing", "records", "groups"),
}
_SAID_BY_US = {"path", "skill"}


def check_types(model: type[Manifest] | type[Skill], data: Any, path: Path) -> None:
    """Raises BrokenPack naming file and key when `data` has not the shape of the model."""
    try:
        TypeAdapter(model).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "(top level)"
        raise BrokenPack(f"{path}: {key}: {first['msg']}") from None


def validate(pack: Pack) -> None:
    """Raises BrokenPack with every problem, each with its file and key."""
    found = list(problems(pack))
    if found:
        raise BrokenPack("\n".join(found), next="python -m pytest tests/engine/test_pack.py")


def problems(pack: Pack) -> Iterator[str]:
    """One line per problem: file, key, what is wrong."""
    yield from _manifest(pack)
    for id in pack.library.ids():
        yield from _query(pack, pack.library.get(id))
    for skill in pack.skills():
        yield from (f"{pack.skill_path(skill.id)}: {problem}" for problem in _skill(pack, skill))


def guest_problems(pack: Pack, id: str) -> Iterator[str]:
    """The same for one guest and its own statements; never raises BrokenPack."""
    path = pack.skill_path(id)
    try:
        skill = pack.skill(id)
        if not skill.verdict or not skill.checks:
            yield f"{path}: a skill needs checks, and a verdict (a statement of one row)"
        for query in [q for q in map(pack.library.get, pack.library.ids()) if path.parent in q.path.parents]:
            yield from _query(pack, query)
            yield from _statement(query)
        yield from (f"{path}: {problem}" for problem in _skill(pack, skill))
        pack.library.facts_for(skill.query_ids())
    except BrokenPack as error:
        yield error.what if str(path.parent) in error.what else f"{path}: {error.what}"


def _statement(query: Query) -> Iterator[str]:
    """A file holds one SELECT, as DuckDB reads it."""
    import duckdb

    try:
        found = duckdb.extract_statements(query.render(use_global=True))
    except duckdb.Error as error:
        yield f"{query.path}: {' '.join(str(error).split())}"
        return
    if len(found) != 1 or found[0].type != duckdb.StatementType.SELECT:
        yield f"{query.path}: not one SELECT"


def _manifest(pack: Pack) -> Iterator[str]:
    ids = {entry.id for entry in pack.manifest.skills}
    for chain in pack.manifest.chains:
        for end in {chain.source, chain.to} - ids:
            yield f"{pack.root / MANIFEST}: chains: there is no skill {end}"


def _query(pack: Pack, query: Query) -> Iterator[str]:
    for read in query.reads:
        known = read in pack.library.ids() if read.startswith("facts.") else by_name(read) is not None
        if not known:
            yield f"{query.path}: reads: there is no {read}"
    for table in {table for tables in query.optional.values() for table in tables}:
        if by_name(table) is None:
            yield f"{query.path}: optional: there is no table {table}"
    used = set(parameters_used(query.body))
    for name in used ^ (set(query.params) - {"use_global"}):
        yield f"{query.path}: params: ${name} is {'used and not declared' if name in used else 'declared and not used'}"


def _skill(pack: Pack, skill: Skill) -> Iterator[str]:
    ids = {entry.id for entry in pack.entries()}
    yield from (f"related: there is no skill {id}" for id in set(skill.related) - ids)
    needed = {*skill.needs, *skill.needs_any}
    if pack.guests and skill.id in pack.guests.skills:
        yield from (f"needs: there is no table {table}" for table in sorted(needed) if by_name(table) is None)
    else:
        yield from (f"needs: {table} is not in {MANIFEST}: tables" for table in needed - set(pack.manifest.tables))
    statements = {"verdict": skill.verdict, "gaps": skill.gaps, "coverage": skill.coverage}
    wanted = [f"checks.{check.check}" for check in skill.checks]
    wanted += [f"statements.{name}" for name in (*statements.values(), *skill.statements) if name]
    missing = set(wanted) - set(pack.library.ids())
    yield from (f"there is no query {id}" for id in sorted(missing))
    if missing or not wanted:
        return
    for key, name in statements.items():
        lacking = set(STATEMENT_COLUMNS[key]) - set(pack.library.get(f"statements.{name}").columns) if name else set()
        if lacking:
            yield f"{key}: {name} lacks the columns {', '.join(sorted(lacking))}"
    yield from _parameters(pack, skill, wanted)
    for check in skill.checks:
        yield from _check(pack, skill, check, ids)
    yield from _other_languages(pack, skill)
    columns = [pack.library.get(f"checks.{check.check}").columns for check in skill.checks]
    for label, text in skill.shows.items():  # is shown where a row has its columns
        wrong = [list(_template(f"shows.{label}", f"{label} {text}", known)) for known in columns]
        yield from min(wrong, key=len, default=[])
    if skill.verdict:
        yield from _template(
            "nothing_found", skill.nothing_found, pack.library.get(f"statements.{skill.verdict}").columns
        )
    for label in skill.collected:
        if not skill.coverage or label not in pack.library.get(f"statements.{skill.coverage}").columns:
            yield f"collected: the coverage has no column {label}"
    for kind, text in skill.gap_words.items():
        yield from _template(f"gap_words.{kind}", text, STATEMENT_COLUMNS["gaps"])


def _parameters(pack: Pack, skill: Skill, wanted: list[str]) -> Iterator[str]:
    queries = [*pack.library.facts_for(wanted), *(pack.library.get(id) for id in wanted)]
    for name in skill.parameters:
        declared = {query.params[name].type for query in queries if name in query.params}
        if declared - {skill.parameters[name].type}:
            yield f"parameters.{name}: type {skill.parameters[name].type}, but statements say {', '.join(declared)}"
        elif not declared and name != "use_global":
            yield f"parameters.{name}: no statement of the skill has it"


def _check(pack: Pack, skill: Skill, check: Check, ids: set[str]) -> Iterator[str]:
    key = f"checks.{check.check}"
    if check.needs and by_name(check.needs) is None:
        yield f"{key}: needs: there is no table {check.needs}"
    columns = set(pack.library.get(key).columns)
    if lacking := set(CONTRACT) - columns:
        yield f"{key}: the statement lacks the columns {', '.join(sorted(lacking))}"
    texts = [
        ("headline", check.headline),
        ("says", check.says),
        ("means", check.means),
        *(("might_be_wrong_if", text) for text in check.might_be_wrong_if),
        *(("do_next", text) for text in check.do_next),
    ]
    if check.next:
        texts += [(f"next.parameters.{name}", text) for name, text in check.next.parameters.items()]
        if "{" in check.next.skill:
            texts.append(("next.skill", check.next.skill))
        elif check.next.skill not in ids:
            yield f"{key}.next.skill: there is no skill {check.next.skill}"
        elif unknown := set(check.next.parameters) - set(pack.skill(check.next.skill).parameters):
            yield f"{key}.next.parameters: {check.next.skill} has no parameter {', '.join(sorted(unknown))}"
    for name, text in texts:
        yield from _template(f"{key}.{name}", text, columns)


def _other_languages(pack: Pack, skill: Skill) -> Iterator[str]:
    """What is said in another language needs the same variables: whatever the English text tells, it tells."""
    said = {check.check: check.says for check in skill.checks}
    for language in LANGUAGES[1:]:
        for name, text in sayings(pack.skill_path(skill.id), language).items():
            key = f"{language}.yaml: {name}"
            if name not in said:
                yield f"{key}: there is no such check"
                continue
            try:
                templates(language).parse(text)
            except TemplateSyntaxError as error:
                yield f"{key}: {error}"
                continue
            if differing := variables(text) ^ variables(said[name]):
                yield f"{key}: {', '.join(sorted(differing))} is in one of the texts only"


def _template(key: str, text: str, columns: Iterable[str]) -> Iterator[str]:
    try:
        names = meta.find_undeclared_variables(templates().parse(text))
    except TemplateSyntaxError as error:
        yield f"{key}: {error}"
        return
    if unknown := names - set(columns) - _SAID_BY_US:
        yield f"{key}: the rows have no column {', '.join(sorted(unknown))}"
