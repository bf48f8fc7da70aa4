"""whichrank query, tables, skills: what can be looked up, and how it is printed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.surfaces.conftest import Cli
from whichrank.surfaces.grid import grid
from whichrank.tables import TABLES


@pytest.fixture(params=["dumps", "store"])
def path(request: pytest.FixtureRequest, cli: Cli, hang: Path, tmp_path: Path) -> Path:
    if request.param == "dumps":
        return hang
    assert cli("collect", hang, "--into", tmp_path / "store").code == 0
    return tmp_path / "store"


# What is run in this process must not confine it for good.
@pytest.fixture(autouse=True)
def _unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whichrank.store.confine.confine_memory", lambda _: True)


def test_tables_and_facts_as_text(cli: Cli, path: Path) -> None:
    done = cli(
        "query", path, "SELECT rank, count(*) AS calls FROM python.torch_nccl_flight_record GROUP BY rank ORDER BY rank"
    )
    assert (done.code, done.err) == (0, "")
    assert done.out == "rank  calls\n----  -----\n   0      3\n   1      3\n   2      2\n   3      3\n(4 rows)\n"
    facts = cli("query", path, "SELECT DISTINCT rank FROM facts.entry ORDER BY rank LIMIT 1")
    assert facts.out == "rank\n----\n   0\n(1 row)\n"


def test_the_alignment_with_its_parameters(cli: Cli, path: Path) -> None:
    sql = "SELECT collective_seq_id, ranks_seen, missing_ranks FROM statements.collective_alignment ORDER BY 1 DESC"
    everything = json.loads(cli("query", path, sql, "--json").out)["rows"]
    assert everything[0] == {"collective_seq_id": 3, "ranks_seen": 3, "missing_ranks": [2]}
    assert len(everything) == 3
    window = json.loads(cli("query", path, sql, "--param", "seq_window=1", "--json").out)["rows"]
    assert window == everything[:1]
    wrong = cli("query", path, sql, "--param", "window=1")
    assert wrong.code == 64
    assert "seq_window (integer, default 200)" in " ".join(wrong.err.split())
    assert cli("query", path, "SELECT 1", "--param", "seq_window=1").code == 64


def test_formats(cli: Cli, hang: Path) -> None:
    sql = "SELECT 1 AS a, 'x,\"y\"' AS b, [1, 2] AS c, NULL AS d"
    answer = json.loads(cli("query", hang, sql, "--json").out)
    assert answer["rows"] == [{"a": 1, "b": 'x,"y"', "c": [1, 2], "d": None}]
    assert answer["columns"][0] == {"name": "a", "type": "INTEGER"}
    assert answer["truncated"] is False
    assert json.loads(cli("query", hang, sql, "--format", "jsonl").out) == answer["rows"][0]
    table = list(csv.reader(io.StringIO(cli("query", hang, sql, "--format", "csv").out)))
    assert table == [["a", "b", "c", "d"], ["1", 'x,"y"', "[1, 2]", ""]]


def test_a_cut_is_said(cli: Cli, hang: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHICHRANK_SQL_ROWS", "2")
    done = cli("query", hang, "SELECT * FROM range(10)")
    assert done.out.endswith("(2 rows, cut)\n")
    assert "cut at 2 rows" in done.err
    assert json.loads(cli("query", hang, "SELECT * FROM range(10)", "--json").out)["truncated"] is True


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELEC 1", "syntax error"),
        ("DROP VIEW python.torch_nccl_dump", "DROP statements are not run"),
        ("SELECT * FROM read_text('/etc/passwd')", "disabled by configuration"),
        ("SELECT * FROM python.nope", "nope does not exist"),
        ("SELECT 1; SELECT 2", "2 statements"),
    ],
)
def test_mistakes_and_attacks(cli: Cli, hang: Path, sql: str, says: str) -> None:
    done = cli("query", hang, sql)
    assert done.code == 2
    assert says in " ".join(done.err.split())


def test_no_limit_is_taken_from_nonsense(cli: Cli, hang: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHICHRANK_SQL_SECONDS", "soon")
    done = cli("query", hang, "SELECT 1")
    assert done.code == 64
    assert "WHICHRANK_SQL_SECONDS='soon'" in done.err


def test_tables(cli: Cli) -> None:
    listed = cli("tables").out
    assert all(table.full_name in listed for table in TABLES)
    assert "facts.entry" in listed
    one = cli("tables", "torch_nccl_dump").out
    assert one.startswith("python.torch_nccl_dump: ")
    assert "ns since epoch" in one
    data = json.loads(cli("tables", "global.python.torch_nccl_dump", "--json").out)
    assert data["columns"][0].keys() == {"name", "type", "unit", "doc"}
    assert json.loads(cli("tables", "--json").out)[0].keys() == {"name", "grain", "doc"}
    assert "Parameter seq_window (integer, default 200)" in cli("tables", "collective_alignment").out
    near = cli("tables", "flight")
    assert (near.code, "perhaps python.torch_nccl_flight_record" in near.err) == (64, True)


def test_skills(cli: Cli) -> None:
    assert cli("skills").out.splitlines()[2].startswith("watchdog_timeout")
    one = cli("skills", "watchdog-timeout").out
    assert "seq_window (integer, default 200)" in one
    assert json.loads(cli("skills", "--json").out)[0]["id"] == "watchdog_timeout"
    assert "python.backtrace" in json.loads(cli("skills", "training_hang", "--json").out)["needs_any"]


def test_cells_are_bounded_and_printable() -> None:
    text = grid(["a", "b"], [["x" * 100, None], ["tab\tnew\nline", {"k": 1}]])
    assert max(map(len, text.splitlines())) == 60 + 2 + 8
    assert "tab new line" in text
    assert "NULL" in text
    assert grid(["a"], []) == "a\n-\n"
