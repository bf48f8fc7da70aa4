"""Reading .sql files: header, structure, values, order, and the printed form."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from whichrank.engine.parameter import Parameter, Value, literal
from whichrank.engine.query import Library, parameters_used
from whichrank.errors import BrokenPack, UsageError

SQL = """
-- summary: "Ranks: those above a limit."
-- grain: one rank
-- reads: [python.t, facts.a]
-- params:
--   above: {type: integer, default: 3, doc: Limit.}
--   name: {type: text, default: null, doc: Name.}
--   use_global: {type: boolean, default: true, doc: Every rank.}
-- columns:
--   rank: {doc: Global rank.}
-- rules: [P2, V3]
-- no: header
"""


def _library(tmp_path: Path, files: dict[str, str]) -> Library:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.strip() + "\n")
    return Library(tmp_path)


def _check(tmp_path: Path, body: str, header: str = SQL.replace("-- no: header\n", "")) -> Library:
    return _library(tmp_path, {"checks/c.sql": header + body})


def test_header_and_statement(tmp_path: Path) -> None:
    query = _check(tmp_path, "SELECT rank FROM {{ python }}.t -- a note\nWHERE rank > $above;").get("checks.c")
    assert (query.summary, query.grain, query.reads) == (
        "Ranks: those above a limit.",
        "one rank",
        ("python.t", "facts.a"),
    )
    assert query.rules == ("P2", "V3")
    assert query.columns == {"rank": {"doc": "Global rank."}}
    assert query.params["above"] == Parameter("above", "integer", 3, "Limit.")
    assert query.render(True) == "SELECT rank FROM global.python.t -- a note\nWHERE rank > $above"
    assert query.render(False).startswith("SELECT rank FROM python.t")
    assert query.values({"above": 7, "other": 1}) == {"above": 7, "name": None}


def test_optional_blocks(tmp_path: Path) -> None:
    query = _check(tmp_path, "SELECT 1{% if use_global %} AS everywhere{% endif %}").get("checks.c")
    assert query.render(True) == "SELECT 1 AS everywhere"
    assert query.render(False) == "SELECT 1"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("SELECT {{ pythn }}.t", "'pythn' is undefined"),
        ("SELECT {% if %}", "does not render"),
        ("SELECT {{ ''.__class__.__mro__ }}", "unsafe"),
        ("", "no statement"),
    ],
)
def test_broken_statements(tmp_path: Path, body: str, says: str) -> None:
    with pytest.raises(BrokenPack, match=says) as broken:
        _check(tmp_path, body).get("checks.c").render(True)
    assert "c.sql" in broken.value.what


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("-- just a comment\n", "needs the key `summary`"),
        ("-- summary: [\n", "not YAML"),
        ("-- summary: x\n-- sumary: y\n", "unknown key in the header: sumary"),
        ("-- summary: x\n-- params:\n--   n: {type: int, default: 1}\n", r"params\.n needs type"),
        ("-- summary: x\n-- params:\n--   n: {type: integer}\n", r"params\.n needs type"),
        ("-- summary: x\n-- columns_like: facts.nope\n", "columns_like"),
    ],
)
def test_broken_headers(tmp_path: Path, header: str, says: str) -> None:
    with pytest.raises(BrokenPack, match=says):
        _check(tmp_path, "SELECT 1", header).get("checks.c")


def _fact(reads: str) -> str:
    return f"-- summary: x\n-- reads: [{reads}]\nSELECT 1 AS a"


def test_facts_in_the_order_they_can_be_made(tmp_path: Path) -> None:
    library = _library(
        tmp_path,
        {
            "facts/a.sql": _fact("python.t"),
            "facts/b.sql": _fact("facts.a, nccl.u"),
            "facts/c.sql": _fact("facts.b, facts.a"),
            "facts/unused.sql": _fact("python.v"),
            "checks/k.sql": _fact("facts.c, python.w"),
        },
    )
    assert [query.id for query in library.facts_for(["checks.k"])] == ["facts.a", "facts.b", "facts.c"]
    assert library.tables_for(["checks.k"]) == ["nccl.u", "python.t", "python.w"]
    assert library.ids() == ["facts.a", "facts.b", "facts.c", "facts.unused", "checks.k"]


def test_an_optional_read_is_left_out_without_rows(tmp_path: Path) -> None:
    body = "SELECT 1 AS a{% if 'nccl.u' in has %} UNION ALL FROM facts.b{% endif %}"
    files = {
        "facts/a.sql": _fact("python.t"),
        "facts/b.sql": _fact("facts.a"),
        "checks/k.sql": f"-- summary: x\n-- reads: [python.w]\n-- optional: {{facts.b: [nccl.u, nccl.v]}}\n{body}",
    }
    library = _library(tmp_path, files)
    query = library.get("checks.k")
    assert query.reads == ("python.w", "facts.b")
    assert query.render(True, {"python.w"}) == "SELECT 1 AS a"
    assert query.render(True, {"nccl.u"}).endswith("facts.b")
    assert library.facts_for(["checks.k"], {"python.w"}) == []
    assert library.tables_for(["checks.k"], {"python.w"}) == ["python.w"]
    assert [fact.id for fact in library.facts_for(["checks.k"], {"nccl.v"})] == ["facts.a", "facts.b"]
    assert library.tables_for(["checks.k"], {"nccl.v"}) == ["python.t", "python.w"]


def test_circles_and_missing_facts_are_named(tmp_path: Path) -> None:
    library = _library(
        tmp_path, {"facts/a.sql": _fact("facts.b"), "facts/b.sql": _fact("facts.a"), "facts/c.sql": _fact("facts.d")}
    )
    with pytest.raises(BrokenPack, match=r"circle: facts\.(a -> facts\.b|b -> facts\.a) -> "):
        library.facts_for(["facts.a"])
    with pytest.raises(BrokenPack, match=r"no query facts\.d"):
        library.facts_for(["facts.c"])
    for id in ("facts.nope", "secrets.a", "nope"):
        with pytest.raises(BrokenPack, match="there is no query"):
            library.get(id)


def test_printed_statements_run_anywhere(tmp_path: Path) -> None:
    body = """SELECT $above + 1 AS a, '$above -- $name' AS b, "x" AS c, $name AS d -- $above
        FROM (SELECT 5 AS "x") WHERE x > $above"""
    printed = _check(tmp_path, body).get("checks.c").printable(True, {"name": "o'h -- no"})
    assert printed.startswith("-- checks.c: Ranks: those above a limit.\n")
    assert duckdb.execute(printed).fetchall() == [(4, "$above -- $name", 5, "o'h -- no")]
    assert sorted(set(parameters_used(body))) == ["above", "name"]


def test_facts_become_tables(tmp_path: Path) -> None:
    query = _library(tmp_path, {"facts/a.sql": _fact("python.t")}).get("facts.a")
    assert query.statement(True) == "CREATE OR REPLACE TABLE facts.a AS\nSELECT 1 AS a"


@pytest.mark.parametrize(
    ("type_", "given", "value"),
    [
        ("integer", "200", 200), ("integer", -1, -1), ("integer", "null", None), ("integer", None, None),
        ("boolean", "False", False), ("boolean", True, True), ("boolean", "1", True), ("boolean", "off", False),
        ("double", "0.5", 0.5), ("double", 2, 2.0), ("text", "a b", "a b"),
    ],
)  # fmt: skip
def test_values_of_parameters(type_: str, given: object, value: Value) -> None:
    parsed = Parameter("p", type_, None, "doc").parse(given)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("type_", "given"), [("integer", "1.5"), ("integer", True), ("boolean", "maybe"), ("double", "x")]
)
def test_wrong_values_say_what_was_wanted(type_: str, given: object) -> None:
    with pytest.raises(UsageError, match=f"parameter p: .* is not of type {type_}") as wrong:
        Parameter("p", type_, None, "doc").parse(given)
    assert str(wrong.value.next).startswith("--param p=")


@pytest.mark.parametrize("value", [None, True, False, 3, -7, 0.25, "it's", ""])
def test_literals(value: Value) -> None:
    assert duckdb.execute(f"SELECT {literal(value)}").fetchall() == [(value,)]
