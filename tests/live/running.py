"""Real gloo jobs under torchrun with the collector inside, and `whichrank` asked about them as a person would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichrank.store import live

TRAIN = Path(__file__).with_name("train.py")
SOURCE = Path(__file__).resolve().parents[2] / "src"
DEADLINE_S = 120.0


@dataclass
class Job:
    """A job that runs now. log: what its processes printed."""

    store: Path
    torchrun: subprocess.Popen[bytes]
    log: Path

    def nodes(self) -> list[dict[str, Any]]:
        """What the ranks have said of themselves."""
        return live.nodes(self.store)


@contextmanager
def running(
    fault: str, folder: Path, *, ranks: int = 4, env: dict[str, str] | None = None, script: Path = TRAIN
) -> Iterator[Job]:
    """The job, by `torchrun -m whichrank.watch`; all its processes are ended afterwards."""
    store, log = folder / "store", folder / "job.log"
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    settings = {"WHICHRANK_STORE": str(store), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE), **(env or {})}
    with log.open("wb") as out:
        torchrun = subprocess.Popen(
            [*run, "-m", "whichrank.watch", str(script), fault], env=os.environ | settings, stdout=out, stderr=out
        )
        job = Job(store, torchrun, log)
        try:
            yield job
        finally:
            for node in job.nodes():
                _end(node["pid"])
            torchrun.terminate()
            try:
                torchrun.wait(20)
            except subprocess.TimeoutExpired:
                torchrun.kill()
                torchrun.wait()


def _end(pid: int) -> None:
    try:
        if b"train.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    except OSError:
        return


def wait_until(condition: Callable[[], Any], what: str, job: Job | None = None) -> Any:
    """Poll until the condition gives something; fail with the log of the job after DEADLINE_S."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(what + ("\n" + job.log.read_text()[-3000:] if job else ""))
        time.sleep(0.1)


def whichrank(*arguments: str | Path) -> tuple[int, dict[str, Any], float]:
    """Exit code, the JSON printed, seconds of one command line in a process of its own."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "whichrank", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), time.monotonic() - started


def settled(job: Job, after_s: float = 11.0, silent: Sequence[int] = ()) -> bool:
    """Every rank has said who it is, and no rank that answers has entered anything for a while.

    Reads what the ranks answered to a request of ours, as raw bytes.
    """
    import pickle

    if len(job.nodes()) < 4:
        return False
    request = live.new_request(str(job.nodes()[0]["job_id"]), "asked", stacks=False)
    live.ask(job.store, request)
    expected = {0, 1, 2, 3} - set(silent)
    wait_until(lambda: expected <= {a.rank for a in live.answers(job.store, request.snapshot_id)}, "no answers", job)
    newest = 0
    for answer in live.answers(job.store, request.snapshot_id):
        head, body = live.split(answer.path.read_bytes())
        entries = (pickle.loads(body[: head["parts"][0]]).get("entries") or []) if head["parts"] else []
        newest = max([newest, *(e["time_created_ns"] for e in entries)])
    return newest > 0 and time.time_ns() - newest > after_s * 1e9
