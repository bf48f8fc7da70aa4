"""watchdog_timeout on answers of NCCL RAS: alone, and beside Flight Recorder dumps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.collectors.test_nccl_ras import shared
from tests.jobs.builder import Job
from tests.jobs.ras import answer, communicator
from tests.verdict import diagnosis_of
from whichrank.engine.diagnosis import Diagnosis
from whichrank.surfaces.text import screen


def verdict(*paths: Path) -> tuple[str | None, list[int]]:
    diagnosis = diagnosis_of(*paths)
    return diagnosis.category, diagnosis.culprit_ranks


def gaps(diagnosis: Diagnosis) -> set[str]:
    return {gap.kind for gap in diagnosis.gaps}


@pytest.fixture
def ras(tmp_path: Path) -> Path:
    return tmp_path / "ras.json"


def test_a_real_answer_alone() -> None:
    diagnosis = diagnosis_of(shared("ray_ras/ncclras_a10g_mismatch.json"))
    assert (diagnosis.category, diagnosis.culprit_ranks, diagnosis.exit_code) == ("rank_not_joined", [1], 1)
    assert "100 collectives against 101" in diagnosis.verdict
    assert gaps(diagnosis) == {"ras_once", "ras_alone"}
    assert all(len(line) <= 80 or line.strip().startswith("whichrank ") for line in screen(diagnosis).splitlines())


def test_equal_counts_are_silent_and_say_what_they_do_not_show(ras: Path) -> None:
    ras.write_text(answer(communicator([7] * 4)))
    diagnosis = diagnosis_of(ras)
    assert (diagnosis.category, diagnosis.findings) == (None, [])
    assert gaps(diagnosis) == {"ras_equal"}


def test_counts_that_rise_are_no_hang(ras: Path) -> None:
    ras.write_text(answer(communicator([7, 7, 7, 6])) + answer(communicator([9, 9, 9, 8]), at="2026-09-23 11:56:37"))
    assert verdict(ras) == (None, [])


def test_counts_that_stay_are_certain(ras: Path) -> None:
    ras.write_text(answer(communicator([7, 7, 7, 6])) + answer(communicator([7, 7, 7, 6]), at="2026-09-23 11:56:37"))
    diagnosis = diagnosis_of(ras)
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("rank_not_joined", [3])
    assert "ras_once" not in gaps(diagnosis)


def test_ranks_are_mapped_through_processes(ras: Path) -> None:
    """Rank 1 of the pair (4, 6) is rank 6, as the communicator of all eight shows; (5, 7) are well."""
    world = communicator([3] * 8, hashed=1)
    ras.write_text(
        answer(world, communicator([9, 8], ranks=[4, 6], hashed=2), communicator([9, 9], ranks=[5, 7], hashed=3))
    )
    assert verdict(ras) == ("rank_not_joined", [6])


def test_without_a_communicator_of_all_no_rank_is_named(ras: Path) -> None:
    ras.write_text(answer(communicator([9, 8], ranks=[4, 6], hashed=2), communicator([9, 9], ranks=[5, 7], hashed=3)))
    diagnosis = diagnosis_of(ras)
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("insufficient_evidence", [])
    assert "pid 6006 on 10.0.0.0" in diagnosis.verdict
    assert "ras_unmapped" in gaps(diagnosis)


def test_who_waits_elsewhere_is_a_victim(ras: Path) -> None:
    """Rank 1 is behind in the world because it waits for rank 2 in the pair."""
    ras.write_text(answer(communicator([9, 8, 8, 9], hashed=1), communicator([4, 3], ranks=[1, 2], hashed=2)))
    assert verdict(ras) == ("rank_not_joined", [2])


def test_a_circle_names_nobody(ras: Path) -> None:
    pairs = (communicator([4, 3], ranks=[0, 1], hashed=2), communicator([3, 4], ranks=[0, 1], hashed=3))
    ras.write_text(answer(communicator([1, 1], hashed=1), *pairs))
    assert verdict(ras) == ("insufficient_evidence", [])


def test_most_behind_names_nobody(ras: Path) -> None:
    ras.write_text(answer(communicator([8, 8, 8, 9])))
    diagnosis = diagnosis_of(ras)
    assert (diagnosis.category, diagnosis.culprit_ranks, diagnosis.exit_code) == ("insufficient_evidence", [], 2)
    assert diagnosis.findings[0].root


def test_only_the_last_are_named(ras: Path) -> None:
    ras.write_text(answer(communicator([9, 8, 7, 9])))
    assert verdict(ras) == ("rank_not_joined", [2])


@pytest.mark.parametrize(("lost", "category"), [("dead", "rank_died"), ("unresponsive", "rank_without_dump")])
def test_lost_processes(ras: Path, lost: str, category: str) -> None:
    """Rank 1 is behind as well, but nobody can tell whether for the sake of rank 3."""
    ras.write_text(answer(communicator([9, 8, 9, None], lost={3: lost})))
    diagnosis = diagnosis_of(ras)
    assert (diagnosis.category, diagnosis.culprit_ranks) == (category, [3])
    assert [finding.ranks for finding in diagnosis.findings if not finding.root] == [[1]]


@pytest.mark.parametrize("status", [{"init_state": 7}, {"finalize_called": True}, {"destroy_flag": True}])
def test_set_up_and_torn_down(ras: Path, status: dict[str, Any]) -> None:
    ras.write_text(answer(communicator([9, 8, 9, 9], **status)))
    diagnosis = diagnosis_of(ras)
    assert (diagnosis.category, diagnosis.findings) == (None, [])
    assert "ras_ending" in gaps(diagnosis)


def test_a_rank_that_is_no_member_yet_is_not_lost(ras: Path) -> None:
    ras.write_text(answer(communicator([0, 0, 0, None])))
    assert verdict(ras) == (None, [])


def test_an_asynchronous_error_is_told(ras: Path) -> None:
    ras.write_text(answer(communicator([9, 8, 9, 9], async_error=6)))
    assert "ras_error" in gaps(diagnosis_of(ras))


def _dumps(folder: Path) -> Path:
    """Rank 2 never joins the fourth of four calls."""
    return Job(4).all_reduce().all_reduce().all_reduce().stop(2).all_reduce().write(folder / "dumps")


def test_beside_dumps_it_agrees(tmp_path: Path, ras: Path) -> None:
    ras.write_text(answer(communicator([4, 4, 3, 4])))
    diagnosis = diagnosis_of(_dumps(tmp_path), ras)
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("rank_not_joined", [2])
    (root,) = (finding for finding in diagnosis.findings if finding.root)
    assert root.shows["NCCL RAS"] == "agrees: rank 2 launched 3 collectives, the others 4"
    assert "ras_disagrees" not in gaps(diagnosis)


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ([4, 4, 4, 4], "disagrees: all members launched 4 collectives"),
        ([4, 3, 4, 4], "disagrees: rank 1 launched 3 collectives, the others 4"),
    ],
)
def test_beside_dumps_it_disagrees(tmp_path: Path, ras: Path, counts: list[int], says: str) -> None:
    ras.write_text(answer(communicator(counts)))
    diagnosis = diagnosis_of(_dumps(tmp_path), ras)
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("rank_not_joined", [2])
    assert [finding.shows["NCCL RAS"] for finding in diagnosis.findings if finding.root] == [says]
    assert "ras_disagrees" in gaps(diagnosis)


def test_it_tells_of_the_rank_that_left_no_dump(tmp_path: Path, ras: Path) -> None:
    dumps = _dumps(tmp_path)
    next(path for path in dumps.iterdir() if path.name.endswith("2")).unlink()
    assert verdict(dumps) == ("rank_without_dump", [2])
    ras.write_text(answer(communicator([4, 4, None, 4], lost={2: "dead"})))
    assert verdict(dumps, ras) == ("rank_died", [2])


def test_a_healthy_job_is_no_hang_whatever_ras_saw(tmp_path: Path, ras: Path) -> None:
    dumps = Job(4).all_reduce().all_reduce().write(tmp_path / "dumps")
    ras.write_text(answer(communicator([2, 2, 1, 2])))
    diagnosis = diagnosis_of(dumps, ras)
    assert diagnosis.category is None
    assert all(finding.severity == "warning" for finding in diagnosis.findings)


def test_text_of_ncclras_says_what_to_type(ras: Path) -> None:
    from whichrank.errors import NoEvidence

    ras.write_text("Job summary\n===========\n\n  Nodes  Processes\n")
    with pytest.raises(NoEvidence, match="ncclras -f json"):
        diagnosis_of(ras)
