"""A process with the collector in it, told line by line what to do. torch is a stand-in where there is any."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from tests.live.running import SOURCE, wait_until
from whichrank.store import live

LOOP = """
import sys
sys.path.insert(0, {source!r})
import whichrank
for line in sys.stdin:
    exec(line)
    print("ok", flush=True)
print("trained", flush=True)
"""
RECORDER = """
import pickle, sys, time, types
class Recorder(types.ModuleType):
    delay_s, entries = 0.0, []
    def _dump_fr_trace(self, includeCollectives=True, includeStackTraces=True, onlyActive=False):
        time.sleep(self.delay_s)
        return pickle.dumps({"version": "2.10", "entries": list(self.entries), "pg_config": {}, "pg_status": {}})
fake = sys.modules["torch._C._distributed_c10d"] = Recorder("torch._C._distributed_c10d")
"""


@dataclass
class Watched:
    """The process; rank 0 of one."""

    process: subprocess.Popen[str]
    store: Path

    def do(self, line: str) -> None:
        """Let it run a line of Python, and wait until it has."""
        self.tell(line)
        assert cast(IO[str], self.process.stdout).readline() == "ok\n", cast(IO[str], self.process.stderr).read()

    def tell(self, line: str) -> None:
        """Let it run a line of Python."""
        stdin = cast(IO[str], self.process.stdin)
        stdin.write(line + "\n")
        stdin.flush()

    def watch(self, **options: Any) -> None:
        """Start the collector; wait until the process has said who it is."""
        self.do(f"whichrank.watch({str(self.store)!r}, job_id='job', **{options!r})")
        wait_until(lambda: live.nodes(self.store), "a heartbeat")

    def ask(self, *, stacks: bool = False) -> str:
        """Ask for a snapshot; returns its id."""
        request = live.new_request("job", "asked", stacks=stacks)
        live.ask(self.store, request)
        return request.snapshot_id

    def answer(self, snapshot_id: str) -> dict[str, Any]:
        """The head of its answer, when it is there."""
        path = live.answer_path(self.store, snapshot_id, 0)
        wait_until(path.exists, f"the answer {path}")
        return live.split(path.read_bytes())[0]

    def left(self) -> dict[str, Any]:
        """The head of the one answer that nobody asked for."""
        wait_until(lambda: live.snapshot_ids(self.store), "a snapshot")
        (only,) = live.snapshot_ids(self.store)
        return self.answer(only)

    def finish(self) -> tuple[int, str, str]:
        """Let it run to its end: exit code, what it printed, what it complained of."""
        out, complaint = self.process.communicate(timeout=120)
        return self.process.returncode, out, complaint


@contextmanager
def watched(folder: Path, *, recorder: bool = False) -> Iterator[Watched]:
    """A process that does what it is told; killed afterwards if it still runs."""
    script = (RECORDER if recorder else "") + LOOP.format(source=str(SOURCE))
    own = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "TORCH_FR_BUFFER_SIZE": "2000"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", script], env=os.environ | own, text=True, **pipes)  # type: ignore[call-overload]
    try:
        yield Watched(process, folder / "store")
    finally:
        process.kill()
        process.communicate()
