"""whichrank ask: words to a skill, and to a named rank in one call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.surfaces.conftest import Cli

LINE = (
    "[rank3]:[E904 10:02:11.120000001 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=10, NumelOut=10, Timeout(ms)=600000) ran for 600012 milliseconds "
    "before timing out."
)


def test_from_a_watchdog_line_to_a_named_rank(cli: Cli, hang: Path) -> None:
    done = cli("ask", LINE, "--run", hang)
    assert done.code == 1
    assert done.out.startswith("watchdog_timeout: rank 2 never joined")
    found = json.loads(cli("ask", LINE, "--run", hang, "--json").out)
    assert (found["skill"], found["culprit_ranks"]) == ("watchdog_timeout", [2])


@pytest.mark.skipif(not Path("../shared/data/logs").is_dir(), reason="the recorded logs are not here")
def test_from_a_recorded_watchdog_line_to_a_named_rank(cli: Cli, hang: Path) -> None:
    lines = [
        line
        for file in sorted(Path("../shared/data/logs").rglob("*"))
        if file.is_file()
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines()
        if "Watchdog caught collective operation timeout" in line
    ]
    assert lines
    for line in dict.fromkeys(lines[:3]):
        found = json.loads(cli("ask", line, "--run", hang, "--json").out)
        assert (found["skill"], found["culprit_ranks"]) == ("watchdog_timeout", [2])


def test_words_are_joined_and_the_best_comes_first(cli: Cli) -> None:
    done = cli("ask", "NCCL", "watchdog", "超时")
    assert done.code == 0
    assert done.out.startswith("watchdog_timeout: ")
    assert "whichrank diagnose PATH --skill watchdog_timeout" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_json(cli: Cli) -> None:
    routing = json.loads(cli("ask", "训练卡住", "--json").out)
    assert list(routing) == ["text", "matches", "searched", "next"]
    assert [match["skill"] for match in routing["matches"]] == ["training_hang", "watchdog_timeout"]
    assert routing["next"] == "whichrank diagnose PATH --skill training_hang"


def test_a_line_that_looks_like_an_option(cli: Cli, hang: Path) -> None:
    line = "- [0] Timeout at collective: ALLREDUCE, #31"
    found = json.loads(cli("ask", line, "--json").out)
    assert (found["text"], found["matches"][0]["skill"]) == (line, "watchdog_timeout")
    assert cli("ask", line, f"--run={hang}").code == 1
    assert cli("ask", "timeout", "--jsno").code == 64


def test_nothing_fits(cli: Cli, hang: Path) -> None:
    done = cli("ask", "how do I install it")
    assert done.code == 2
    assert "searched" in done.out
    assert "watchdog_timeout" in done.out
    assert json.loads(cli("ask", "how do I install it", "--json").out)["matches"] == []
    error = json.loads(cli("ask", "how do I install it", "--run", hang, "--json").out)
    assert error["error"] == "no skill fits these words"
    assert error["next"] == "whichrank skills"


def test_wrong_calls(cli: Cli, hang: Path) -> None:
    assert cli("ask", "timeout", "--param", "seq_window=3").code == 64
    error = json.loads(cli("ask", "timeout", "--run", hang, "--param", "seq_window=x", "--json").out)
    assert set(error) == {"error", "looked_for", "next"}
    assert cli("ask").code == 64
