"""Other people's skills: installed or named in WHICHRANK_SKILLS, run, and left out where they are broken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.jobs.builder import Job
from whichrank.engine.guests import VARIABLE
from whichrank.engine.manifest import Pack
from whichrank.engine.routing import route
from whichrank.engine.runner import diagnose
from whichrank.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "docs" / "example-pack"
SKILL = EXAMPLE / "whichrank_small_calls"
Edit = Callable[[Path], object]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example skill in a folder of its own, which WHICHRANK_SKILLS names."""
    folder = tmp_path / "packs" / "small-calls"
    shutil.copytree(SKILL, folder)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "packs"))
    return folder


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks that call all_reduce on a few elements a dozen times."""
    job = Job(2)
    for _ in range(12):
        job.all_reduce(shape=[4])
    return job.write(tmp_path_factory.mktemp("chatty"))


def replaced(file: str, old: str, new: str) -> Edit:
    def edit(folder: Path) -> None:
        path = folder / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    return edit


def test_installed_with_pip_it_is_found_and_run(tmp_path: Path, chatty: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "site"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", target, source], check=True, timeout=300)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(target)])}
    env.pop(VARIABLE, None)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "whichrank", *map(str, arguments)]
        return subprocess.run(command, env=env, text=True, capture_output=True, check=False, timeout=300)

    listed = json.loads(run("skills", "--json").stdout)
    assert [skill["id"] for skill in listed] == [entry.id for entry in Pack().manifest.skills] + ["small_calls"]
    done = run("diagnose", chatty, "--skill", "small_calls", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert (found["category"], found["culprit_ranks"]) == ("small_calls", [])
    assert found["next"][-1]["skill"] == "watchdog_timeout"
    asked = run("ask", "many small collectives", "--run", chatty, "--json")
    assert json.loads(asked.stdout)["skill"] == "small_calls"


@pytest.mark.parametrize("place", ["itself", "above", "beside"])
def test_a_folder_in_the_variable(place: str, copy: Path, chatty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = copy.parent.parent / "elsewhere"
    other.mkdir()
    value = {"itself": str(copy), "above": str(copy.parent), "beside": f"{other}{os.pathsep}{copy}"}[place]
    monkeypatch.setenv(VARIABLE, value)
    pack = Pack()
    assert diagnose([chatty], "small-calls", pack=pack).category == "small_calls"
    assert diagnose([chatty], "small_calls", {"small_numel": 0}, pack=pack).category is None
    assert pack.notes() == (
        [f"{other}: left out: no skill.yaml in it or one folder below"] if place == "beside" else []
    )
    assert route("小张量", pack).matches[0].skill == "small_calls"
    assert diagnose([chatty], pack=pack).category is None


@pytest.mark.parametrize(
    ("edit", "file", "why"),
    [
        (replaced("skill.yaml", "checks:", "checks: ["), "skill.yaml", "not YAML"),
        (replaced("skill.yaml", "question:", "questions:"), "skill.yaml", "question"),
        (replaced("skill.yaml", "id: small_calls", "id: watchdog_timeout"), "skill.yaml", "there is a skill"),
        (replaced("skill.yaml", "id: small_calls", "id: Small Calls"), "skill.yaml", "is no name"),
        (replaced("skill.yaml", "{{ calls }}", "{{ kalls }}"), "skill.yaml", "no column kalls"),
        (
            replaced("skill.yaml", "check: small_calls", "check: large_calls"),
            "skill.yaml",
            "no query checks.large_calls",
        ),
        (replaced("skill.yaml", "skill: watchdog_timeout", "skill: nobody"), "skill.yaml", "no skill nobody"),
        (replaced("skill.yaml", "python.torch_nccl_dump", "python.torch"), "skill.yaml", "no table python.torch"),
        (replaced("skill.yaml", "verdict: small_calls_verdict", "tags2: x"), "skill.yaml", "tags2"),
        (replaced("skill.yaml", "verdict: small_calls_verdict\n", ""), "skill.yaml", "a verdict"),
        (replaced("sql/facts/small_call.sql", "facts.op,", "facts.opp,"), "small_call.sql", "no facts.opp"),
        (replaced("sql/facts/small_call.sql", "summary:", "sumary:"), "small_call.sql", "summary"),
        (replaced("sql/facts/small_call.sql", "WITH", "WITTH"), "small_call.sql", "syntax error"),
        (replaced("sql/facts/small_call.sql", "WITH", "DROP TABLE x; WITH"), "small_call.sql", "not one SELECT"),
        (replaced("sql/facts/small_call.sql", "WITH", "{% if %}"), "small_call.sql", "does not render"),
        (lambda folder: (folder / "sql/facts/op.sql").write_text("SELECT 1"), "skill.yaml", "query facts.op already"),
        (lambda folder: (folder / "sql/facts/small_call.sql").unlink(), "small_calls.sql", "no facts.small_call"),
        (lambda folder: (folder / "skill.yaml").write_bytes(b"\xff\xfe\x00"), "skill.yaml", "decode"),
        (lambda folder: (folder / "skill.yaml").write_text("- 1"), "skill.yaml", ""),
    ],
    ids=range(19),
)
def test_a_broken_one_is_left_out_with_one_note(edit: Edit, file: str, why: str, copy: Path) -> None:
    sound = copy.parent / "z-sound"
    shutil.copytree(copy, sound)
    for path in sound.rglob("*"):  # the same under other names
        if path.is_file():
            text = path.read_text(encoding="utf-8").replace("small_call", "little_call")
            path.with_name(path.name.replace("small_call", "little_call")).write_text(text, encoding="utf-8")
            if "small_call" in path.name:
                path.unlink()
    edit(copy)
    pack = Pack()
    ids = [skill.id for skill in pack.skills()]
    assert ids == [entry.id for entry in pack.manifest.skills] + ["little_calls"]
    (note,) = pack.notes()
    assert str(copy) in note
    assert file in note
    assert why in note
    assert "\n" not in note
    with pytest.raises(UsageError, match="there is no skill small_calls"):
        pack.skill("small_calls")


def test_a_place_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "gone"))
    assert Pack().notes() == [f"{tmp_path / 'gone'}: left out: there is no such folder"]


@pytest.mark.parametrize("body", ["raise RuntimeError('no luck')", "def folder(): return 7", "folder = None"])
def test_an_entry_point_that_fails(body: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "unlucky_pack.py").write_text(body, encoding="utf-8")
    info = tmp_path / "unlucky-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: unlucky\nVersion: 1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[whichrank.skills]\nx = unlucky_pack:folder\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("unlucky_pack", None)
    (note,) = Pack().notes()
    assert "unlucky_pack:folder" in note
    sys.modules.pop("unlucky_pack", None)


def test_our_own_skills_do_not_look_for_others(copy: Path, monkeypatch: pytest.MonkeyPatch, chatty: Path) -> None:
    monkeypatch.setattr("whichrank.engine.guests.Guests.find", lambda self, pack: pytest.fail("looked"))
    assert diagnose([chatty]).category is None
