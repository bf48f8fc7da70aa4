"""Data that is not ours to ship: the public cases and two real NCCL jobs, where a checkout has them beside it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.verdict import ROOT, as_certain, diagnosis_of, named_besides, truth_of

SHARED = ROOT.parent / "shared"
CASES = SHARED / "tools" / "fr_cases.py"
JOBS = SHARED / "data" / "nvrx" / "fr_traces"
FAULTS = {"LOCK_GIL": "rank_not_joined", "GPU_ERROR": "stuck_on_device"}


@pytest.fixture(scope="module")
def public_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not CASES.is_file():
        pytest.skip("the public cases are not beside this checkout (../shared/tools)")
    folder = tmp_path_factory.mktemp("public")
    subprocess.run([sys.executable, str(CASES), str(folder)], check=True, timeout=120)
    return folder


def test_public_cases(public_cases: Path) -> None:
    wrong = {}
    for folder in sorted(path for path in public_cases.iterdir() if path.is_dir()):
        truth = truth_of(json.loads((folder / "truth.json").read_text()))
        diagnosis = diagnosis_of(folder)
        verdict = diagnosis.category or "no_fault", diagnosis.culprit_ranks
        if not as_certain(verdict, truth) or named_besides(diagnosis, truth):
            wrong[folder.name] = (verdict, truth)
    assert not wrong


@pytest.mark.parametrize("job", ["gpu_error_1st", "lock_gil_1st"])
def test_real_jobs(job: str) -> None:
    folder = JOBS / job
    if not folder.is_dir():
        pytest.skip("the real dumps are not beside this checkout (../shared/data)")
    said = (folder / "fault_injection.log").read_text()
    ranks = sorted(int(rank) for rank in re.findall(r"Rank (\d+), fault_type", said))
    fault = re.search(r"fault_type: (\w+)", said)
    assert fault
    diagnosis = diagnosis_of(folder)
    assert (diagnosis.category, diagnosis.culprit_ranks) == (FAULTS[fault[1]], ranks)
    assert {rank for finding in diagnosis.findings if finding.root for rank in finding.ranks} == set(ranks)
