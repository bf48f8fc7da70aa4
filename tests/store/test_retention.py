"""Old snapshots go while people read."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.jobs.builder import Job
from whichrank.engine import runner
from whichrank.engine.intake import collect
from whichrank.engine.retention import keep_newest
from whichrank.engine.runner import diagnose
from whichrank.store.evidence import Evidence


def _hang(folder: Path, steps: int) -> Path:
    """Four ranks; rank 2 stops after so many steps. The more steps, the newer the snapshot."""
    job = Job(4)
    for _ in range(steps):
        job.all_reduce()
    return job.stop(2).all_reduce().write(folder / str(steps))


def test_a_reader_is_not_disturbed_by_retention(tmp_path: Path) -> None:
    dumps = [_hang(tmp_path, steps) for steps in range(1, 13)]
    store = tmp_path / "store"
    collect([dumps[0]], store)
    failed: list[BaseException] = []
    reading = threading.Event()

    def tidy() -> None:
        try:
            for newer in dumps[1:]:
                assert reading.wait(120)
                reading.clear()  # once for every diagnosis, at whatever moment of it
                collect([newer], store)
                keep_newest(store, 1)
        except BaseException as error:
            failed.append(error)

    writer = threading.Thread(target=tidy)
    writer.start()
    read = 0
    while writer.is_alive() or not read:
        reading.set()
        assert diagnose([store]).culprit_ranks == [2]
        read += 1
    writer.join()
    assert not failed
    with Evidence(stores=[store]) as evidence:
        assert evidence.count("python.torch_nccl_dump") == 4


def test_the_store_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment between listing and reading, made long enough to remove a snapshot in it."""
    store = tmp_path / "store"
    for steps in (1, 2):
        collect([_hang(tmp_path, steps)], store)
    make_facts = runner.Runner.make_facts
    removed: list[list[str]] = []

    def tidied_up(self: runner.Runner, *arguments: object) -> None:
        removed.append(keep_newest(store, 1))
        make_facts(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(runner.Runner, "make_facts", tidied_up)
    assert diagnose([store]).culprit_ranks == [2]
    assert len(removed[0]) == 1
