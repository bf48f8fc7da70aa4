"""Records evidence from real gloo jobs: `python -m tests.jobs.record [CASE ...]` (needs torch; without names, all).

Every case runs the package `job` under torchrun from a neutral place, waits until everyone who will come has come, asks
the ranks for their recorders, checks that the dumps show what was meant, and writes `fixtures/<case>/`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.jobs.case_file import FIXTURES, write_case
from tests.jobs.job.faults import PLANS
from tests.jobs.recorded_cases import RECORDED, RecordedCase

JOB_HOME = Path(os.environ.get("RECORD_HOME", "/srv"))
"""Where the package `job` is copied to: its path is in every recorded stack."""
QUIET_S = 2.0
DEADLINE_S = 120.0


class NotRecorded(Exception):
    """A case that did not become what it was meant to be."""


def main(names: Sequence[str]) -> int:
    """Record the named cases (all); 64 where a name is unknown."""
    unknown = [name for name in names if name not in RECORDED]
    if unknown:
        print(f"no such case: {' '.join(unknown)}; there are: {' '.join(RECORDED)}", file=sys.stderr)
        return 64
    for name in names or RECORDED:
        record(RECORDED[name], FIXTURES / name)
        print(f"recorded {name}")
    return 0


def record(case: RecordedCase, target: Path) -> None:
    """Run one case and write its fixture folder (expected outputs beside it stay)."""
    ranks = PLANS[case.name].ranks
    with tempfile.TemporaryDirectory() as scratch, _job_in_place():
        folder = Path(scratch)
        with _running(case.name, ranks, folder):
            _wait(lambda: _settled(case, folder, ranks), f"{case.name}: the ranks did not settle")
            (folder / "dump").touch()
            expected = [folder / "evidence" / f"comm_lib_trace_rank_{r}" for r in range(ranks) if r not in case.silent]
            _wait(lambda: all(path.exists() for path in expected), f"{case.name}: not every rank dumped")
        check(case, folder / "evidence")
        shutil.rmtree(target / "evidence", ignore_errors=True)
        shutil.copytree(folder / "evidence", target / "evidence")
    how = f"python -m tests.jobs.record {case.name}"
    write_case(target, case.told, "recorded", how, importlib.metadata.version("torch"), ranks, case.truth)


def check(case: RecordedCase, evidence: Path) -> None:
    """The dumps, read with plain pickle, show who waits where and who does not."""
    for rank in range(PLANS[case.name].ranks):
        path = evidence / f"comm_lib_trace_rank_{rank}"
        if rank in case.silent:
            if path.exists():
                raise NotRecorded(f"{case.name}: rank {rank} should have left no dump")
            continue
        entries = pickle.loads(path.read_bytes())["entries"]
        opened = [(e["profiling_name"], e["process_group"][1]) for e in entries if not e["retired"]]
        wanted = [case.waiting[rank]] if rank in case.waiting else []
        if opened != wanted:
            raise NotRecorded(f"{case.name}: rank {rank} is open in {opened}, not in {wanted}")
        if not all(_has_user_frame(entry) for entry in entries):
            raise NotRecorded(f"{case.name}: rank {rank} has an entry without a frame of the job")


def _has_user_frame(entry: dict[str, Any]) -> bool:
    return any(frame["filename"].startswith(str(JOB_HOME / "job")) for frame in entry["frames"])


def _settled(case: RecordedCase, folder: Path, ranks: int) -> bool:
    """Nothing has been entered for a while, and what is open has been open for a while (or everything is done)."""
    before = [_status(folder, rank) for rank in range(ranks)]
    if any(status is None for status in before):
        return False
    seen = [status for rank, status in enumerate(before) if status and rank not in case.silent]
    if not case.waiting:
        return all(status["done"] for status in seen)
    waiting = [before[rank] for rank in case.waiting]
    if any(not status or (status["open_for_s"] or 0) < QUIET_S for status in waiting):
        return False
    time.sleep(QUIET_S)
    return [s and s["entries"] for s in before] == [
        s and s["entries"] for s in (_status(folder, rank) for rank in range(ranks))
    ]


def _status(folder: Path, rank: int) -> dict[str, Any] | None:
    try:
        status: dict[str, Any] = json.loads((folder / f"status_{rank}.json").read_text())
    except FileNotFoundError:
        return None
    return status


def _wait(until: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not until():
        if time.monotonic() > deadline:
            raise NotRecorded(otherwise)
        time.sleep(0.1)


@contextlib.contextmanager
def _job_in_place() -> Iterator[None]:
    """The package `job`, copied to where its path says nothing about this machine; taken away afterwards."""
    place = JOB_HOME / "job"
    if place.exists():
        raise NotRecorded(f"{place} is in the way: remove it, or set RECORD_HOME to another neutral folder")
    shutil.copytree(Path(__file__).parent / "job", place, ignore=shutil.ignore_patterns("__pycache__"))
    try:
        yield
    finally:
        shutil.rmtree(place)


@contextlib.contextmanager
def _running(name: str, ranks: int, folder: Path) -> Iterator[None]:
    """The job under torchrun. Workers have sessions of their own, so they are ended by their process ids."""
    recorder = {"TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    log = (folder / "job.log").open("wb")
    torchrun = subprocess.Popen(
        [*command, "-m", "job.train", name, str(folder)],
        cwd=JOB_HOME,
        env=os.environ | recorder,
        stdout=log,
        stderr=log,
    )
    try:
        yield
    except NotRecorded as reason:
        log.flush()
        raise NotRecorded(f"{reason}\n{(folder / 'job.log').read_text()[-3000:]}") from None
    finally:
        for rank in range(ranks):
            status = _status(folder, rank)
            if status is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(status["pid"], signal.SIGKILL)
        torchrun.terminate()
        torchrun.wait(timeout=60)
        log.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
