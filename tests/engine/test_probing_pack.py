"""The pack for probing: every skill is in it, in probing's format, and its SQL runs."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

import whichrank
from whichrank.engine.manifest import Pack
from whichrank.engine.probing_pack import tables_of
from whichrank.engine.query import load

# The columns of probing's table, with its words for unknown; see also tests/live/test_probing.py.
RECORDS = """CREATE TABLE python.torch_nccl_flight_record (timestamp BIGINT, snapshot_id BIGINT, rank BIGINT,
    pg_name VARCHAR, pg_desc VARCHAR, collective_seq_id BIGINT, profiling_name VARCHAR, state VARCHAR,
    input_sizes VARCHAR, is_p2p BIGINT)"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: Path = whichrank.probing_pack()
    return made


def steps(folder: Path, id: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((folder / id / "steps.yaml").read_text(encoding="utf-8"))
    return data


def filled(sql: str, spec: dict[str, Any], use_global: bool) -> str:
    """As probing does it: `{name}` becomes the default of the parameter, or one of its derived variables."""
    names = {parameter["name"]: str(parameter["default"]) for parameter in spec["parameters"]}
    names["global_prefix"] = "global." if use_global else ""
    return re.sub(r"\{(\w+)\}", lambda match: names[match[1]], sql)


# ---- the format ------------------------------------------------------------------------------------------------------
def test_every_skill_is_in_the_pack(folder: Path) -> None:
    catalog = yaml.safe_load((folder / "catalog.yaml").read_text(encoding="utf-8"))
    pack = Pack()
    assert (catalog["apiVersion"], catalog["kind"]) == ("probing.dev/v1", "Catalog")
    assert [skill["id"] for skill in catalog["skills"]] == [entry.id for entry in pack.manifest.skills]
    assert set(catalog["categories"]) == {skill["category"] for skill in catalog["skills"]}
    for entry, skill in zip(catalog["skills"], pack.skills(), strict=True):
        told = steps(folder, skill.id)
        assert entry["path"] == f"{skill.id}/steps.yaml"
        assert (told["apiVersion"], told["kind"], told["metadata"]["id"]) == ("probing.dev/v1", "Skill", skill.id)
        assert told["metadata"]["triggers"]["keywords"] == skill.keywords
        assert [p["name"] for p in told["spec"]["parameters"]] == list(skill.parameters)
        assert f"--skill {skill.id}" in told["spec"]["next_steps"][0]
        assert (folder / skill.id / "SKILL.md").is_file()


def test_steps_are_read_only_with_ids_of_their_own_and_nothing_left_to_fill_in(folder: Path) -> None:
    for skill in Pack().skills():
        spec = steps(folder, skill.id)["spec"]
        ids = [step["id"] for step in spec["steps"]]
        assert ids
        assert len(set(ids)) == len(ids)
        for step in spec["steps"]:
            for use_global in (True, False):
                sql = filled(step["sql"], spec, use_global)
                assert re.match(r"(SELECT|WITH)\b", sql)
                assert not re.search(r"[{}$;]", sql)
        named = {rule["when"].split(" |")[0].removeprefix("step:") for rule in spec["interpretation"]["rules"]}
        assert named <= set(ids)


def test_the_entry_point_leads_to_the_folder(folder: Path) -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    [value] = re.findall(r'\[project\.entry-points\."probing\.skills"\]\nwhichrank = "([^"]+)"', text)
    assert EntryPoint("whichrank", value, "probing.skills").load()() == folder


# ---- the SQL ---------------------------------------------------------------------------------------------------------
def alignment(folder: Path, rows: str) -> list[dict[str, Any]]:
    """The step of watchdog_timeout over entries `rank seq op state`, one per line, in the group 0 of two ranks."""
    spec = steps(folder, "watchdog_timeout")["spec"]
    [sql] = [step["sql"] for step in spec["steps"] if step["id"] == "collective_alignment"]
    with duckdb.connect() as db:
        db.execute("CREATE SCHEMA python")
        db.execute(RECORDS)
        for line in rows.split(","):
            rank, seq, op, state, *rest = line.split()
            values = [1, int(rank), int(seq), f"nccl:{op}", state, rest[0] if rest else "[[4]]"]
            db.execute(
                "INSERT INTO python.torch_nccl_flight_record VALUES (0, ?, ?, '0', 'default_pg', ?, ?, ?, ?, 0)", values
            )
        answer = db.execute(filled(sql, spec, use_global=False))
        names = [column[0] for column in answer.description or []]
        return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


def test_a_rank_that_has_not_come_is_shown(folder: Path) -> None:
    [row] = alignment(folder, "0 1 all_reduce completed, 1 1 all_reduce completed, 0 2 all_reduce scheduled")
    assert (row["collective_seq_id"], row["ranks_seen"], row["ranks_of_group"]) == (2, 1, 2)
    assert (row["ranks_behind"], row["first_rank_behind"]) == (1, 1)


def test_different_calls_are_shown(folder: Path) -> None:
    [row] = alignment(folder, "0 1 all_reduce started, 1 1 all_gather started")
    assert (row["op_min"], row["op_max"], row["ranks_behind"]) == ("nccl:all_gather", "nccl:all_reduce", None)
    [row] = alignment(folder, "0 1 all_reduce started [[4]], 1 1 all_reduce started [[8]]")
    assert (row["input_sizes_min"], row["input_sizes_max"]) == ("[[4]]", "[[8]]")


@pytest.mark.parametrize(
    "rows",
    [
        "0 1 all_reduce completed, 1 1 all_reduce completed",
        "0 1 all_gather started [[4]], 1 1 all_gather started [[8]]",
        "0 1 all_reduce started, 1 1 all_reduce scheduled",
    ],
)
def test_what_is_the_same_everywhere_is_silent(folder: Path, rows: str) -> None:
    assert alignment(folder, rows) == []


def test_headers_say_what_the_statement_gives(folder: Path) -> None:
    root = Pack().library.root / "probing"
    query = load(root / "collective_alignment.sql")
    with duckdb.connect() as db:
        db.execute("CREATE SCHEMA python")
        db.execute(RECORDS)
        columns = [row[0] for row in db.execute(f"DESCRIBE {query.render(False)}", query.values({})).fetchall()]
        assert columns == list(query.columns)
        there = load(root / "tables_there.sql")
        assert [row[0] for row in db.execute(f"DESCRIBE {there.render(False)}").fetchall()] == list(there.columns)


def test_a_skill_names_only_tables_that_probing_has() -> None:
    pack = Pack()
    assert tables_of(pack.skill("watchdog_timeout")) == ["python.torch_nccl_flight_record"]
    assert "nccl.proxy_ops" in tables_of(pack.skill("nccl_culprit_victim"))


# ---- the cache -------------------------------------------------------------------------------------------------------
def test_the_folder_is_written_once_and_mended(folder: Path) -> None:
    before = (folder / "catalog.yaml").stat().st_mtime_ns
    assert whichrank.probing_pack() == folder
    assert (folder / "catalog.yaml").stat().st_mtime_ns == before
    (folder / "catalog.yaml").write_text("other: thing")
    assert whichrank.probing_pack() == folder
    assert "probing.dev/v1" in (folder / "catalog.yaml").read_text()


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = whichrank.probing_pack()
    assert folder.parent == tmp_path
    assert (folder / "catalog.yaml").is_file()
