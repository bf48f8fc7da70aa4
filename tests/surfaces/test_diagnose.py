"""whichrank diagnose, from dumps on disk to text, JSON and SQL."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
from pathlib import Path

import duckdb
import pytest

from tests.surfaces.conftest import Cli

KEYS = ["skill", "category", "culprit_ranks", "verdict", "findings", "gaps", "coverage", "next", "ran"]


def test_findings_exit_1(cli: Cli, hang: Path) -> None:
    done = cli("diagnose", hang)
    assert done.code == 1
    assert done.out.startswith("watchdog_timeout: rank 2 never joined")
    assert re.search(r"\n4 ranks, \d+ records, \d+\.\d s\. The statements: --sql\n$", done.out)
    assert done.err == ""


def test_nothing_found_exits_0(cli: Cli, healthy: Path) -> None:
    done = cli("diagnose", healthy)
    assert done.code == 0
    assert "no_fault" in done.out


def test_json_has_its_keys(cli: Cli, hang: Path, healthy: Path) -> None:
    found = json.loads(cli("diagnose", hang, "--json").out)
    assert list(found) == KEYS
    assert (found["category"], found["culprit_ranks"]) == ("rank_not_joined", [2])
    assert found["verdict"] == found["findings"][0]["headline"]
    assert found["findings"][0]["evidence"]
    assert found["next"][0] == {
        "command": f"whichrank diagnose {hang} --skill training_hang --param rank=2",
        "skill": "training_hang",
        "parameters": {"rank": 2},
    }
    assert found["coverage"]["ranks_seen"] == [0, 1, 2, 3]
    nothing = json.loads(cli("diagnose", healthy, "--json").out)
    assert list(nothing) == KEYS
    assert (nothing["category"], nothing["culprit_ranks"], nothing["findings"]) == (None, [], [])


def test_the_order_of_files_changes_nothing(cli: Cli, hang: Path) -> None:
    files = sorted(hang.iterdir())
    first, second = (json.loads(cli("diagnose", *order, "--json").out) for order in (files, files[::-1]))
    for answer in (first, second):
        del answer["ran"], answer["next"]
        for finding in answer["findings"]:
            del finding["next"]
    assert first == second


def test_collected_dumps_give_the_same_verdict(cli: Cli, hang: Path, tmp_path: Path) -> None:
    store = tmp_path / "a store"
    done = cli("collect", hang, "--into", store)
    assert (done.code, done.out) == (0, f"4 ranks, 11 records -> {store}\n")
    assert cli("collect", hang, "--into", store).code == 0, "twice changes nothing"
    expected = json.loads(cli("diagnose", hang, "--json").out)
    got = json.loads(cli("diagnose", store, "--json").out)
    for key in ("category", "culprit_ranks", "verdict", "gaps", "coverage"):
        assert got[key] == expected[key]
    assert got["next"][0]["command"].startswith(f"whichrank diagnose '{store}' --skill")


@pytest.mark.parametrize("source", ["dumps", "store"])
def test_the_printed_script_runs_in_a_bare_client(
    cli: Cli, hang: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    cli("collect", hang, "--into", "STORE")
    done = cli("diagnose", hang if source == "dumps" else "STORE", "--sql")
    assert done.code == 1
    assert ("whichrank collect" in done.out) == (source == "dumps")
    with duckdb.connect() as bare:
        result = bare.execute(done.out)
        assert [column[0] for column in result.description or ()][:2] == ["category", "culprit_ranks"]
        assert [row[:2] for row in result.fetchall()] == [("rank_not_joined", [2])]


def test_json_with_sql_has_every_statement(cli: Cli, hang: Path) -> None:
    found = json.loads(cli("diagnose", hang, "--json", "--sql").out)
    assert list(found) == KEYS
    assert all(ran["sql"].rstrip().endswith(";") for ran in found["ran"])
    assert found["findings"][0]["check"] in [ran["name"] for ran in found["ran"]]


def test_a_skill_that_lacks_its_tables_exits_2(cli: Cli, hang: Path) -> None:
    done = cli("diagnose", hang, "--skill", "training_hang", "--param", "rank=2")
    assert done.code == 2
    assert "there are no rows in python.backtrace" in " ".join(done.out.split())
    assert "py-spy" in done.out
    found = json.loads(cli("diagnose", hang, "--skill", "nccl-culprit-victim", "--json").out)
    assert (found["skill"], found["category"]) == ("nccl_culprit_victim", "insufficient_evidence")


def test_a_missing_dump_is_a_gap(cli: Cli, hang: Path, tmp_path: Path) -> None:
    some = shutil.copytree(hang, tmp_path / "some")
    sorted(some.iterdir())[0].unlink()
    done = cli("diagnose", some)
    assert done.code == 1
    assert "3 of 4 ranks left a dump" in done.out
    assert "rank 0 left no dump" in done.out


def test_a_file_that_cannot_be_read_is_said(cli: Cli, hang: Path, tmp_path: Path) -> None:
    some = shutil.copytree(hang, tmp_path / "some")
    link = sorted(some.iterdir())[3]
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    done = cli("diagnose", some)
    assert done.code == 1
    assert f"{link} cannot be read" in done.out.replace("\n            ", " ")


class _Calls:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


def test_a_pickle_that_calls_something_is_not_obeyed(cli: Cli, hang: Path, tmp_path: Path) -> None:
    mixed = shutil.copytree(hang, tmp_path / "mixed")
    made = tmp_path / "made"
    evil = sorted(mixed.iterdir())[3]
    evil.write_bytes(pickle.dumps({"version": "2.10", "pg_config": {}, "entries": [_Calls(made)]}, 2))
    done = cli("diagnose", mixed)
    assert not made.exists()
    assert done.code == 1
    assert "mkdir" in done.out, "it is said, with what it named"
    alone = cli("diagnose", evil)
    assert not made.exists()
    assert alone.code == 2
    assert "mkdir" in alone.err
