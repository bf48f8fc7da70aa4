"""health_overview: what is collected, what lacks, what is worst; and the chain that follows it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pytest

from tests.engine.test_guests import EXAMPLE
from tests.jobs.builder import Job
from tests.surfaces.conftest import Cli
from tests.verdict import FIXTURES, ROOT, case, cases, truth_of
from whichrank.batch import Batch, rows_to_arrow
from whichrank.engine.chain import LONGEST, follow
from whichrank.engine.diagnosis import Coverage, Diagnosis, Next
from whichrank.engine.guests import VARIABLE
from whichrank.engine.manifest import Pack
from whichrank.engine.runner import Runner, diagnose, diagnose_chain
from whichrank.errors import UsageError
from whichrank.store.evidence import Evidence
from whichrank.store.shards import write
from whichrank.tables import NODES

HEALTHY = [name for name in cases() if truth_of(case(name)["truth"]).category == "no_fault"]
STACKS = FIXTURES / "stacks_data_loader" / "evidence"


def look(*paths: Path, **parameters: Any) -> Diagnosis:
    return diagnose(paths, "health_overview", parameters)


def told(diagnosis: Diagnosis) -> list[str]:
    return [finding.check.removeprefix("checks.") for finding in diagnosis.findings]


def nodes(**settings: int | None) -> Batch:
    """Ranks 0, 1, ... of a watched job; the size of their recorders as it was set."""
    rows = [
        {column.name: None for column in NODES.stored}
        | {"snapshot_id": "a", "rank": rank, "world_size": len(settings), "state": "answered", "recorder_entries": size}
        for rank, size in enumerate(settings.values())
    ]
    return Batch("a", None, {NODES.name: rows_to_arrow(NODES, rows)})


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_job_is_silent(name: str) -> None:
    found = look(FIXTURES / name / "evidence")
    assert (found.category, found.findings, found.exit_code) == (None, [], 0), found.verdict
    assert found.verdict.startswith("nothing is wrong in what was collected (")


def test_it_says_what_there_is_and_what_lacks() -> None:
    found = look(FIXTURES / "gloo_healthy" / "evidence")
    tables = {row["name"]: row for row in found.coverage.collected["tables"]}
    assert tables["python.torch_nccl_dump"]["rows"] == tables["python.torch_nccl_dump"]["ranks"] == 4
    assert tables["python.torch_nccl_flight_record"]["newest"] == "2026-12-01 05:41:30"
    skills = {row["skill"]: row["says"] for row in found.coverage.collected["skills"]}
    assert set(skills) == {entry.id for entry in Pack().manifest.skills} - {"health_overview", "sre_triage"}
    assert skills["watchdog_timeout"] == "watchdog_timeout can run"
    assert skills["training_hang"] == "training_hang lacks python.backtrace, cpu.utilization, process.kmsg"
    (why,) = (gap.says for gap in found.gaps if gap.says.startswith("training_hang"))
    assert why.startswith(
        "training_hang lacks one of python.backtrace, cpu.utilization, process.kmsg, which has no rows: "
    )
    assert "whichrank collect --stacks --into STORE" in why


@pytest.mark.parametrize("name", ["nccl_rank_not_joined", "nccl_group_order_deadlock", "nccl_all_joined"])
def test_the_worst_finding_is_the_verdict_and_the_next_step(name: str) -> None:
    evidence = FIXTURES / name / "evidence"
    found, other = look(evidence), diagnose([evidence])
    assert (found.category, found.culprit_ranks) == (other.category, other.culprit_ranks)
    assert found.verdict == other.verdict
    step = found.next[0]
    assert (step.skill, step.parameters) == ("watchdog_timeout", {})
    assert step.command == f"whichrank diagnose {evidence} --skill watchdog_timeout"
    local = look(evidence, use_global=False).next[0]
    assert (local.parameters, local.command[-24:]) == ({"use_global": False}, "--param use_global=false")


def test_at_most_three_worst_findings(tmp_path: Path) -> None:
    job = Job(16)
    for number in range(5):
        job.group(f"g{number}", [3 * number, 3 * number + 1, 3 * number + 2])
        job.all_reduce(f"g{number}")
    job.stop(2, 5, 8, 11, 14)
    for number in range(5):
        job.all_reduce(f"g{number}")
    found = look(job.write(tmp_path))
    assert 1 <= told(found).count("worst_finding") <= 3
    assert all(len(finding.evidence) <= 5 for finding in found.findings)


def test_a_rank_that_left_nothing_is_missed_and_not_accused(tmp_path: Path) -> None:
    folder = Job(4).all_reduce().all_reduce().write(tmp_path)
    next(path for path in folder.iterdir() if path.name.endswith("3")).unlink()
    found = look(folder)
    assert told(found) == ["ranks_missing"]
    assert (found.category, found.culprit_ranks, found.exit_code) == ("ranks_missing", [], 1)
    assert found.verdict == "rank 3 of 4 left nothing."
    assert found.coverage.ranks_missing == [3]


@pytest.mark.parametrize(("seconds", "there"), [(90, True), (20, False)])
def test_a_collective_that_is_open_for_a_minute(seconds: float, there: bool, tmp_path: Path) -> None:
    job = Job(3).all_reduce().stop(2).all_reduce().late(0, seconds)
    found = look(job.write(tmp_path))
    assert ("pending_collective" in told(found)) is there
    for finding in found.findings:
        if finding.check == "checks.pending_collective":
            assert not finding.root, "the verdict says it already"
            assert finding.headline == "ranks 0, 1 have waited in all_reduce default_pg #2 for 90 s."
            assert finding.next[-1].skill == "watchdog_timeout"


def test_the_size_of_a_recorder_counts_entries() -> None:
    with Evidence([nodes(a=2_097_152, b=2000, c=0, d=None, e=1_000_000)]) as evidence:
        found = Runner(Pack(), evidence).run("health_overview")
    says = {finding.details["kind"]: finding.headline for finding in found.findings}
    assert says["bytes_meant"] == (
        "the Flight Recorder of rank 0 is set to 2097152 entries; bytes were meant, it counts entries."
    )
    assert says["off"] == "the Flight Recorder of rank 2 is off."
    assert told(found).count("recorder_settings") == 2
    with Evidence([nodes(a=2000, b=None)]) as evidence:
        assert "recorder_settings" not in told(Runner(Pack(), evidence).run("health_overview"))


def test_the_chain_goes_to_the_stack_of_the_rank(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    paths = [(STACKS / folder).relative_to(ROOT) for folder in ("dumps", "stacks")]
    done = cli("diagnose", *paths, "--skill", "health_overview", "--chain")
    assert done.code == 1
    assert done.out.startswith("path: health_overview -> watchdog_timeout -> training_hang (rank=2)\n")
    assert "training_hang: rank 2 stands in data loading" in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines() if "whichrank diagnose " not in line)
    data = json.loads(cli("diagnose", *paths, "--skill", "health_overview", "--chain", "--json").out)
    assert data["skill"] == "health_overview"
    assert [(step["skill"], step["parameters"]) for step in data["chain"]] == [
        ("health_overview", {}),
        ("watchdog_timeout", {}),
        ("training_hang", {"rank": 2}),
    ]
    assert all(step["culprit_ranks"] == [2] for step in data["chain"])


def test_the_chain_goes_to_who_waits_for_whom_when_all_have_joined() -> None:
    steps = diagnose_chain([FIXTURES / "nccl_all_joined" / "evidence"])
    assert [step.skill for step in steps] == ["health_overview", "watchdog_timeout", "nccl_culprit_victim"]
    assert steps[-1].diagnosis.category == "insufficient_evidence", "it lacks its evidence, and the chain ends"


def test_the_chain_of_a_healthy_job_is_one_step() -> None:
    (step,) = diagnose_chain([FIXTURES / "gloo_healthy" / "evidence"])
    assert (step.label, step.diagnosis.exit_code) == ("health_overview", 0)


class Loop:
    """A runner whose verdicts point in a circle of skills, with a parameter that may grow for ever."""

    def __init__(self, circle: Iterator[tuple[str, dict[str, Any]]]) -> None:
        self.pack = SimpleNamespace(skill=lambda id: SimpleNamespace(id=id, resolve=lambda given: given))
        self.circle = circle

    def run(self, skill: str, parameters: dict[str, Any]) -> Diagnosis:
        step = [Next("x", id, given) for id, given in [next(self.circle)]]
        return Diagnosis(skill, "hang", [], "", [], [], Coverage(), [Next("look at the host"), *step], [])


def test_no_step_is_taken_twice() -> None:
    steps = follow(cast(Runner, Loop(iter([("b", {}), ("a", {"rank": 1}), ("b", {})]))), "a")
    assert [step.label for step in steps] == ["a", "b", "a (rank=1)"]


def test_a_chain_ends() -> None:
    steps = follow(cast(Runner, Loop(("a", {"rank": rank}) for rank in range(100))), "a")
    assert len(steps) == LONGEST


def test_skills_of_others_are_asked_and_a_broken_one_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLE / "whichrank_small_calls", tmp_path / "packs" / "small")
    (tmp_path / "packs" / "broken").mkdir()
    (tmp_path / "packs" / "broken" / "skill.yaml").write_text("id: [", encoding="utf-8")
    monkeypatch.setenv(VARIABLE, os.fspath(tmp_path / "packs"))
    job = Job(2)
    for _ in range(12):
        job.all_reduce(shape=[4])
    found = look(job.write(tmp_path / "dumps"))
    assert (found.category, found.next[0].skill) == ("small_calls", "small_calls")
    assert any(gap.kind == "left_out" and "broken" in gap.says for gap in found.gaps)


def test_the_printed_script_says_the_same(tmp_path: Path) -> None:
    from whichrank.engine.intake import collect

    store = tmp_path / "store"
    collect([FIXTURES / "nccl_rank_not_joined" / "evidence"], store)
    write(store, nodes(a=2_097_152, b=2000, c=2000, d=2000))
    found = look(store)
    assert told(found) == ["worst_finding", "recorder_settings"]
    with duckdb.connect() as client:
        row = client.execute(found.script()).fetchall()[0]
    assert row[:2] == ("rank_not_joined", [2])


def test_wrong_calls(hang: Path) -> None:
    with pytest.raises(UsageError, match="not of type integer"):
        look(hang, sample_limit="many")
    with pytest.raises(UsageError, match="no parameter pack"):
        look(hang, pack="[]")
