"""comm_bottleneck: late ranks, slow communication, slow communicators, and when nothing is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.test_nccl_inspector import WAITS
from tests.collectors.test_nccl_ras import shared
from tests.jobs.builder import Job
from tests.jobs.inspector import Perf, proxy_records
from tests.verdict import pack
from whichrank.engine.diagnosis import Diagnosis
from whichrank.engine.intake import open_evidence
from whichrank.engine.runner import Runner
from whichrank.surfaces.text import screen

SKILL = "comm_bottleneck"


def diagnosis_of(*paths: Path, skill: str = SKILL, **parameters: Any) -> Diagnosis:
    with open_evidence(paths) as evidence:
        return Runner(pack(), evidence, "PATH").run(skill, parameters)


def verdict(*paths: Path, **parameters: Any) -> tuple[str | None, list[int]]:
    diagnosis = diagnosis_of(*paths, **parameters)
    return diagnosis.category, diagnosis.culprit_ranks


def gaps(diagnosis: Diagnosis) -> set[str]:
    return {gap.kind for gap in diagnosis.gaps}


@pytest.mark.parametrize(
    "perf", [Perf(), Perf(noise_us=400.0), Perf(ranks=(0, 1), noise_us=300.0), Perf(version="v4.3")]
)
def test_balanced_is_silent(perf: Perf, tmp_path: Path) -> None:
    diagnosis = diagnosis_of(perf.write(tmp_path))
    assert (diagnosis.category, diagnosis.findings, diagnosis.gaps, diagnosis.exit_code) == (None, [], [], 0)


def test_what_it_costs(tmp_path: Path) -> None:
    with open_evidence([Perf(steps=60).write(tmp_path)]) as evidence:
        runner = Runner(pack(), evidence)
        runner.make_facts(["statements.coll_cost"], {})
        large, small = runner.rows("statements.coll_cost", {})
    assert (large["coll_func"], large["size"], large["calls"]) == ("AllReduce", "64 MiB", 50)
    assert (small["coll_func"], small["size"]) == ("ReduceScatter", "1 MiB")
    assert large["share"] + small["share"] == pytest.approx(1)
    assert large["comm_ms"] == pytest.approx((64 << 20) / 40e6, rel=0.1)
    assert large["speed"] == pytest.approx(40, rel=0.1)
    assert large["comm_ms"] <= large["p50_ms"] <= large["p99_ms"]


@pytest.mark.parametrize(
    ("late", "expected"),
    [({5: 900.0}, [5]), ({1: 900.0, 6: 700.0}, [1, 6]), (dict.fromkeys(range(6), 900.0), [])],
)
def test_late_ranks(late: dict[int, float], expected: list[int], tmp_path: Path) -> None:
    """Where most come late, a few come early: nobody is named."""
    diagnosis = diagnosis_of(Perf(late_us=late).write(tmp_path))
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("late_rank" if expected else None, expected)
    if expected:
        (finding,) = diagnosis.findings
        assert finding.severity == "error"
        assert finding.op == "AllReduce", "the operation in which most is lost"
        assert finding.details["behind_s"] == pytest.approx(max(late.values()) / 1e6, rel=0.1)
        assert 0.2 < finding.details["share"] < 1
        assert all(len(line) <= 80 or line.strip().startswith("whichrank ") for line in screen(diagnosis).splitlines())


def test_the_last_is_not_named_unless_all_were_seen(tmp_path: Path) -> None:
    diagnosis = diagnosis_of(Perf(late_us={5: 900.0, 2: 300.0}).write(tmp_path, only=[0, 1, 2, 3]))
    assert (diagnosis.category, diagnosis.culprit_ranks, diagnosis.exit_code) == ("insufficient_evidence", [], 2)
    assert "ranks_not_seen" in gaps(diagnosis)
    assert diagnosis.coverage.ranks_missing == [4, 5, 6, 7]


def test_ranks_of_a_pair_are_told_by_their_processes(tmp_path: Path) -> None:
    Perf(hashed=1, steps=3).write(tmp_path)
    Perf(ranks=(4, 6), hashed=2, late_us={1: 3000.0}).write(tmp_path)
    assert verdict(tmp_path) == ("late_rank", [6])


def test_slower_than_it_was(tmp_path: Path) -> None:
    Perf(steps=80, slow_from=(40, 0.3)).write(tmp_path)
    diagnosis = diagnosis_of(tmp_path, step_window=30)
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("slow_collective", [])
    assert "no_proxy_trace" in gaps(diagnosis)
    assert diagnosis.findings[0].details["best_speed"] == pytest.approx(40, rel=0.1)
    assert diagnosis.findings[0].details["speed"] == pytest.approx(12, rel=0.1)


def test_slower_than_its_peers(tmp_path: Path) -> None:
    for pair in range(4):
        gb_s = 20.0 if pair == 2 else 40.0
        Perf(ranks=(2 * pair, 2 * pair + 1), hashed=10 + pair, gb_s=gb_s, ops=[("AllReduce", 64 << 20)]).write(tmp_path)
    Perf(hashed=99, ops=[("AllReduce", 8)], steps=3).write(tmp_path)
    diagnosis = diagnosis_of(tmp_path)
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("slow_communicator", [4, 5])


def test_two_communicators_are_no_peers_enough(tmp_path: Path) -> None:
    for pair in range(2):
        Perf(ranks=(2 * pair, 2 * pair + 1), hashed=10 + pair, gb_s=40.0 - 20 * pair).write(tmp_path)
    assert verdict(tmp_path) == (None, [])


def test_times_of_the_host_are_a_gap(tmp_path: Path) -> None:
    assert "cpu_timing" in gaps(diagnosis_of(Perf(timing="collective_cpu").write(tmp_path)))


def test_the_real_records_alone_do_not_suffice() -> None:
    paths = [shared(f"nccl_samples/inspector_{name}.json") for name in ("readme_0", "readme_1", "exporter_readme_0")]
    diagnosis = diagnosis_of(*paths)
    assert diagnosis.category == "insufficient_evidence"
    assert gaps(diagnosis) == {"ranks_not_seen", "few_calls"}


def _dumps(folder: Path, *, timing: bool, late: int | None = None) -> Path:
    job = Job(4).with_timing() if timing else Job(4)
    for _ in range(6):
        if late is not None:
            job.pause(late, 2)
        job.all_reduce(shape=[1 << 20], dtype="Float")
    return job.write(folder)


def test_dumps_without_times_say_what_to_switch_on(tmp_path: Path) -> None:
    diagnosis = diagnosis_of(_dumps(tmp_path, timing=False))
    assert diagnosis.category == "insufficient_evidence"
    assert "TORCH_NCCL_ENABLE_TIMING=1" in " ".join(gap.says for gap in diagnosis.gaps)


def test_dumps_with_times_serve(tmp_path: Path) -> None:
    assert verdict(_dumps(tmp_path / "a", timing=True)) == (None, [])
    diagnosis = diagnosis_of(_dumps(tmp_path / "b", timing=True, late=2))
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("late_rank", [2])
    assert "no_inspector" in gaps(diagnosis)
    assert diagnosis.findings[0].details["size"] == "4 MiB"


def test_inspector_is_believed_before_dumps(tmp_path: Path) -> None:
    dumps = _dumps(tmp_path / "dumps", timing=True, late=2)
    records = Perf(ranks=range(4), late_us={1: 900.0}).write(tmp_path / "records")
    assert verdict(dumps, records) == ("late_rank", [1])


def test_proxy_traces_of_inspector_serve_culprit_victim(tmp_path: Path) -> None:
    """The GPU of rank 2 is late: its sends wait for it, the others for data."""
    for member, records in enumerate(Perf(ranks=range(4), steps=1).records()):
        whose = {key: records[0][key] for key in ("header", "metadata")}
        waits = dict.fromkeys(WAITS, 10) | ({"send_gpu_wait": 5000} if member == 2 else {"recv_wait": 5000})
        lines = [whose | record for seq in range(3) for record in proxy_records(member, 4, seq, waits, nested=False)]
        (tmp_path / f"{member}.log").write_text("".join(json.dumps(line) + "\n" for line in [*records, *lines]))
    diagnosis = diagnosis_of(tmp_path, skill="nccl_culprit_victim")
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("culprit", [2])
    assert diagnosis.findings[0].details["share"] > 0.8
