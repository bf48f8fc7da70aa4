"""Recorded and built fixtures: the truth, the screen a person sees, and that the order of files is nothing."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.verdict import FIXTURES, ROOT, as_certain, case, cases, diagnosis_of, named_besides, truth_of, verdict_of
from whichrank.engine.runner import diagnose
from whichrank.surfaces.text import screen


@pytest.mark.parametrize("name", cases())
def test_truth(name: str) -> None:
    truth = truth_of(case(name)["truth"])
    diagnosis = diagnosis_of(FIXTURES / name / "evidence")
    assert as_certain((diagnosis.category or "no_fault", diagnosis.culprit_ranks), truth), diagnosis.verdict
    assert not named_besides(diagnosis, truth)
    assert diagnosis.exit_code == {"no_fault": 0, "insufficient_evidence": 2}.get(diagnosis.category or "no_fault", 1)
    if truth.category == "no_fault":
        assert diagnosis.findings == []


@pytest.mark.parametrize("name", cases())
def test_screen(name: str, update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person sees at 80 columns, pinned; the path is given as a reader of the repository would."""
    monkeypatch.chdir(ROOT)
    text = screen(diagnose([Path("fixtures") / name / "evidence"])) + "\n"
    golden = FIXTURES / name / "expected" / "watchdog_timeout.txt"
    if update_golden:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert all(len(line) <= 80 or line.strip().startswith("whichrank ") for line in text.splitlines())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["gloo_rank_asleep", "nccl_group_order_deadlock", "nccl_size_mismatch"])
def test_order_of_files(name: str, seed: int, tmp_path: Path) -> None:
    """Names that sort in any order, spread over folders: the verdict does not move."""
    files = sorted(path for path in (FIXTURES / name / "evidence").iterdir() if path.is_file())
    random.Random(seed).shuffle(files)
    for place, path in enumerate(files):
        folder = tmp_path / f"node{place % 2}"
        folder.mkdir(exist_ok=True)
        rank = path.name.rsplit("_", 1)[1]
        shutil.copy(path, folder / f"{place:03d}_trace_{rank}")
    assert verdict_of(tmp_path) == verdict_of(FIXTURES / name / "evidence")
    assert verdict_of(*(tmp_path / f"node{n}" for n in (1, 0))) == verdict_of(tmp_path)
