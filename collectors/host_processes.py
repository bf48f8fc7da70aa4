"""The ranks of a job among the processes of this host, and what the kernel says of them (psutil and /proc).

A rank's data workers and compile workers inherit its variables: the rank is the process whose parent is none of it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK")
_SIZE = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
_LOCAL_RANK = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK")
_LOCAL_SIZE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE")
MAX_THREADS = 512  # of a process
MAX_CHILDREN = 128


@dataclass(frozen=True, slots=True)
class RankProcess:
    """A process that is a rank. None is unknown."""

    pid: int
    rank: int
    world_size: int | None = None
    local_rank: int | None = None
    local_size: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str | None, int | None]:
        """Node and size of its job, as far as its variables tell: ranks with equal places belong together."""
        return self.env.get("MASTER_ADDR", ""), self.world_size


def rank_processes(pids: Iterable[int] | None = None) -> tuple[list[RankProcess], list[int]]:
    """The ranks among these processes (all of this host), by rank; and the processes whose variables may not be read.

    A process that is named is a rank even where its variables do not say so; it is then given the next free number.
    """
    asked = None if pids is None else list(pids)
    found: dict[int, RankProcess] = {}
    refused: list[int] = []
    for pid in psutil.pids() if asked is None else asked:
        try:
            process = psutil.Process(pid)
            if asked is None and "python" not in process.name().lower() and not _is_python(process):
                continue
            env = process.environ()
        except psutil.AccessDenied:
            refused.append(pid)
            continue
        except (psutil.NoSuchProcess, psutil.ZombieProcess, OSError):
            continue
        rank = _number(env, _RANK)
        if rank is None and asked is not None:
            rank = next(n for n in range(len(asked) + 1) if n not in {p.rank for p in found.values()})
        if rank is not None:
            found[pid] = RankProcess(
                pid, rank, _number(env, _SIZE), _number(env, _LOCAL_RANK), _number(env, _LOCAL_SIZE), env
            )
    if any("RANK" in process.env for process in found.values()):  # torchrun itself has only SLURM's variables
        found = {pid: process for pid, process in found.items() if "RANK" in process.env or asked is not None}
    tops = [process for process in found.values() if not _below_its_like(process, found)]
    return sorted(tops, key=lambda process: (process.rank, process.pid)), refused


def _is_python(process: psutil.Process) -> bool:
    """A program may change its name (setproctitle), but not its file."""
    try:
        return "python" in Path(process.exe()).name.lower()
    except (psutil.Error, OSError):
        return False


def _below_its_like(process: RankProcess, found: Mapping[int, RankProcess]) -> bool:
    """Whether a process above it is the same rank of the same job."""
    try:
        parents = psutil.Process(process.pid).parents()
    except (psutil.Error, OSError):
        return False
    return any(
        (above := found.get(parent.pid)) is not None and (above.rank, above.place) == (process.rank, process.place)
        for parent in parents
    )


def missing(processes: Iterable[RankProcess]) -> list[int]:
    """Ranks of this host that have no process any more, as far as the others' variables say who must be there."""
    there = {process.rank for process in processes}
    absent: set[int] = set()
    for process in processes:
        if process.local_rank is not None and process.local_size is not None and process.local_size <= 1024:
            first = process.rank - process.local_rank
            absent |= set(range(first, first + process.local_size)) - there
    return sorted(rank for rank in absent if rank >= 0)


def states(process: RankProcess, sample: int) -> list[dict[str, Any]]:
    """Rows of cpu.utilization: the process, its threads, and the processes below it. [] where it is gone."""
    common = {"rank": process.rank, "host": socket.gethostname(), "sample": sample, "ts": time.time_ns() // 1000}
    try:
        top = psutil.Process(process.pid)
        rows = [_process(top, "process"), *_threads(top)]
    except (psutil.Error, OSError):
        return []
    try:
        below = top.children(recursive=True)[:MAX_CHILDREN]
    except (psutil.Error, OSError):
        below = []
    for child in below:
        try:
            rows.append(_process(child, "child"))
        except (psutil.Error, OSError):
            continue
    return [{**common, **row} for row in rows]


def _process(process: psutil.Process, scope: str) -> dict[str, Any]:
    stat = _stat(Path("/proc", str(process.pid), "stat"))
    return {
        "scope": scope,
        "pid": process.pid,
        "comm": process.name(),
        "state": stat.get("state"),
        "wchan": _wchan(Path("/proc", str(process.pid))),
        "cpu_time_s": sum(process.cpu_times()[:2]),
        "rss_kb": process.memory_info().rss // 1024,
    }


def _threads(process: psutil.Process) -> Iterator[dict[str, Any]]:
    for number, thread in enumerate(process.threads()):
        if number == MAX_THREADS:
            return
        folder = Path("/proc", str(process.pid), "task", str(thread.id))
        stat = _stat(folder / "stat")
        yield {
            "scope": "thread",
            "pid": process.pid,
            "os_thread_id": thread.id,
            "comm": stat.get("comm"),
            "state": stat.get("state"),
            "wchan": _wchan(folder),
            "cpu_time_s": thread.user_time + thread.system_time,
        }


def _stat(path: Path) -> dict[str, str]:
    """Name and state; the name may hold spaces and brackets."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    name, _, rest = text.partition("(")[2].rpartition(")")
    return {"comm": name, "state": rest.split()[0]} if rest.split() else {}


def _wchan(folder: Path) -> str | None:
    """The kernel function a thread waits in; None where it runs, or the kernel keeps it to itself."""
    try:
        text = (folder / "wchan").read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
    return text if text not in ("", "0") else None


def _number(env: Mapping[str, str], names: Iterable[str]) -> int | None:
    return next((int(env[name]) for name in names if env.get(name, "").isdigit()), None)
