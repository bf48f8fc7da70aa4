"""The header of every SQL file says what DuckDB says: columns, parameters, reads. Part of `make check`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

import pytest

from whichrank.engine.manifest import Pack
from whichrank.engine.parameter import Value
from whichrank.engine.query import EVERY_TABLE, Library, parameters_used
from whichrank.engine.runner import Runner
from whichrank.store.evidence import Evidence

pytestmark = pytest.mark.headers
LIBRARY: Library = Pack().library
IDS = LIBRARY.ids()


@cache
def _empty() -> Evidence:
    """All tables without rows, and every fact made of them."""
    evidence = Evidence()
    Runner(Pack(), evidence).make_facts([id for id in IDS if id.startswith("facts.")], {})
    return evidence


def _describe(sql: str, values: dict[str, Value]) -> dict[str, str]:
    used = set(parameters_used(sql))
    result = _empty().connection.execute(f"DESCRIBE {sql}", {n: v for n, v in values.items() if n in used})
    return {row[0]: row[1] for row in result.fetchall()}


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("use_global", [True, False], ids=["global", "local"])
def test_columns(id: str, use_global: bool) -> None:
    query = LIBRARY.get(id)
    assert list(query.columns) == list(_describe(query.render(use_global), query.values({})))


@pytest.mark.parametrize("id", IDS)
def test_columns_are_the_same_without_the_optional_reads(id: str) -> None:
    query = LIBRARY.get(id)
    values = query.values({})
    assert _describe(query.render(True, frozenset()), values) == _describe(query.render(True), values)


@pytest.mark.parametrize("id", IDS)
def test_every_column_is_explained(id: str) -> None:
    query = LIBRARY.get(id)
    assert query.grain
    for name, spec in query.columns.items():
        assert set(spec) <= {"doc", "unit"}, name
        assert spec["doc"].rstrip(")`").endswith((".", "…")), f"{name}: {spec['doc']}"
        for ending, unit in (("_ns", "ns"), ("_ms", "ms"), ("_s", "s"), ("_bytes", "bytes")):
            if name.endswith(ending):
                assert str(spec.get("unit")).startswith(unit), name


@pytest.mark.parametrize("id", IDS)
def test_parameters(id: str) -> None:
    query = LIBRARY.get(id)
    assert set(parameters_used(query.render(True))) | set(parameters_used(query.render(False))) == set(query.values({}))
    for parameter in query.params.values():
        assert parameter.doc
        assert parameter.parse(parameter.default) == parameter.default


def _tables_in(node: object) -> Iterator[str]:
    """schema.table of every base table in DuckDB's own syntax tree; CTEs have no schema."""
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE" and node["schema_name"]:
            yield f"{node['schema_name']}.{node['table_name']}"
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _tables_in(child)


@pytest.mark.parametrize("id", IDS)
def test_reads(id: str) -> None:
    query = LIBRARY.get(id)
    for has in (EVERY_TABLE, frozenset[str]()):
        sql = query.render(True, has)
        rows = _empty().connection.execute("SELECT json_serialize_sql($sql::VARCHAR)", {"sql": sql}).fetchall()
        tree = json.loads(rows[0][0])
        assert not tree["error"], tree
        assert set(_tables_in(tree)) == set(query.reads_given(has))


@pytest.mark.parametrize("id", [id for id in IDS if id.startswith("checks.")])
def test_checks_read_facts_only(id: str) -> None:
    assert all(read.startswith("facts.") for read in LIBRARY.get(id).reads)


@pytest.mark.parametrize("id", IDS)
def test_length(id: str) -> None:
    assert len(LIBRARY.get(id).path.read_text().splitlines()) <= 130
