"""Ranks of real jobs stop in a dozen ways; `whichrank diagnose STORE --snapshot` names the one to blame.

Four jobs start together, and are asked when all of them hang: what takes long is that torch is imported sixteen times.
How long a verdict takes is measured in benchmarks/live.py, where nothing else runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.live.running import Job, start, wait_until, whichrank
from whichrank.store import live

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("live")]


@dataclass(frozen=True)
class Story:
    fault: str
    culprits: list[int]
    categories: set[str]
    state: str = "answered"  # of the culprit, in cluster.nodes


ABSENT = {"rank_not_joined"}
OUT_OF_STEP = {"collective_skipped", "collective_type_mismatch"}
STORIES = [
    Story("asleep", [2], ABSENT),
    Story("stopped", [2], {"rank_without_dump"}, "stopped"),
    Story("gil", [2], {"rank_without_dump"}, "silent"),
    Story("killed", [2], {"rank_without_dump"}, "dead"),
    Story("skipped", [2], OUT_OF_STEP),
    Story("caught", [2], OUT_OF_STEP),
    Story("opposite_order", [1, 2], {"group_order_deadlock"}),
    Story("subgroup", [2], ABSENT),
    Story("data_loader", [2], ABSENT),
    Story("checkpoint", [0], ABSENT),
    Story("before_first", [2], ABSENT | {"insufficient_evidence"}),
]
BATCH = 4


@dataclass
class Stage:
    """The jobs that run at the moment."""

    folder: Path
    jobs: dict[str, Job] = field(default_factory=dict)

    def hanging(self, fault: str) -> Job:
        """The job with that fault; it hangs, and so do all the others."""
        if fault not in self.jobs:
            self.clear()
            names = [story.fault for story in STORIES]
            first = names.index(fault) // BATCH * BATCH
            self.jobs = {name: start(name, self.folder / name) for name in names[first : first + BATCH]}
            for name, job in self.jobs.items():
                if name == "killed":
                    wait_until(partial(_ended, job), "the end of torchrun", job)
                else:
                    job.wait_for_hang({0, 1, 3} if name in ("stopped", "gil") else {0, 1, 2, 3})
        return self.jobs[fault]

    def clear(self) -> None:
        for job in self.jobs.values():
            job.end()
        self.jobs = {}


def _ended(job: Job) -> bool:
    return job.torchrun.poll() is not None


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    jobs = Stage(tmp_path_factory.mktemp("jobs"))
    yield jobs
    jobs.clear()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.fault)
def test_the_right_rank_is_named_while_it_hangs(story: Story, stage: Stage) -> None:
    job = stage.hanging(story.fault)
    asked_before = {request.snapshot_id for request in live.requests(job.store)}
    code, said, complaint = whichrank("diagnose", job.store, "--snapshot", "--json")
    assert said["culprit_ranks"] == story.culprits or said["category"] == "insufficient_evidence", (said, complaint)
    assert said["category"] in story.categories, said
    assert code == 1
    assert {request.snapshot_id for request in live.requests(job.store)} > asked_before, "it was asked for this verdict"

    sql = "SELECT rank, state FROM global.cluster.nodes QUALIFY snapshot_id = max(snapshot_id) OVER () ORDER BY rank"
    _, table, _ = whichrank("query", job.store, sql, "--json")
    states = {row["rank"]: row["state"] for row in table["rows"]}
    assert set(states) == {0, 1, 2, 3}, "every rank ever seen is a row"
    assert states[story.culprits[0]] == story.state
