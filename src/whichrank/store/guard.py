"""SQL that somebody else wrote, an agent for example: it can read the evidence, and nothing else.

"Only SELECT" is no fence: `WITH x AS (INSERT ...) SELECT`, `WITH x AS (COPY ...)` and `EXPLAIN ANALYZE INSERT` are of
that type. So there are several, each of them enough for its own kind:

1. the connection: no file system, no network, no extensions, limits on memory and time, and the settings locked;
2. the statement: exactly one, SELECT or EXPLAIN without ANALYZE (with sqlglot installed: no write in its tree);
3. the transaction: READ ONLY, rolled back;
4. the answer: rows and characters are capped by the operator, and a cut is said.

A few functions of DuckDB ignore its limits; what runs strangers' statements in a process of its own adds `confine`.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from whichrank.errors import QueryFailed, QueryRefused, UsageError
from whichrank.store.evidence import Evidence

if TYPE_CHECKING:
    import duckdb

_MIB = 1 << 20
_NAME = 200  # characters of the name of a column
_SLEEPS = re.compile(r"\b(sleep_ms|pg_sleep)\b", re.IGNORECASE)  # not interrupted by max_execution_time
_WORD = re.compile(r"\w+|--|/\*|\S")
_ONE_STATEMENT = "one SELECT, WITH ... SELECT, DESCRIBE, SUMMARIZE, or EXPLAIN without ANALYZE"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one statement may cost. They belong to the operator: WHICHRANK_SQL_ROWS, _CHARACTERS, _SECONDS, _MEMORY_MIB.

    memory_mib: beyond what the evidence itself takes.
    """

    rows: int = 200
    characters: int = 50_000
    seconds: float = 30.0
    memory_mib: int = 2048

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        """The operator's limits, else the defaults. Raises UsageError for a value that is no positive number."""

        def number(name: str, default: float) -> float:
            variable = f"WHICHRANK_SQL_{name}"
            text = environment.get(variable) or str(default)
            try:
                value = float(text)
            except ValueError:
                value = 0
            if not 0 < value < 1e12:
                raise UsageError(f"{variable}={text!r} is no positive number", next=f"unset {variable}")
            return value

        usual = cls()
        return cls(
            rows=math.ceil(number("ROWS", usual.rows)),
            characters=math.ceil(number("CHARACTERS", usual.characters)),
            seconds=number("SECONDS", usual.seconds),
            memory_mib=math.ceil(number("MEMORY_MIB", usual.memory_mib)),
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of one statement. types: DuckDB's names. truncated: there is more; `hint` says how to ask for less."""

    columns: list[str]
    types: list[str]
    rows: list[tuple[Any, ...]]
    truncated: bool
    hint: str | None

    def as_dict(self) -> dict[str, Any]:
        """The JSON form: rows as objects."""
        return {
            "columns": [{"name": n, "type": t} for n, t in zip(self.columns, self.types, strict=True)],
            "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows],
            "truncated": self.truncated,
            "hint": self.hint,
        }


class Guard:
    """Locks the connection of an evidence for good, then runs statements one by one.

    Load what is to be read (`Evidence.load`) and make facts before: shards cannot be read afterwards.
    """

    def __init__(self, evidence: Evidence, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.connection = evidence.connection
        for setting in _settings(self.connection, self.limits):
            self.connection.execute(setting)

    def run(self, sql: str) -> Answer:
        """One statement -> its rows, capped. Raises QueryRefused, QueryFailed."""
        import duckdb

        self._check(sql)
        cursor = self.connection.cursor()  # an own one: a second statement on a connection ends the first result
        try:
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            cursor.execute(sql)
            columns = _distinct(str(column[0]) for column in cursor.description or ())
            types = [str(column[1]) for column in cursor.description or ()]
            rows = cursor.fetchmany(self.limits.rows + 1)
        except duckdb.Error as error:
            raise _failed(error, self.limits) from None
        finally:
            _rollback(cursor)
        return self._capped(columns, types, rows)

    def _check(self, sql: str) -> None:
        import duckdb

        try:
            sql.encode()
        except UnicodeEncodeError:
            raise QueryRefused("the statement is no text: half a surrogate pair", looked_for=_ONE_STATEMENT) from None
        try:
            statements = self.connection.extract_statements(sql)
        except duckdb.Error as error:
            raise QueryFailed(str(error), next="whichrank tables") from None
        if len(statements) != 1:
            raise QueryRefused(f"{len(statements)} statements were given", looked_for=_ONE_STATEMENT)
        try:
            kind = statements[0].type.name
        except ValueError:  # one that the Python client has no name for: UPDATE EXTENSIONS
            kind = "such"
        if kind == "EXPLAIN" and _runs(sql):
            kind = "EXPLAIN ANALYZE"
        if kind not in ("SELECT", "EXPLAIN"):
            raise QueryRefused(f"{kind} statements are not run", looked_for=_ONE_STATEMENT)
        if _SLEEPS.search(sql):
            raise QueryRefused("sleeping is not run", looked_for=_ONE_STATEMENT)
        _second_fence(sql)

    def _capped(self, columns: list[str], types: list[str], rows: list[tuple[Any, ...]]) -> Answer:
        kept: list[tuple[Any, ...]] = []
        left = self.limits.characters - len(json.dumps([columns, types]))
        for row in rows[: self.limits.rows]:
            left -= len(json.dumps(row, default=str))
            if left < 0:
                break
            kept.append(row)
        if len(kept) == len(rows):
            return Answer(columns, types, kept, False, None)
        cap = f"{self.limits.rows} rows" if left >= 0 else f"{self.limits.characters:,} characters"
        hint = f"cut at {cap}: name columns instead of *, filter by rank or group, aggregate, or use LIMIT and OFFSET"
        return Answer(columns, types, kept, True, hint)


def _distinct(names: Iterable[str]) -> list[str]:
    """`a, a` -> `a, a_2`: a JSON object cannot hold one name twice. A name is no way around the cap: it is cut."""
    out: list[str] = []
    for name in names:
        name = name if len(name) <= _NAME else f"{name[:_NAME]}…"
        number, free = 2, name
        while free in out:
            number, free = number + 1, f"{name}_{number}"
        out.append(free)
    return out


def _settings(connection: duckdb.DuckDBPyConnection, limits: Limits) -> list[str]:
    """Each was tried on DuckDB 2.0.1 (tests/store/test_guard.py). GLOBAL: cursors do not inherit a plain SET."""
    used = connection.table_function("duckdb_memory").sum("memory_usage_bytes").fetchall()[0][0]
    return [
        "SET temp_directory = ''",
        "SET enable_external_access = false",
        "SET autoinstall_known_extensions = false",
        "SET autoload_known_extensions = false",
        "SET allow_community_extensions = false",
        f"SET GLOBAL max_execution_time = {int(limits.seconds * 1000)}",
        f"SET memory_limit = '{int(used) // _MIB + limits.memory_mib} MiB'",
        "SET lock_configuration = true",
    ]


def _runs(explain: str) -> bool:
    """Whether an EXPLAIN carries ANALYZE, as a word or in its list of options."""
    import duckdb

    found = (_WORD.match(explain, start) for start, _ in duckdb.tokenize(explain))
    words = [match[0].lower() for match in found if match and match[0] not in ("--", "/*")]
    options = words[1:2]
    if options == ["("]:
        options = words[1 : words.index(")")] if ")" in words else words
    return "analyze" in options or "analyse" in options


def _second_fence(sql: str) -> None:
    """With sqlglot (extra `agent`): refuse a tree that writes anywhere. What it cannot parse is left to the others."""
    try:
        sqlglot = import_module("sqlglot")
    except ImportError:
        return
    try:
        trees = sqlglot.parse(sql, dialect="duckdb")
    except sqlglot.errors.SqlglotError:
        return
    writes = ("Insert", "Update", "Delete", "Merge", "Create", "Drop", "Alter", "Copy", "Attach", "Detach", "Set")
    classes = tuple(getattr(sqlglot.exp, name) for name in writes if hasattr(sqlglot.exp, name))
    for tree in trees:
        found = tree.find(*classes) if tree else None
        if found:
            raise QueryRefused(
                f"{type(found).__name__.upper()} inside the statement is not run", looked_for=_ONE_STATEMENT
            )


def _failed(error: duckdb.Error, limits: Limits) -> QueryFailed:
    text = str(error)
    if "maximum execution time" in text:
        return QueryFailed(f"stopped after {limits.seconds:g} s", next="filter by rank or group first, then join")
    if "Out of Memory" in text:
        return QueryFailed(f"stopped at {limits.memory_mib} MiB of memory", next="aggregate, or name fewer columns")
    return QueryFailed(text, next="whichrank tables" if "does not exist" in text else None)


def _rollback(cursor: duckdb.DuckDBPyConnection) -> None:
    import duckdb

    try:
        cursor.rollback()
    except duckdb.TransactionException:
        pass  # a failed statement may have ended its transaction already
    finally:
        cursor.close()
