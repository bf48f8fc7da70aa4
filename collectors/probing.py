"""A running job with probes of `probing` in its processes -> rows, with nothing of ours installed there.

probing has no Flight Recorder, but a table of its schema `python` that does not exist is a Python expression. Ours is
the source of `flight_recorder_live`, run in a namespace of its own: nothing of it stays in the process. Peers are
found by the sockets of this host and by `cluster.nodes`.
"""

from __future__ import annotations

import base64
import inspect
import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichrank.batch import Batch, note, notes_batch, rows_to_arrow
from whichrank.collectors import flight_recorder_live
from whichrank.collectors.flight_recorder_answer import to_rows
from whichrank.collectors.probing_endpoint import Endpoint, NoProbe, NoSuchTable, endpoint, local
from whichrank.tables import NODES

# Statements for probing's own engine (DataFusion), not for ours: they name its tables.
_RECORDER = 'SELECT * FROM python."{expression}"'
_ENVIRONMENT = "SELECT name, value FROM process.envs WHERE name IN ({names})"
_CLUSTER = "SELECT rank, host, addr FROM cluster.nodes"
# The rest of an environment is none of our business: it holds secrets.
_NAMES = (
    "RANK", "SLURM_PROCID", "WORLD_SIZE", "SLURM_NTASKS", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "JOB_ID", "JOB_RESTART_COUNT",
    "KUBERNETES_JOB_NAME",
)  # fmt: skip
_JOBS = ("MASTER_ADDR", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "JOB_ID", "KUBERNETES_JOB_NAME")
_TABLE_S = 5.0  # a recorder with stacks may take longer
_AT_ONCE = 32


class NoRank(Exception):
    """The process answers, and is no rank of a distributed job."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the job. rank, host: as known from outside; None is unknown."""

    door: Endpoint
    rank: int | None = None
    host: str | None = None


def read(target: Endpoint, *, alone: bool = False, timeout_s: float = 60.0) -> Iterator[Batch]:
    """One batch per process that answers, a note for each that does not, then `cluster.nodes`.

    alone: ask only that process, not the others of its job. Raises NoProbe, NoRank for the target itself.
    """
    now = time.time_ns()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 10**9))
    snapshot = f"{stamp}{now // 10**6 % 1000:03d}Z-probing"
    _greet(target, min(_TABLE_S, timeout_s))
    asked = [Process(target), *([] if alone else peers(target))]
    with ThreadPoolExecutor(min(_AT_ONCE, len(asked))) as pool:
        answers = list(zip(asked, pool.map(lambda p: _try(p, timeout_s), asked), strict=True))
    job, size = _job_of(*answers[0])
    nodes: dict[int | None, dict[str, Any]] = {}
    for process, answer in sorted(answers, key=lambda pair: _worth(pair[1])):
        head = {} if isinstance(answer, Exception) else answer
        rank = head.get("rank", process.rank)
        if rank in nodes or head.get("job_id", job) != job:
            continue  # a rank through another door, a worker process of it, another job
        yield _batch(answer, snapshot, process)
        if rank is not None:
            nodes[rank] = _node(head, snapshot, process, job, size)
    yield Batch(snapshot, None, {NODES.name: rows_to_arrow(NODES, list(nodes.values()))})


def _greet(target: Endpoint, timeout_s: float) -> None:
    try:
        target.rows("SELECT 1", timeout_s)
    except NoSuchTable as error:
        raise NoProbe(f"{target} does not run SQL: {error}") from None


def _worth(answer: Mapping[str, Any] | Exception) -> int:
    """Recorders first, then answers without, then silence."""
    return 2 if isinstance(answer, Exception) else int(not answer["parts"])


def _job_of(process: Process, answer: Mapping[str, Any] | Exception) -> tuple[str, int | None]:
    if isinstance(answer, Exception):
        raise answer
    if answer.get("rank") is None:
        raise NoRank(f"{process.door} is no rank: torch.distributed is not initialised there, and RANK is not set")
    return str(answer["job_id"]), answer.get("world_size")


def peers(target: Endpoint) -> list[Process]:
    """The other processes of the job of `target`: with a probe on this host, or in its `cluster.nodes`."""
    found = {process.door: process for process in _cluster(target)}
    mine = _job(_environment(target))
    for pid in local() if mine is not None else []:
        known = _environment(Endpoint(pid=pid))
        if _job(known) == mine:
            found[Endpoint(pid=pid)] = Process(Endpoint(pid=pid), _number(known, "RANK", "SLURM_PROCID"))
    found.pop(target, None)
    return list(found.values())


