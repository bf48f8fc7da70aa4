"""`probing -t PID whichrank` with the real probing, in a virtual environment of its own, and a real gloo job."""

from __future__ import annotations

import json
import os
import platform
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.live.running import SOURCE, wait_until, whichrank
from whichrank.collectors.probing_endpoint import Endpoint, NoProbe
from whichrank.collectors.probing_stacks import by_signal, from_inside
from whichrank.engine.manifest import Pack
from whichrank.engine.query import load

JOB = Path(__file__).with_name("probing_job.py")
VERSION = "0.2.4"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("probing"),  # one job at a time: probes of a host are found by their sockets
    pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="probing has no wheel here"),
]


@dataclass
class Probed:
    """A job of two ranks with probes, and the command `probing` beside a `probing-whichrank`."""

    folder: Path
    ranks: list[subprocess.Popen[bytes]]

    def probing(self, *arguments: str) -> tuple[int, str, str]:
        env = os.environ | {"PATH": f"{self.folder / 'venv/bin'}:{os.environ['PATH']}", "TMPDIR": str(self.folder)}
        done = subprocess.run(
            ["probing", *arguments], env=env, capture_output=True, text=True, timeout=300, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def whichrank(self, rank: int, *arguments: str) -> tuple[int, str, str]:
        return self.probing("-t", str(self.ranks[rank].pid), "whichrank", *arguments)


def _started(logs: list[Path]) -> bool:
    return all("three calls done" in log.read_text() for log in logs)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probed]:
    folder = tmp_path_factory.mktemp("probing")
    python = folder / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=300)
    pip: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "-qq",
        "--disable-pip-version-check",
        f"probing=={VERSION}",
    ]
    subprocess.run(pip, check=True, timeout=300)
    script = folder / "venv/bin/probing-whichrank"
    code = f"import sys; sys.path[:0] = [{str(SOURCE)!r}]; from whichrank.surfaces.probing import main; main()"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)} "$@"\n')
    script.chmod(0o755)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    torch = find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    env = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    env |= {"PROBING": "1", "TORCH_FR_BUFFER_SIZE": "100", "PYTHONPATH": str(Path(torch.origin).parents[1])}
    ranks = []
    try:
        for rank in range(2):
            with (folder / f"log.{rank}").open("wb") as log:
                mine = os.environ | env | {"RANK": str(rank)}
                ranks.append(subprocess.Popen([python, JOB], env=mine, stdout=log, stderr=log))
        logs = [folder / f"log.{rank}" for rank in range(2)]
        wait_until(lambda: _started(logs) or any(r.poll() is not None for r in ranks), "three calls")
        assert _started(logs), "\n".join(log.read_text()[-2000:] for log in logs)
        yield Probed(folder, ranks)
    finally:
        for process in ranks:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def told(job: Probed) -> dict[str, Any]:
    """The first verdict: in a running process an operation younger than 10 s is no hang, so it is waited for."""

    def verdict() -> dict[str, Any] | None:
        code, out, errors = job.whichrank(0, "diagnose", "--json")
        assert code in (0, 1), errors
        found: dict[str, Any] = json.loads(out)
        return found if found["category"] else None

    found: dict[str, Any] = wait_until(verdict, "a verdict")
    return found


def test_from_a_process_id_to_the_rank(told: dict[str, Any]) -> None:
    """One rank is named to probing; the other is found, both are read, and the one that did not come is accused."""
    assert (told["category"], told["culprit_ranks"]) == ("rank_not_joined", [1])
    assert told["coverage"]["ranks_seen"] == [0, 1]
    assert (told["findings"][0]["op"], told["findings"][0]["seq"]) == ("all_reduce", 4)
    assert "probing_job.py" in told["findings"][0]["details"]["last_seen"], "the recorder came with its stacks"
    assert told["next"][0]["parameters"] == {"rank": 1}


@pytest.mark.usefixtures("told")
def test_where_each_rank_stands_comes_with_it(job: Probed) -> None:
    into = job.folder / "stands"
    code, out, errors = job.whichrank(0, "diagnose", "--skill", "training_hang", "--json", "--into", str(into))
    found = json.loads(out)
    assert (code, found["culprit_ranks"]) == (1, [1]), errors
    assert "load_next_batch" in found["findings"][0]["shows"]["stands at"]
    assert "one_look" not in {gap["kind"] for gap in found["gaps"]}
    sql = "SELECT DISTINCT rank, is_main FROM python.backtrace WHERE func IN ('load_next_batch', 'all_reduce')"
    _, answer, _ = whichrank("query", into, sql + " ORDER BY rank", "--json")
    assert answer["rows"] == [{"rank": 0, "is_main": True}, {"rank": 1, "is_main": True}]


def test_nothing_stays_in_the_process(job: Probed) -> None:
    door = Endpoint(pid=job.ranks[0].pid)
    before = door.rows("SELECT count(*) AS n FROM information_schema.tables", 60)
    assert job.whichrank(0, "query", "SELECT 1")[0] == 0
    assert door.rows("SELECT count(*) AS n FROM information_schema.tables", 60) == before
    names = "SELECT * FROM python.\"builtins.str([n for n in __import__('sys').modules if 'whichrank' in n])\""
    assert list(door.rows(names, 60)[0].values()) == ["[]"]


