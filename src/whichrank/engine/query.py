"""A .sql file: YAML header in the leading comment, jinja2 for structure, `$name` for values.

    -- summary: Who belongs to which group.
    -- reads: [python.torch_nccl_ranks, facts.dump]
    -- params:
    --   seq_window: {type: integer, default: 200, doc: Newest numbers of a group to look at.}
    -- columns:
    --   rank: {doc: Global rank.}
    -- columns_like: facts.finding          (optional: those columns first)
    -- optional: {facts.log_suspect: python.torch_nccl_watchdog_log}
    -- per: rank                            (optional: see below)
    -- every_table: true                    (optional: see below)
    SELECT rank FROM {{ python }}.torch_nccl_ranks
    {% if "python.torch_nccl_watchdog_log" in has %} UNION ALL SELECT rank FROM facts.log_suspect {% endif %}

Facts (`facts.entry`) become tables, in the order of their `reads`; checks and statements are only read. `optional` is a
read that is worth its time only where a table (one of several) has rows: without them the block is left out, and the
fact is not made. `per: rank` says of a fact that what it holds of one rank follows from the entries of that rank, the
other facts of that kind about it, and whatever there is of the other tables: it may be made rank by rank. `every_table`
is an optional read of each table there is, except the entries; the template then goes through `tables` (name, relation,
ranked, sized, clocks).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichrank.engine.parameter import TYPES, Parameter, Value, literal
from whichrank.errors import BrokenPack
from whichrank.tables import FLIGHT_RECORD, TABLES, Table

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

KINDS = ("facts", "checks", "statements")
SCHEMAS = ("python", "nccl", "gpu", "cpu", "cluster", "process")
HEADER_KEYS = frozenset(
    {"summary", "grain", "reads", "params", "columns", "columns_like", "optional", "every_table", "per", "rules", "doc"}
)
EVERY_TABLE = frozenset(table.full_name for table in TABLES)  # `has`, where nothing is to be left out
_EVIDENCE = tuple(table for table in TABLES if not table.key and table is not FLIGHT_RECORD)
# Text, quoted names and comments come first, so that a `$name` inside them is left alone.
_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(?P<name>[A-Za-z_]\w*)""", re.VERBOSE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Query:
    """One .sql file.

    kind: its folder (facts, checks, statements). columns: name -> {unit?, doc}. reads: all it may read; optional: those
    of them that are left out unless one of these tables has rows. per: `rank`, or empty.
    """

    kind: str
    name: str
    path: Path
    summary: str
    grain: str
    reads: tuple[str, ...]
    optional: dict[str, tuple[str, ...]]
    params: dict[str, Parameter]
    columns: dict[str, dict[str, str]]
    rules: tuple[str, ...]
    per: str
    body: str

    @property
    def id(self) -> str:
        """`facts.entry`, `checks.rank_not_joined`: the name other headers read it by."""
        return f"{self.kind}.{self.name}"

    def reads_given(self, has: AbstractSet[str]) -> list[str]:
        """What it reads when only these tables have rows."""
        return [read for read in self.reads if read not in self.optional or not has.isdisjoint(self.optional[read])]

    def render(self, use_global: bool, has: AbstractSet[str] = EVERY_TABLE) -> str:
        """The statement with its structure chosen: `{{ python }}` is every host, or this one. Values stay `$name`.

        has: the tables that have rows (`python.backtrace`).
        """
        if "{" not in self.body:
            return self.body
        from jinja2 import TemplateError

        names: dict[str, Any] = {schema: f"global.{schema}" if use_global else schema for schema in SCHEMAS}
        names["tables"] = [
            _described(t, use_global) for t in _EVIDENCE if t.full_name in has and t.full_name in self.optional
        ]
        try:
            return _sql_templates().from_string(self.body).render(names, use_global=use_global, has=has)
        except TemplateError as error:
            raise BrokenPack(f"{self.path}: the template does not render: {error}") from None

    def values(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """What to bind: for each declared parameter the given value, else its default.

        `use_global` is no value: it chooses the schema, so DuckDB never sees it.
        """
        return {name: given.get(name, p.default) for name, p in self.params.items() if name != "use_global"}

    def statement(self, use_global: bool, has: AbstractSet[str] = EVERY_TABLE, as_table: bool = False) -> str:
        """What DuckDB runs: a fact becomes a table (anything else as well, if asked to), the rest stays a SELECT."""
        select = self.render(use_global, has)
        return f"CREATE OR REPLACE TABLE {self.id} AS\n{select}" if as_table or self.kind == "facts" else select

    def printable(self, use_global: bool, given: Mapping[str, Value], has: AbstractSet[str] = EVERY_TABLE) -> str:
        """The statement as any DuckDB client can run it: values in place of `$name`, a semicolon at the end."""
        values = self.values(given)

        def replace(match: re.Match[str]) -> str:
            name = match["name"]
            return f"{literal(values[name])}::{self.params[name].sql_type}" if name in values else match[0]

        return f"-- {self.id}: {self.summary}\n{_TOKEN.sub(replace, self.statement(use_global, has))};"


class Library:
    """All .sql files below one folder: `facts/`, `checks/`, `statements/`. Files are read when they are asked for.

    Other people's skills add folders of their own (see guests.py); nothing in them stands before what is ours.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._roots = [root]
        self._loaded: dict[str, Query] = {}

    def add(self, root: Path) -> None:
        """Look there as well."""
        self._roots.append(root)

    def remove(self, root: Path) -> None:
        """Undo `add`."""
        self._roots.remove(root)
        self._loaded = {id: query for id, query in self._loaded.items() if root not in query.path.parents}

    def path(self, id: str) -> Path:
        """The file of that id; where there is none, the one that it would be."""
        kind, _, name = id.partition(".")
        paths = [root / kind / f"{name}.sql" for root in self._roots]
        return next((path for path in paths if path.is_file()), paths[0])

    def get(self, id: str) -> Query:
        """The query of that id (`facts.entry`). Raises BrokenPack when there is none, or its header is wrong."""
        if id not in self._loaded:
            path = self.path(id)
            if path.parent.name not in KINDS or not path.is_file():
                raise BrokenPack(f"there is no query {id}", looked_for=str(path))
            self._loaded[id] = load(path, self)
        return self._loaded[id]

    def ids(self) -> list[str]:
        """The ids of all files, by kind, then name."""
        files = ((kind, path) for kind in KINDS for root in self._roots for path in sorted((root / kind).glob("*.sql")))
        return [f"{kind}.{path.stem}" for kind, path in files]

    def facts_for(self, ids: Iterable[str], has: AbstractSet[str] = EVERY_TABLE) -> list[Query]:
        """The facts that these queries read, directly or not, in an order in which they can be made."""
        graph: dict[str, list[str]] = {}
        todo = list(ids)
        while todo:
            node = todo.pop()
            if node in graph:
                continue
            graph[node] = [read for read in self.get(node).reads_given(has) if read.startswith("facts.")]
            todo.extend(graph[node])
        try:
            order = list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            raise BrokenPack(f"facts read each other in a circle: {' -> '.join(error.args[1])}") from None
        return [self.get(node) for node in order if node.startswith("facts.")]

    def tables_for(self, ids: Iterable[str], has: AbstractSet[str] = EVERY_TABLE) -> list[str]:
        """The tables of evidence (`python.torch_nccl_dump`) that these queries read, directly or not."""
        direct = [self.get(node) for node in ids]
        queries = [*self.facts_for((query.id for query in direct), has), *direct]
        return sorted({read for query in queries for read in query.reads_given(has) if not read.startswith("facts.")})


def load(path: Path, library: Library | None = None) -> Query:
    """Read one .sql file; its folder is its kind. library: for `columns_like`. Raises BrokenPack with file and key."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    count = next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))
    header = _header(path, "\n".join(line[2:].removeprefix(" ") for line in lines[:count]))
    optional = {str(read): _tables(tables) for read, tables in (header.get("optional") or {}).items()}
    if header.get("every_table"):
        optional |= {table.full_name: (table.full_name,) for table in _EVIDENCE}
    params = {name: _parameter(path, name, spec) for name, spec in (header.get("params") or {}).items()}
    body = "\n".join(lines[count:]).strip().removesuffix(";").rstrip()
    if not body:
        raise BrokenPack(f"{path}: there is no statement below the header")
    return Query(
        kind=path.parent.name,
        name=path.stem,
        path=path,
        summary=str(header["summary"]).strip(),
        grain=str(header.get("grain", "")).strip(),
        reads=(*(header.get("reads") or ()), *optional),
        optional=optional,
        params=params,
        columns=_inherited(path, header.get("columns_like"), library or Library(path.parent.parent))
        | dict(header.get("columns") or {}),
        rules=tuple(str(rule) for rule in header.get("rules") or ()),
        per=_per(path, header.get("per")),
        body=body,
    )


def _header(path: Path, text: str) -> dict[str, Any]:
    header = read_yaml(path, text)
    if not isinstance(header, dict) or "summary" not in header:
        raise BrokenPack(f"{path}: the header needs the key `summary`", looked_for="leading `-- key: value` lines")
    unknown = ", ".join(sorted(set(header) - HEADER_KEYS))
    if unknown:
        raise BrokenPack(f"{path}: unknown key in the header: {unknown}", looked_for=", ".join(sorted(HEADER_KEYS)))
    return header


def _inherited(path: Path, like: object, library: Library) -> dict[str, dict[str, str]]:
    """The columns of the query that `columns_like` names: checks hand on what a fact has prepared."""
    if like is None:
        return {}
    source = library.path(str(like))
    if not source.is_file() or source == path:
        raise BrokenPack(f"{path}: columns_like: there is no query {like}", looked_for=str(source))
    return load(source, library).columns


def _described(table: Table, use_global: bool) -> dict[str, Any]:
    """What a template may know of a table. clocks: (column, nanoseconds per unit) of when a row is from."""
    units = {"ns since epoch": 1, "us since epoch": 1000}
    names = {column.name for column in table.columns}
    return {
        "name": table.full_name,
        "relation": f"global.{table.full_name}" if use_global else table.full_name,
        "ranked": "rank" in names,
        "sized": "world_size" in names,
        "clocks": [(c.name, units[c.unit]) for c in table.columns if c.unit in units and c.name != "started_ns"],
    }


def _per(path: Path, given: object) -> str:
    if given not in (None, "rank"):
        raise BrokenPack(f"{path}: per: {given} means nothing", looked_for="per: rank")
    return str(given or "")


def _tables(given: object) -> tuple[str, ...]:
    return tuple(map(str, given)) if isinstance(given, list) else (str(given),)


def _parameter(path: Path, name: str, spec: object) -> Parameter:
    if not isinstance(spec, dict) or spec.get("type") not in TYPES or "default" not in spec:
        raise BrokenPack(f"{path}: params.{name} needs type ({', '.join(TYPES)}), default and doc")
    return Parameter(name, spec["type"], spec["default"], str(spec.get("doc", "")))


def read_yaml(path: Path, text: str) -> Any:
    """Parse YAML of the pack. Raises BrokenPack with file and line."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster where libyaml is built in
    try:
        return yaml.load(text, loader)  # noqa: S506 - both are safe loaders
    except yaml.YAMLError as error:
        raise BrokenPack(f"{path}: not YAML: {' '.join(str(error).split())}") from None


@cache
def _sql_templates() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)


def parameters_used(sql: str) -> Iterator[str]:
    """The `$name`s of a statement, outside text, quoted names and comments."""
    return (match["name"] for match in _TOKEN.finditer(sql) if match["name"])
