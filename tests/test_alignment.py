"""The alignment statement, that every check is told firing and silent, and that the order of files is nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.jobs.builder import Job
from tests.jobs.stories import STORIES
from tests.verdict import FIXTURES, pack, verdict_of
from whichrank.engine.intake import open_evidence
from whichrank.engine.runner import Runner


def alignment(folder: Path, **values: Any) -> list[dict[str, Any]]:
    """Rows of `collective_alignment`."""
    with open_evidence([folder]) as evidence:
        runner = Runner(pack(), evidence, "PATH")
        resolved = pack().skill("watchdog_timeout").resolve(values)
        runner.make_facts(["statements.collective_alignment"], resolved)
        return runner.rows("statements.collective_alignment", resolved)


def test_columns_by_name(tmp_path: Path) -> None:
    row = alignment(Job(2).all_reduce().write(tmp_path / "job"))[0]
    required = {"collective_seq_id", "ranks_seen", "expected_world_size", "op_min", "op_max", "state_min", "state_max"}
    required |= {
        f"{side}_{what}_{end}" for side in ("input", "output") for what in ("sizes", "dtypes") for end in ("min", "max")
    }
    assert required | {"missing_ranks", "unseen_ranks", "odd_ranks"} <= set(row)
    assert (row["ranks_seen"], row["expected_world_size"]) == (2, 2)
    assert (row["state_min"], row["state_max"], row["op_min"]) == ("completed", "completed", "all_reduce")


def test_who_is_missing_unseen_and_odd(tmp_path: Path) -> None:
    job = Job(5).all_reduce().all_reduce().but(1, dtype="Half").stop(2).no_file(4)
    rows = {row["collective_seq_id"]: row for row in alignment(job.write(tmp_path / "job"))}
    assert rows[2]["odd_ranks"] == [1]
    assert rows[2]["unseen_ranks"] == [4]
    assert rows[2]["ranks_seen"] == 4
    job = Job(4).all_reduce().stop(2).all_reduce()
    rows = {row["collective_seq_id"]: row for row in alignment(job.write(tmp_path / "late"))}
    assert (rows[1]["missing_ranks"], rows[2]["missing_ranks"]) == ([], [2])
    assert (rows[2]["state_min"], rows[2]["state_max"]) == ("scheduled", "scheduled")


def test_window_is_of_the_group_and_never_cuts_off_what_is_waited_for(tmp_path: Path) -> None:
    job = Job(4).group("tp", [0, 1])
    for _ in range(6):
        job.all_reduce("tp")
    job.all_reduce().all_reduce().stop(3).all_reduce()
    rows = alignment(job.write(tmp_path / "job"), seq_window=2)
    seqs = {name: [r["collective_seq_id"] for r in rows if r["group_name"] == name] for name in ("tp", "default_pg")}
    assert sorted(seqs["tp"]) == [5, 6], "the newest of that group, not of the job"
    assert sorted(seqs["default_pg"]) == [2, 3]
    assert rows[0]["missing_ranks"] == [3], "open divergences come first"
    narrow = alignment(tmp_path / "job", seq_window=0)
    assert [r["collective_seq_id"] for r in narrow] == [3], "a number that somebody waits in stays"


# What NCCL RAS says is in no dump and no log: tests/engine/test_ras.py
OF_STORIES = [c.check for c in pack().skill("watchdog_timeout").checks if c.needs != "nccl.ras_status"]


@pytest.mark.parametrize("check", OF_STORIES)
def test_every_check_is_told_firing_and_silent(check: str) -> None:
    """test_stories runs them: one story at least has this category as its truth, and many have none."""
    assert any(story.truth.category == check for story in STORIES.values())
    assert sum(story.truth.category == "no_fault" for story in STORIES.values()) >= 40


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(4)), folders=st.integers(1, 3))
def test_order_and_place_of_files_are_nothing(order: list[int], folders: int, tmp_path: Path) -> None:
    source = FIXTURES / "nccl_rank_not_joined" / "evidence"
    target = tmp_path / "dumps"
    shutil.rmtree(target, ignore_errors=True)
    for place, rank in enumerate(order):
        folder = target / f"node{place % folders}"
        folder.mkdir(parents=True, exist_ok=True)
        (original,) = source.glob(f"*_{rank}")
        shutil.copy(original, folder / f"{place}_trace_{rank}")
    assert verdict_of(target) == ("rank_not_joined", [2])