@pytest.mark.usefixtures("told")
def test_a_rank_that_is_stopped_is_told_as_such(job: Probed) -> None:
    os.kill(job.ranks[1].pid, signal.SIGSTOP)
    try:
        into = job.folder / "stopped"
        code, out, errors = job.whichrank(0, "diagnose", "--json", "--timeout", "5", "--into", str(into))
        assert (code, json.loads(out)["culprit_ranks"]) == (1, [1]), errors
        assert "rank 1 did not give its recorder" in errors
        _, answer, _ = whichrank(
            "query", into, "SELECT DISTINCT rank, state FROM cluster.nodes ORDER BY rank", "--json"
        )
        assert answer["rows"] == [{"rank": 0, "state": "answered"}, {"rank": 1, "state": "stopped"}]
        code, out, _ = job.whichrank(1, "diagnose", "--json", "--timeout", "1")
        assert (code, "has not answered for 1 s" in json.loads(out)["error"]) == (2, True)
    finally:
        os.kill(job.ranks[1].pid, signal.SIGCONT)


def test_one_process_alone_is_not_the_job(job: Probed) -> None:
    code, out, errors = job.whichrank(
        1, "query", "SELECT DISTINCT rank FROM python.torch_nccl_flight_record", "--json", "--alone"
    )
    assert (code, json.loads(out)["rows"]) == (0, [{"rank": 1}]), errors


def test_a_process_without_a_probe_and_one_that_is_gone(job: Probed) -> None:
    code, out, _ = job.probing("-t", str(os.getpid()), "whichrank", "diagnose", "--json")
    assert (code, "PROBING=1" in json.loads(out)["next"]) == (2, True)
    gone = subprocess.Popen(["true"])
    gone.wait()
    code, out, _ = job.probing("-t", str(gone.pid), "whichrank", "diagnose", "--json")
    assert (code, json.loads(out)["error"]) == (2, f"there is no process {gone.pid} on this host")
    code, out, _ = job.probing("whichrank", "diagnose", "--json")
    assert (code, "PROBING_ENDPOINT" in json.loads(out)["looked_for"]) == (64, True)
    with pytest.raises(NoProbe):
        Endpoint(pid=gone.pid).rows("SELECT 1", 5)


def test_what_is_read_lies_in_a_store_for_the_next_command(job: Probed) -> None:
    into = job.folder / "store"
    code, out, errors = job.whichrank(0, "collect", "--into", str(into))
    assert (code, out, f"of ranks 0, 1 -> {into}" in errors) == (0, "", True)
    assert {path.name for path in (into / "torch_nccl_flight_record").iterdir()} == {"rank=0", "rank=1"}


def test_the_steps_of_the_pack_run_in_probings_own_engine(job: Probed) -> None:
    """On a table as a later probing makes it; this comes last, because the table stays in the process."""
    door = Endpoint(pid=job.ranks[0].pid)
    names = ["snapshot_id", "rank", "pg_name", "pg_desc", "collective_seq_id", "profiling_name", "state", "input_sizes"]
    entries = [[1, 0, "0", "default_pg", 1, "nccl:all_reduce", "completed", "[[4]]", 0]]
    entries += [[1, 1, *entries[0][2:]], [1, 0, "0", "default_pg", 2, *entries[0][5:]]]
    code = f"import probing; t = probing.ExternalTable('torch_nccl_flight_record', {[*names, 'is_p2p']})"
    code += f"; list(map(t.append, {entries}))"
    made = f"builtins.exec(bytes.fromhex('{code.encode().hex()}').decode())"
    door.rows(f'SELECT * FROM python."{made}"', 60)
    root = Pack().library.root / "probing"
    statement = load(root / "collective_alignment.sql")
    rows = door.rows(statement.render(use_global=False).replace("$seq_window", "200"), 60)
    assert list(rows[0]) == list(statement.columns)
    assert [(row["collective_seq_id"], row["ranks_behind"], row["first_rank_behind"]) for row in rows] == [(2, 1, 1)]
    there = door.rows(load(root / "tables_there.sql").render(use_global=False), 60)
    assert {"table_schema": "python", "table_name": "torch_nccl_flight_record"} in there
    sample = load(root / "sample.sql").body.replace("{{ table }}", "python.torch_nccl_flight_record")
    assert len(door.rows(sample, 60)) == 3


def test_a_process_that_holds_the_gil_gives_its_stack_to_a_signal(job: Probed) -> None:
    code = "import ctypes\ndef holds_the_gil():\n    while True: ctypes.PyDLL(None).sleep(1000)\n"
    script = job.folder / "gil.py"
    script.write_text(code + "print('here', flush=True)\nholds_the_gil()\n")
    python = job.folder / "venv/bin/python"
    with subprocess.Popen([python, script], env=os.environ | {"PROBING": "1"}, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            door = Endpoint(pid=process.pid)
            frames = wait_until(lambda: _frames_of("holds_the_gil", door), "a stack", None)
            assert not any("stack_tracer" in func for func in frames)
            with pytest.raises(NoProbe, match="has not answered for 1 s"):
                from_inside(door, 1)
        finally:
            process.kill()


def _frames_of(function: str, door: Endpoint) -> list[str]:
    """The functions of the main thread, by a signal; empty as long as the function is not among them."""
    try:
        look, _ = by_signal(door, 60)
    except NoProbe:
        return []  # there is no probe yet
    found = [frame.func for frame in look.threads[0].frames]
    return found if function in found else []
