"""The recorders of a real job, asked through torch.distributed.debug."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from whichrank.engine.debug_server import collect_from
from whichrank.engine.runner import diagnose
from whichrank.errors import NoEvidence

JOB = Path(__file__).with_name("debug_job.py")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return int(free.getsockname()[1])


@pytest.mark.slow
def test_a_hanging_job_is_asked_from_outside(tmp_path: Path) -> None:
    for needed in ("tabulate", "requests"):  # by torch's debug server; the extra `test` has them
        pytest.importorskip(needed)
    port = _free_port()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(JOB), str(port)]
    with (tmp_path / "job.log").open("wb") as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        url, until = f"http://localhost:{port}", time.monotonic() + 120
        done: dict[str, Any] = {"records": 0}
        while time.monotonic() < until and job.poll() is None:
            try:
                done = collect_from(url, tmp_path / "store")
            except NoEvidence:
                done = {"records": 0}
            if done["records"] >= 5:
                break
            time.sleep(0.5)
        assert (done.get("ranks"), done["records"]) == ([0, 1], 5), (tmp_path / "job.log").read_text()[-3000:]
        found = diagnose([tmp_path / "store"], parameters={})
        assert found.coverage.ranks_seen == [0, 1]
        assert found.culprit_ranks in ([], [1]), "nobody but rank 1, once the wait is long enough"
    finally:
        job.send_signal(signal.SIGTERM)
        try:
            job.wait(40)
        except subprocess.TimeoutExpired:
            job.kill()
            job.wait()


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(NoEvidence, match="localhost"):
        collect_from(f"http://localhost:{_free_port()}", tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "localhost", ""])
def test_what_is_no_address(tmp_path: Path, url: str) -> None:
    with pytest.raises(NoEvidence):
        collect_from(url, tmp_path / "store")