def _cluster(target: Endpoint) -> list[Process]:
    try:
        rows = target.rows(_CLUSTER, _TABLE_S)
        return [Process(endpoint(r["addr"]), r["rank"], r["host"]) for r in rows if r.get("addr")]
    except (NoProbe, NoSuchTable, ValueError, KeyError):
        return []  # no cluster is known there


def _environment(door: Endpoint) -> dict[str, str]:
    """The variables that tell a job: from /proc, which also knows them of a stopped process, else from probing."""
    try:
        text = Path(f"/proc/{door.pid}/environ").read_bytes().decode(errors="replace")
        known = dict(part.split("=", 1) for part in text.split("\0") if "=" in part)
        known = {name: known[name] for name in _NAMES if name in known}
    except OSError:
        known = {}
    if _job(known) is None:
        names = ", ".join(f"'{name}'" for name in _NAMES)
        try:
            known = {r["name"]: r["value"] for r in door.rows(_ENVIRONMENT.format(names=names), _TABLE_S)}
        except (NoProbe, NoSuchTable, KeyError):
            return known
    return known


def _job(known: Mapping[str, str]) -> str | None:
    return flight_recorder_live.job_id(known) if any(known.get(name) for name in _JOBS) else None


# ---- one process -----------------------------------------------------------------------------------------------------
def _try(process: Process, timeout_s: float) -> dict[str, Any] | Exception:
    try:
        return _ask(process.door, timeout_s)
    except NoProbe as error:
        return error


def _ask(door: Endpoint, timeout_s: float) -> dict[str, Any]:
    """The answer of flight_recorder_live.answer_text. Raises NoProbe, also where Python does not answer."""
    try:
        [row] = door.rows(_RECORDER.format(expression=expression()), timeout_s)
        [text] = (value for value in row.values() if isinstance(value, str))
        head: dict[str, Any] = json.loads(text)
        head |= {
            "parts": list(head["parts"]),
            "body": base64.b64decode(head["body"]),
            "job_id": str(head["job_id"]),
            "rank": head["rank"],
        }
    except (NoSuchTable, ValueError, KeyError, TypeError) as error:
        text = f"{door} did not evaluate an expression: {error}"
        raise NoProbe(text, "look at the last lines that probing wrote into the log of the job") from None
    return head


def expression() -> str:
    """A Python expression without quotes or dots that SQL or probing could stumble over; its value is the answer."""
    source = base64.b64encode(inspect.getsource(flight_recorder_live).encode()).decode()
    inner = (
        "(lambda space: (exec(compile(__import__('base64').b64decode('" + source + "'), 'whichrank', 'exec'), space), "
        "space['answer_text'](stacks=True))[1])({'__name__': 'whichrank.inside'})"
    )
    return f"builtins.eval(__import__('base64').b64decode('{base64.b64encode(inner.encode()).decode()}'))"


def _batch(answer: Mapping[str, Any] | Exception, snapshot: str, process: Process) -> Batch:
    if not isinstance(answer, Exception):
        return to_rows({**answer, "snapshot_id": snapshot}, answer["body"], name=str(process.door))
    text = f"rank {process.rank} did not give its recorder: {answer}"
    said = note("unreadable", text, severity="error", source=str(process.door), rank=process.rank)
    return notes_batch(snapshot, process.rank, [said])


def _node(head: Mapping[str, Any], snapshot: str, process: Process, job: str, size: int | None) -> dict[str, Any]:
    """A row of cluster.nodes; without an answer, what is known of the process from outside."""
    row = {name: head.get(name) for name in ("rank", "host", "pid", "local_rank", "backend", "torch_version")}
    row |= {"snapshot_id": snapshot, "job_id": job, "world_size": size, "nccl_version": head.get("nccl_version")}
    if head:
        return row | {"state": "answered", "answered_ns": head.get("snapshot_ns"), "last_answered": snapshot}
    return row | {"rank": process.rank, "host": process.host, "pid": process.door.pid, "state": _state(process)}


def _state(process: Process) -> str:
    """`stopped` where the kernel says so, else `silent`."""
    try:
        stat = Path(f"/proc/{process.door.pid}/stat").read_text()
    except OSError:
        return "silent" if process.door.pid is None else "dead"
    return "stopped" if stat.rpartition(")")[2].split()[0] in "Tt" else "silent"


def _number(known: Mapping[str, str], *names: str) -> int | None:
    return next((int(known[name]) for name in names if known.get(name, "").isdecimal()), None)
