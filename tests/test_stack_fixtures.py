"""Recorded stacks: the truth, and the screen a person sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verdict import FIXTURES, ROOT, as_certain, case, cases, named_besides, truth_of
from whichrank.engine.runner import diagnose
from whichrank.surfaces.text import screen

NAMES = cases("training_hang")


def evidence(name: str) -> list[Path]:
    """The paths as a reader of the repository would give them."""
    folder = Path("fixtures") / name / "evidence"
    return [folder / "dumps", folder / "stacks"] if (ROOT / folder / "dumps").is_dir() else [folder]


@pytest.mark.parametrize("name", NAMES)
def test_truth(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    truth = truth_of(case(name)["truth"])
    diagnosis = diagnose(evidence(name), "training_hang")
    assert as_certain((diagnosis.category or "no_fault", diagnosis.culprit_ranks), truth), diagnosis.verdict
    assert not named_besides(diagnosis, truth)
    assert diagnosis.exit_code == {"no_fault": 0, "insufficient_evidence": 2}.get(diagnosis.category or "no_fault", 1)
    if truth.category == "no_fault":
        assert diagnosis.findings == []


@pytest.mark.parametrize("name", NAMES)
def test_screen(name: str, update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for skill in ("training_hang", *(["watchdog_timeout"] if len(evidence(name)) > 1 else [])):
        text = screen(diagnose(evidence(name), skill)) + "\n"
        golden = FIXTURES / name / "expected" / f"{skill}.txt"
        if update_golden:
            golden.parent.mkdir(exist_ok=True)
            golden.write_text(text, encoding="utf-8")
        assert text == golden.read_text(encoding="utf-8")
        assert all(len(line) <= 80 or line.strip().startswith("whichrank ") for line in text.splitlines())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("stacks_data_loader", "rank 2 stands in data loading"),
        ("stacks_checkpoint", "rank 0 stands in checkpoint I/O"),
        ("stacks_gil_sleep", "keeps the interpreter lock (GIL)"),
        ("stacks_rank_stopped", "rank 1: stopped by a signal"),
        ("stacks_symmetric", "no rank stands out"),
    ],
)
def test_the_place_is_said_in_words(name: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert words in diagnose(evidence(name), "training_hang").verdict


def test_the_witness_of_watchdog_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (root,) = diagnose(evidence("stacks_data_loader")).findings
    assert root.shows["now on rank 2"].startswith("data loading, stands.py:")
