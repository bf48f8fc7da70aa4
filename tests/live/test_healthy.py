"""Jobs that run are silent: whatever moment is looked at, somebody is always ahead and somebody always last."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.running import Job, start, wait_until
from whichrank.engine.retention import keep_newest
from whichrank.engine.runner import diagnose
from whichrank.engine.snapshot import take

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("live")]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    running = start("healthy", tmp_path_factory.mktemp("healthy"))
    wait_until(lambda: len(running.nodes()) == 4, "four ranks", running)
    wait_until(lambda: running.newest_entry_ns({0, 1, 2, 3}), "a collective", running)
    yield running
    running.end()


@pytest.mark.parametrize("mode", ["steady", "slow", "last"])
def test_twenty_snapshots_of_twenty_say_nothing(mode: str, job: Job) -> None:
    job.mode.write_text(mode)
    before = job.newest_entry_ns({0, 1, 2, 3})
    for _ in range(20):
        taken = take(job.store, 30.0, stacks_s=30.0)
        assert taken.answered == [0, 1, 2, 3]
        diagnosis = diagnose([job.store])
        assert diagnosis.category is None, diagnosis.verdict
        assert diagnosis.coverage.records > 0
        keep_newest(job.store, 2)
    assert job.newest_entry_ns({0, 1, 2, 3}) > before, job.log.read_text()
