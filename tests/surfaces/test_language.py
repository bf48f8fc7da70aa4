"""Findings in Chinese: every check has words, with the same variables; 80 columns where a character takes two."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_guests import EXAMPLE
from tests.surfaces.conftest import Cli
from tests.verdict import ROOT, cases
from whichrank.engine.guests import VARIABLE
from whichrank.engine.language import language_of, sayings
from whichrank.engine.manifest import Pack
from whichrank.engine.runner import diagnose
from whichrank.engine.words import render, variables
from whichrank.surfaces.columns import columns, padded, wrapped
from whichrank.surfaces.text import screen

CHECKS = [(skill.id, check.check) for skill in Pack(guests=False).skills() for check in skill.checks]
HANGS = [name for name in cases() if "healthy" not in name]


def chinese(text: str) -> bool:
    return any("\u4e00" <= character <= "\u9fff" for character in text)


@pytest.mark.parametrize(("skill", "check"), CHECKS)
def test_every_check_says_it_in_chinese_with_the_same_variables(skill: str, check: str) -> None:
    pack = Pack(guests=False)
    english = next(c.says for c in pack.skill(skill).checks if c.check == check)
    said = sayings(pack.skill_path(skill), "zh")
    assert check in said, f"{pack.skill_path(skill).with_name('zh.yaml')} has no words for {check}"
    assert chinese(said[check])
    assert variables(said[check]) == variables(english)


@pytest.mark.parametrize("name", [*HANGS[::4], "nccl_rank_not_joined", "nccl_group_order_deadlock"])
def test_a_screen_in_chinese(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    evidence = Path("fixtures") / name / "evidence"
    found, other = diagnose([evidence], language="zh"), diagnose([evidence])
    assert (found.verdict, found.category, found.culprit_ranks) == (other.verdict, other.category, other.culprit_ranks)
    assert [finding.headline for finding in found.findings] == [finding.headline for finding in other.findings]
    assert all(chinese(finding.says) for finding in found.findings)
    assert not [gap for gap in found.gaps if gap.kind == "broken_words"]
    for line in screen(found, everything=True).splitlines():
        assert columns(line) <= 80 or line.strip().startswith("whichrank ") or " " not in line.strip(), line


def test_from_the_command_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    paths = ["fixtures/nccl_rank_not_joined/evidence", "--json"]
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.delenv("LC_MESSAGES", raising=False)
    for lang, options, expected in [
        ("zh_CN.UTF-8", [], True),
        ("zh_CN.UTF-8", ["--lang", "en"], False),
        ("C.UTF-8", [], False),
        ("C.UTF-8", ["--lang", "zh"], True),
    ]:
        monkeypatch.setenv("LANG", lang)
        found = json.loads(cli("diagnose", *paths, *options).out)
        assert chinese(found["findings"][0]["says"]) is expected
        assert found["verdict"].startswith("rank 2 never joined")
    assert chinese(json.loads(cli("ask", "NCCL 超时", "--run", *paths, "--lang", "zh").out)["findings"][0]["says"])
    assert cli("diagnose", *paths, "--lang", "de").code == 64


@pytest.mark.parametrize(
    ("env", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_TW"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, "zh"),
    ],
)
def test_the_language_of_the_environment(env: dict[str, str], language: str) -> None:
    assert language_of(env) == language


def test_words_in_chinese() -> None:
    row = {"ranks": [0, 1, 3], "waited_s": 12.0, "nobody": None}
    assert (
        render("{{ ranks|ranks }} 等了 {{ waited_s|seconds }}，\n  {{ nobody }}", row, "zh")
        == "rank 0, 1, 3 等了 12 秒，未知"
    )
    assert render("{{ waited_s|seconds }}", {"waited_s": 900}, "zh") == "15 分钟"
    assert render("{{ nobody|seconds }} {{ nobody|ranks }}", row, "zh") == "未知时长未知的 rank"


def test_a_skill_without_chinese_words_speaks_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.jobs.builder import Job

    job = Job(2)
    for _ in range(12):
        job.all_reduce(shape=[4])
    dumps = job.write(tmp_path / "dumps")
    shutil.copytree(EXAMPLE / "whichrank_small_calls", tmp_path / "pack")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "pack"))
    assert diagnose([dumps], "small_calls", language="zh").findings[0].says.startswith("12 of 12 calls")
    (tmp_path / "pack" / "zh.yaml").write_text("small_calls: 共 {{ calls }} 次\n", encoding="utf-8")
    (note,) = Pack().notes()
    assert "zh.yaml: small_calls: " in note
    (tmp_path / "pack" / "zh.yaml").write_text("- 1\n", encoding="utf-8")
    (note,) = Pack().notes()
    assert "zh.yaml" in note


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("一二三四五六", 6, ["一二三", "四五六"]),
        ("一二三，四五六", 6, ["一二", "三，四", "五六"]),
        ("rank 2 停在 #24 之后", 12, ["rank 2 停在", "#24 之后"]),
        ("等待（超时）了", 6, ["等待", "（超", "时）了"]),
        ("", 10, [""]),
    ],
)
def test_lines_of_wide_characters(text: str, width: int, lines: list[str]) -> None:
    assert wrapped(text, width) == lines


@given(st.text(st.sampled_from("ab 一二，。（）é🙂"), max_size=60), st.integers(8, 30))
def test_nothing_is_lost_and_lines_fit(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    for line in lines:
        assert columns(line) <= width or " " not in line


def test_padding_counts_columns() -> None:
    assert padded("一二", 6) == "一二  "
    assert columns("e\u0301一") == 3
