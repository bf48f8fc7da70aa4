"""Real processes, looked at from outside as `whichrank collect --stacks` does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from whichrank.collectors import backtrace_live, host_processes
from whichrank.engine.runner import diagnose
from whichrank.engine.stacks import collect_stacks
from whichrank.errors import NoEvidence

WAITER = """
import os, sys, time
def load_batch():
    {body}
def train():
    load_batch()
open(sys.argv[1], "w").close()
train()
"""
ASLEEP, BUSY = "time.sleep(3600)", "while True: sum(range(1000))"
WAIT_S = 60.0


@contextmanager
def ranks(folder: Path, *bodies: str, size: int | None = None) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A process per body that believes it is a rank; all have begun."""
    started = []
    folder.mkdir(exist_ok=True)
    try:
        for rank, body in enumerate(bodies):
            named = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size or len(bodies), "MASTER_ADDR": "node01"}
            named |= {"LOCAL_WORLD_SIZE": size or len(bodies), "MASTER_PORT": 4711}
            env = os.environ | {name: str(value) for name, value in named.items()}
            command = [sys.executable, "-c", WAITER.format(body=body), str(folder / f"began_{rank}")]
            started.append(subprocess.Popen(command, env=env))
        until = time.monotonic() + WAIT_S
        while len(list(folder.glob("began_*"))) < len(bodies):
            assert time.monotonic() < until, "a process did not begin"
            time.sleep(0.05)
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def collect(store: Path, started: list[subprocess.Popen[bytes]]) -> dict[str, object]:
    """What collect --stacks says. Skips where these rights are lacking, and only then."""
    done = collect_stacks(store, [process.pid for process in started], samples=2, every_s=0.1)
    if any("may not be read" in note for note in done["notes"]):
        pytest.skip("no right to read the memory of own children (ptrace)")
    return done


def test_stacks_states_and_places(tmp_path: Path) -> None:
    with ranks(tmp_path / "job", ASLEEP, ASLEEP, BUSY) as started:
        done = collect(tmp_path / "store", started)
    assert (done["ranks"], done["notes"]) == ([0, 1, 2], [])
    found = diagnose([tmp_path / "store"], "training_hang", {"rank": 0})
    assert found.coverage.ranks_seen == found.coverage.ranks_expected == [0, 1, 2]
    stand = next(f for f in found.findings if f.check == "checks.stack_of_rank")
    assert stand.details["place"] == "<string>:4 in load_batch"


def test_a_stopped_process(tmp_path: Path) -> None:
    with ranks(tmp_path / "job", ASLEEP, ASLEEP, ASLEEP) as started:
        os.kill(started[1].pid, signal.SIGSTOP)
        collect(tmp_path / "store", started)
        state = Path(f"/proc/{started[1].pid}/stat").read_text().rpartition(")")[2].split()[0]
        os.kill(started[1].pid, signal.SIGCONT)
    assert state == "T", "looking at it does not make it go on"
    found = diagnose([tmp_path / "store"], "training_hang")
    assert (found.category, found.culprit_ranks) == ("rank_not_joined", [1])
    assert "stopped by a signal" in found.verdict


def test_a_process_that_is_gone(tmp_path: Path) -> None:
    with ranks(tmp_path / "job", ASLEEP, ASLEEP, size=3) as started:
        done = collect(tmp_path / "store", started)
    assert any("rank 2 has no process" in note for note in done["notes"])  # type: ignore[attr-defined]
    found = diagnose([tmp_path / "store"], "training_hang")
    assert (found.category, found.culprit_ranks) == ("rank_died", [2])


def test_ranks_are_found_by_their_variables(tmp_path: Path) -> None:
    """And their children, which inherit them, are no ranks."""
    child = "import subprocess; subprocess.run([sys.executable, '-c', 'import time; time.sleep(3600)'])"
    with ranks(tmp_path / "job", child, ASLEEP) as started:
        pids = {process.pid for process in started}
        until = time.monotonic() + WAIT_S
        while True:  # until the child is there
            rows = host_processes.states(host_processes.RankProcess(started[0].pid, 0), 0)
            below = [row["pid"] for row in rows if row["scope"] == "child"]
            if below:
                break
            assert time.monotonic() < until
            time.sleep(0.05)
        found, _ = host_processes.rank_processes()
        assert {(p.rank, p.pid) for p in found if p.pid in pids} == {(0, started[0].pid), (1, started[1].pid)}
        assert not {p.pid for p in found} & set(below)
        os.kill(below[0], signal.SIGKILL)


def test_without_the_right_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = tmp_path / "py-spy"
    spy.write_text(
        "#!/bin/sh\necho 'Error: Permission Denied: Try running again with elevated permissions' >&2\nexit 1\n"
    )
    spy.chmod(0o755)
    monkeypatch.setattr(backtrace_live, "_py_spy", lambda: str(spy))
    with ranks(tmp_path / "job", ASLEEP, ASLEEP) as started:
        done = collect_stacks(tmp_path / "store", [p.pid for p in started], samples=1)
    assert done["ranks"] == []
    assert all("SYS_PTRACE" in note for note in done["notes"])
    found = diagnose([tmp_path / "store"], "training_hang")
    assert found.culprit_ranks == []
    assert any("SYS_PTRACE" in gap.says for gap in found.gaps)


def test_a_process_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = tmp_path / "py-spy"
    spy.write_text("#!/bin/sh\nexec sleep 600\n")
    spy.chmod(0o755)
    monkeypatch.setattr(backtrace_live, "_py_spy", lambda: str(spy))
    monkeypatch.setattr(backtrace_live, "LOOK_S", 0.5)
    with ranks(tmp_path / "job", ASLEEP) as started:
        done = collect_stacks(tmp_path / "store", [p.pid for p in started], samples=1)
    assert any("got no answer" in note for note in done["notes"])


def test_nobody_is_there(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(NoEvidence, match="none of these processes"):
        collect_stacks(tmp_path / "store", [gone.pid])
    assert not (tmp_path / "store").exists()


def test_without_py_spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NoEvidence, match=r"whichrank\[host\]"):
        collect_stacks(tmp_path / "store")
