"""Real gloo jobs under torchrun with the collector inside, and `whichrank` asked about them as a person would."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichrank.store import live

TRAIN = Path(__file__).with_name("train.py")
SOURCE = Path(__file__).resolve().parents[2] / "src"
DEADLINE_S = 180.0
HANG_S = 12.0  # in a running process an operation younger than 10 s is no hang


@dataclass
class Job:
    """A job of four ranks. log: what its processes printed. mode: file that tells a healthy job how fast to go."""

    folder: Path
    torchrun: subprocess.Popen[bytes]

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def log(self) -> Path:
        return self.folder / "job.log"

    @property
    def mode(self) -> Path:
        return self.folder / "mode"

    def nodes(self) -> list[dict[str, Any]]:
        """What the ranks have said of themselves."""
        return live.nodes(self.store)

    def newest_entry_ns(self, answering: set[int]) -> int:
        """When a rank entered its last collective, as the ranks answer now; 0 before the first. Waits for them."""
        request = live.new_request(str(self.nodes()[0]["job_id"]), "asked", stacks=False)
        live.ask(self.store, request)
        name = request.snapshot_id
        wait_until(lambda: answering <= {a.rank for a in live.answers(self.store, name)}, "an answer", self)
        entries: list[dict[str, Any]] = []
        for answer in live.answers(self.store, name):
            head, body = live.split(answer.path.read_bytes())
            entries += pickle.loads(body[: head["parts"][0]]).get("entries", []) if head["parts"] else []
        return max((e["time_created_ns"] for e in entries), default=0)

    def wait_for_hang(self, answering: set[int]) -> None:
        """Until no rank has entered a collective for HANG_S."""

        def hangs() -> bool:
            newest = self.newest_entry_ns(answering)
            if newest:  # no need to ask again before it can be so
                time.sleep(max(0.5, HANG_S - (time.time_ns() - newest) / 1e9))
            return newest > 0 and self.newest_entry_ns(answering) == newest

        wait_until(lambda: len(self.nodes()) == 4, "four ranks", self)
        wait_until(hangs, "a hang", self)

    def end(self) -> None:
        """Kill what we started, and nothing else."""
        for node in self.nodes():
            with suppress(OSError):
                if b"train.py" in Path(f"/proc/{node['pid']}/cmdline").read_bytes():
                    os.kill(node["pid"], signal.SIGKILL)
        self.torchrun.terminate()
        try:
            self.torchrun.wait(20)
        except subprocess.TimeoutExpired:
            self.torchrun.kill()
            self.torchrun.wait()


def start(fault: str, folder: Path) -> Job:
    """`torchrun -m whichrank.watch train.py FAULT`."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "WHICHRANK_STORE": str(folder / "store"),
        "MODE": str(folder / "mode"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(SOURCE),
        "TORCH_FR_BUFFER_SIZE": "2000",
    }
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    with (folder / "job.log").open("wb") as log:
        process = subprocess.Popen(
            [*torchrun, "-m", "whichrank.watch", str(TRAIN), fault], env=os.environ | settings, stdout=log, stderr=log
        )
    return Job(folder, process)


def wait_until(condition: Callable[[], Any], what: str, job: Job | None = None) -> Any:
    """Poll until the condition gives something; fail with the log of the job after DEADLINE_S."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited for {what}" + ("\n" + job.log.read_text()[-3000:] if job else ""))
        time.sleep(0.1)


def whichrank(*arguments: str | Path) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON printed, and stderr of one command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "whichrank", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr
