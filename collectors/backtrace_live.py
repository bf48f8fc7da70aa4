"""The ranks of this host, looked at from outside with py-spy -> their stacks and what the kernel says of them.

py-spy only reads: with --nonblocking it never stops a process, so being killed in the middle leaves nothing behind.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichrank.batch import Batch, note, notes_batch, rows_to_arrow
from whichrank.collectors.backtrace import Look, Origin, to_batch
from whichrank.collectors.backtrace_text import parse_json
from whichrank.collectors.flight_recorder_live import job_id
from whichrank.collectors.host_processes import RankProcess, missing, rank_processes, states
from whichrank.tables import CPU, NODES

LOOK_S = 20.0  # a host under load takes its time; a process in uninterruptible sleep never answers
TRIES = 3  # without stopping it, a process may move while it is read
AT_ONCE = 8
RIGHTS = (
    "run it as the user of the job or as root; in a container add the capability SYS_PTRACE "
    "(docker --cap-add SYS_PTRACE, Kubernetes securityContext.capabilities.add)"
)
Progress = Callable[[int, int], None]


class NoRanks(Exception):
    """No process here is a rank, or py-spy is not there."""


@dataclass(slots=True)
class Seen:
    """What became of the looks at one rank. state: as in cluster.nodes. why: said where it gave no stack."""

    process: RankProcess
    looks: list[tuple[Look, int]]
    rows: list[dict[str, Any]]
    state: str = "answered"
    why: str | None = None


def read(
    pids: Iterable[int] | None = None,
    *,
    samples: int = 3,
    every_s: float = 1.0,
    native: bool = False,
    on_progress: Progress | None = None,
) -> Iterator[Batch]:
    """Look at the ranks of this host `samples` times; a batch per rank, then `cluster.nodes`. Raises NoRanks.

    pids: the processes to look at; default: all whose variables name a rank.
    """
    spy = _py_spy()
    processes, refused = rank_processes(pids)
    if not processes:
        raise NoRanks(_nobody(refused, pids))
    processes, others = _one_job(processes)
    seen = {process.pid: Seen(process, [], []) for process in processes}
    for sample in range(samples):
        if sample:
            time.sleep(every_s)
        with ThreadPoolExecutor(min(AT_ONCE, len(processes))) as pool:
            list(pool.map(lambda s, n=sample: _look(spy, s, n, native), seen.values()))
        if on_progress:
            on_progress(sample + 1, samples)
    notes = []
    if refused:
        said = f"{len(refused)} processes here may not be looked at: {RIGHTS}"
        notes.append(note("no_rights", said, severity="info", count=len(refused)))
    if others:
        said = f"other jobs run here and were left out: {', '.join(others)} (collect --stacks --pid chooses)"
        notes.append(note("other_jobs", said, count=len(others)))
    yield from _batches(list(seen.values()), notes)


def _one_job(processes: Sequence[RankProcess]) -> tuple[list[RankProcess], list[str]]:
    """The ranks of the job that has most here, and the ids of the others."""
    jobs: dict[str, dict[int, RankProcess]] = {}
    for process in processes:
        jobs.setdefault(job_id(process.env), {})[process.rank] = process
    chosen = max(jobs, key=lambda job: (len(jobs[job]), max(p.pid for p in jobs[job].values())))
    return list(jobs[chosen].values()), sorted(jobs.keys() - {chosen})


def _batches(seen: Sequence[Seen], notes: list[dict[str, Any]]) -> Iterator[Batch]:
    host, now = socket.gethostname(), time.time_ns()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 10**9))
    snapshot = f"{stamp}{now // 10**6 % 1000:03d}Z-stacks-{_plain(host)}"
    job = job_id(seen[0].process.env)
    nodes: list[dict[str, Any]] = []
    for one in seen:
        process = one.process
        batch = to_batch(process.rank, one.looks, Origin(snapshot, "process", None, host, job))
        rows = [{"snapshot_id": snapshot, "job_id": job, **row} for row in one.rows]
        batch.tables[CPU.name] = rows_to_arrow(CPU, rows)
        if one.why:
            said = note(one.state, f"rank {process.rank} (pid {process.pid}): {one.why}", rank=process.rank)
            batch.tables |= notes_batch(snapshot, process.rank, [{**said, "host": host, "job_id": job}]).tables
        nodes.append(_node(snapshot, host, job, process.rank, one.state, process))
        yield batch
    gone = missing([one.process for one in seen])
    nodes += [_node(snapshot, host, job, rank, "dead", None) for rank in gone]
    notes = notes + [note("dead", f"rank {rank} has no process on {host} any more", rank=rank) for rank in gone]
    last = notes_batch(snapshot, None, notes) if notes else Batch(snapshot, None)
    last.tables[NODES.name] = rows_to_arrow(NODES, nodes)
    yield last


def _node(snapshot: str, host: str, job: str, rank: int, state: str, process: RankProcess | None) -> dict[str, Any]:
    known = {"snapshot_id": snapshot, "host": host, "job_id": job, "rank": rank, "state": state}
    if process is None:
        return known
    return known | {"world_size": process.world_size, "local_rank": process.local_rank, "pid": process.pid}


def _look(spy: str, seen: Seen, sample: int, native: bool) -> None:
    """One look at one rank. A stopped process is not asked: its stack cannot move, and py-spy cannot attach."""
    rows = states(seen.process, sample)
    seen.rows += rows
    if not rows:
        seen.state, seen.why = "dead", "its process is gone"
        return
    state = rows[0]["state"]
    try:
        look = _dump(spy, seen.process.pid, native)
        seen.looks.append((look, time.time_ns()))
        seen.state, seen.why = ("stopped", None) if state in ("T", "t") else ("answered", None)
    except _Failed as failure:
        if not seen.looks:
            seen.state, seen.why = failure.state, str(failure)
        if state in ("T", "t"):
            seen.state, seen.why = "stopped", "it is stopped (SIGSTOP, or a debugger)"
        elif state == "Z":
            seen.state, seen.why = "dead", "it is a zombie: it has ended, and nobody has waited for it"


class _Failed(Exception):
    """py-spy gave no stack. state: `no_rights`, `no_python` or `silent`."""

    def __init__(self, state: str, why: str) -> None:
        super().__init__(why)
        self.state = state


def _dump(spy: str, pid: int, native: bool) -> Look:
    command = [spy, "dump", "--json", "--pid", str(pid), *(["--native"] if native else ["--nonblocking"])]
    why = "py-spy gave nothing"
    for _ in range(TRIES):
        try:
            done = subprocess.run(command, capture_output=True, timeout=LOOK_S, check=False)
        except subprocess.TimeoutExpired:
            raise _Failed("silent", f"py-spy got no answer within {LOOK_S:g} s") from None
        try:
            looks = parse_json(done.stdout.decode("utf-8", "replace")) if done.returncode == 0 else []
        except ValueError:
            looks = []
        if looks:
            return looks[0]
        why = " ".join(done.stderr.decode("utf-8", "replace").partition("Stack backtrace")[0].split())
        if re.search("permission denied|EPERM|not permitted", why, re.IGNORECASE):
            raise _Failed("no_rights", f"its memory may not be read: {RIGHTS}")
        if "Failed to find python" in why or "python version" in why:
            raise _Failed("no_python", f"py-spy finds no Python in it: {why[:200]}")
    raise _Failed("silent", f"py-spy gave no stack: {why[:200]}")


def _py_spy() -> str:
    """The program, beside our Python or on the path. Raises NoRanks."""
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if beside.is_file() else shutil.which("py-spy")
    if not found:
        raise NoRanks("py-spy is not installed: pip install 'whichrank[host]'")
    return found


def _nobody(refused: Sequence[int], pids: Iterable[int] | None) -> str:
    if refused:
        return f"the variables of {len(refused)} processes may not be read: {RIGHTS}"
    if pids is not None:
        return "none of these processes is there"
    return "no process on this host has a rank in its variables (RANK, SLURM_PROCID)"


def _plain(host: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "._") else "_" for c in host)[:60] or "host"
