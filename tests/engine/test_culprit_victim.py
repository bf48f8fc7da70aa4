"""nccl_culprit_victim on rings: who makes the others wait, who only waits, and when nothing is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.test_nccl_ras import shared
from tests.jobs.builder import Job
from tests.jobs.nccl_fixtures import RINGS
from tests.jobs.ring import Ring
from tests.verdict import FIXTURES, ROOT, case, cases, pack
from whichrank.engine.diagnosis import Diagnosis
from whichrank.engine.intake import open_evidence
from whichrank.engine.runner import Runner, diagnose
from whichrank.surfaces.text import screen

SKILL = "nccl_culprit_victim"


def diagnosis_of(*paths: Path, **parameters: Any) -> Diagnosis:
    with open_evidence(paths) as evidence:
        return Runner(pack(), evidence, "PATH").run(SKILL, parameters)


@contextmanager
def facts_of(*paths: Path) -> Iterator[Any]:
    """A connection on which facts.wait_rank stands."""
    with open_evidence(paths) as evidence:
        Runner(pack(), evidence).make_facts(["facts.wait_rank"], {})
        yield evidence.connection


def gaps(diagnosis: Diagnosis) -> set[str]:
    return {gap.kind for gap in diagnosis.gaps}


def verdict(*paths: Path, **parameters: Any) -> tuple[str | None, list[int]]:
    diagnosis = diagnosis_of(*paths, **parameters)
    return diagnosis.category, diagnosis.culprit_ranks


@pytest.mark.parametrize("name", cases(SKILL))
def test_fixtures(name: str, update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    truth = case(name)["truth"]
    diagnosis = diagnose([Path("fixtures") / name / "evidence"], SKILL)
    assert (diagnosis.category or "balanced", diagnosis.culprit_ranks) == (truth["category"], truth["culprit_ranks"])
    assert diagnosis.exit_code == (0 if truth["category"] == "balanced" else 1)
    assert (diagnosis.findings == []) == (truth["category"] == "balanced")
    text = screen(diagnosis) + "\n"
    golden = FIXTURES / name / "expected" / f"{SKILL}.txt"
    if update_golden:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert all(len(line) <= 80 or line.strip().startswith("whichrank ") for line in text.splitlines())


def test_fixtures_are_what_the_builder_writes(tmp_path: Path) -> None:
    assert cases(SKILL) == sorted(RINGS)
    for name, (_, ring, _) in RINGS.items():
        built = Ring(**{k: v for k, v in vars(ring).items() if not k.startswith("_")}).write(
            tmp_path / name, packed=True
        )
        kept = FIXTURES / name / "evidence"
        assert {p.name: p.read_bytes() for p in built.iterdir()} == {p.name: p.read_bytes() for p in kept.iterdir()}


def test_the_slow_gpu_has_most_of_the_wait_and_its_neighbours_only_wait() -> None:
    evidence = FIXTURES / "nccl_ring_slow_gpu" / "evidence"
    (root, victims) = diagnosis_of(evidence).findings
    assert (root.ranks, root.check, root.severity) == ([3], "checks.gpu_late", "error")
    assert root.details["share"] > 0.8
    assert not victims.root
    assert victims.category == "propagated_victim"
    assert {2, 4} <= set(victims.ranks)
    with facts_of(evidence) as connection:
        classes = dict(connection.execute("SELECT rank, class FROM facts.wait_rank").fetchall())
        far = connection.execute("SELECT hops FROM facts.wait_rank WHERE rank = 7").fetchone()
    assert classes[3] == "culprit"
    assert {classes[2], classes[4]} == {"propagated_victim"}
    assert far[0] >= 3, "followed from rank to rank"


@pytest.mark.parametrize(
    ("ring", "expected"),
    [
        (Ring(ranks=4, seqs=3, gpu_us={0: 150.0}, channels=2), ("culprit", [0])),
        (Ring(ranks=2, seqs=3, gpu_us={1: 150.0}), ("culprit", [1])),
        (Ring(ranks=16, seqs=1, gpu_us={9: 300.0}), ("culprit", [9])),
        (Ring(ranks=4, seqs=3, late_us={2: 2500.0}), ("culprit", [2])),
        (Ring(ranks=8, seqs=3, gpu_us={3: 200.0, 6: 200.0}), ("culprit", [3, 6])),
        (Ring(ranks=4, seqs=3, link_us={3: 200.0}), ("network", [0, 3])),
        (Ring(ranks=4, seqs=3, post_us={0: 150.0}), ("receiver_congested", [0])),
        (Ring(ranks=4, seqs=3, jitter=0.9), (None, [])),
        (Ring(ranks=8, seqs=3, gpu_us={3: 13.0}), (None, [])),
    ],
)
def test_rings(ring: Ring, expected: tuple[str | None, list[int]], tmp_path: Path) -> None:
    assert verdict(ring.write(tmp_path)) == expected


def test_communicators_with_the_same_ranks_do_not_mix(tmp_path: Path) -> None:
    """The same eight processes, the same sequence numbers: in one communicator rank 3 is slow, in the other nobody."""
    Ring(gpu_us={3: 200.0}, hashed=1, seqs=2).write(tmp_path)
    Ring(hashed=2, seqs=2).write(tmp_path)
    diagnosis = diagnosis_of(tmp_path)
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("culprit", [3])
    assert {finding.group for finding in diagnosis.findings} == {"NCCL communicator 0x0000000000000001"}
    with facts_of(tmp_path) as connection:
        quiet = connection.execute("SELECT DISTINCT class FROM facts.wait_rank WHERE comm_hash LIKE '%2'").fetchall()
        crossed = connection.execute(
            "SELECT count(*) FROM facts.wait_root WHERE comm_hash LIKE '%2' AND root = 3 AND ns > 1e6"
        )
        assert crossed.fetchone() == (0,)
    assert quiet == [("balanced",)]
    (tmp_path / "other").mkdir()
    Ring(link_us={5: 200.0}, hashed=3, seqs=2).write(tmp_path / "other")
    both = diagnosis_of(tmp_path)
    assert {(f.group[-1:] if f.group else "", f.category, tuple(f.ranks)) for f in both.findings if f.root} == {
        ("1", "culprit", (3,)),
        ("3", "network", (5, 6)),
    }
    assert both.culprit_ranks == [3, 5, 6]


def test_ranks_of_a_pair_are_told_by_their_processes(tmp_path: Path) -> None:
    """Rank 1 of the pair (4, 6) of eight is rank 6."""
    Ring(ranks=8, seqs=1, hashed=1).write(tmp_path)
    Ring(ranks=2, seqs=2, hashed=2, gpu_us={1: 200.0}, pids=[225_004, 225_006]).write(tmp_path)
    assert verdict(tmp_path) == ("culprit", [6])


def test_ranks_that_nothing_tells_are_not_named(tmp_path: Path) -> None:
    for hashed, pids in ((1, [10, 11]), (2, [12, 13])):
        Ring(ranks=2, seqs=2, hashed=hashed, gpu_us={1: 200.0} if hashed == 2 else {}, pids=pids).write(tmp_path)
    diagnosis = diagnosis_of(tmp_path)
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("culprit", [])
    assert "rank 1 of NCCL communicator 0x0000000000000002" in diagnosis.verdict
    assert "ranks_unmapped" in gaps(diagnosis)


def test_a_communicator_smaller_than_the_job_tells_no_global_ranks(tmp_path: Path) -> None:
    """The dumps show eight ranks; the only traces are those of four."""
    dumps = Job(8).all_reduce().write(tmp_path / "dumps")
    traces = Ring(ranks=4, seqs=2, gpu_us={1: 200.0}).write(tmp_path / "traces")
    assert verdict(dumps, traces) == ("culprit", [])


def test_the_window_is_that_of_each_communicator(tmp_path: Path) -> None:
    Ring(ranks=4, seqs=2, gpu_us={1: 200.0}).write(tmp_path / "a")
    Ring(ranks=4, seqs=2, first_seq=2).write(tmp_path / "b")
    assert verdict(tmp_path) == ("culprit", [1])
    assert verdict(tmp_path, seq_window=2) == (None, [])


def test_the_culprit_without_a_trace_is_not_named(tmp_path: Path) -> None:
    Ring(gpu_us={3: 200.0}).write(tmp_path, only=[0, 1, 2, 4, 5, 6, 7])
    diagnosis = diagnosis_of(tmp_path)
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("insufficient_evidence", [])
    assert {"no_trace", "no_known_end"} <= gaps(diagnosis)
    assert "rank 3 of" in next(gap.detail or "" for gap in diagnosis.gaps if gap.kind == "no_trace")


def test_a_victim_without_a_trace_changes_nothing(tmp_path: Path) -> None:
    Ring(gpu_us={3: 200.0}).write(tmp_path, only=[0, 1, 2, 3, 4, 5, 6])
    diagnosis = diagnosis_of(tmp_path)
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("culprit", [3])
    assert diagnosis.coverage.ranks_missing == [7]


def test_one_trace_tells_nothing() -> None:
    diagnosis = diagnosis_of(shared("nccl_samples/example_profiler_allreduce_excerpt.jsonish"))
    assert (diagnosis.category, diagnosis.exit_code) == ("insufficient_evidence", 2)
    assert {"no_trace", "trace_gap", "one_operation"} <= gaps(diagnosis)


def test_without_traces_it_says_how_to_get_them(tmp_path: Path) -> None:
    diagnosis = diagnosis_of(Job(2).all_reduce().write(tmp_path))
    assert diagnosis.category == "insufficient_evidence"
    assert "NCCL_PROFILER_PLUGIN" in diagnosis.gaps[0].says


def test_a_trace_collected_twice_counts_once(tmp_path: Path) -> None:
    folder = Ring(ranks=4, seqs=2, gpu_us={1: 200.0}).write(tmp_path / "a")
    for path in folder.iterdir():
        (folder / f"copy_{path.name}").write_bytes(path.read_bytes())
    with facts_of(folder) as connection:
        twice = connection.execute("SELECT sum(data_ns) FROM facts.proxy_edge").fetchone()
    for path in folder.glob("copy_*"):
        path.unlink()
    with facts_of(folder) as connection:
        assert connection.execute("SELECT sum(data_ns) FROM facts.proxy_edge").fetchone() == twice
