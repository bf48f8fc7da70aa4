"""A running job with probes of `probing` in its processes -> rows, with nothing of ours installed there.

probing has no Flight Recorder, but a table of its schema `python` that does not exist is a Python expression. Ours is
the source of `flight_recorder_live`, run in a namespace of its own: nothing of it stays in the process. Peers are
found by the sockets of this host and by `cluster.nodes`.
"""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whichrank.batch import Batch, note, notes_batch, rows_to_arrow
from whichrank.collectors import flight_recorder_live
from whichrank.collectors.backtrace import Look, to_batch
from whichrank.collectors.backtrace import Origin as Looked
from whichrank.collectors.flight_recorder_answer import to_rows
from whichrank.collectors.probing_endpoint import Endpoint, NoProbe, NoSuchTable, endpoint, local, value_of
from whichrank.collectors.probing_stacks import by_signal, from_inside
from whichrank.tables import NODES

# Statements for probing's own engine (DataFusion), not for ours: they name its tables.
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
_STACKS_S = 10.0
_LOOKS = 2  # one does not tell slow from stuck
_BETWEEN_S = 1.0
_AT_ONCE = 32


class NoRank(Exception):
    """The process answers, and is no rank of a distributed job."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the job. rank, host: as known from outside; None is unknown."""

    door: Endpoint
    rank: int | None = None
    host: str | None = None


@dataclass(slots=True)
class Answer:
    """What came of asking. head: of flight_recorder_live, with `body`; empty, with why, where Python is silent."""

    head: dict[str, Any] = field(default_factory=dict)
    looks: list[tuple[Look, int]] = field(default_factory=list)
    why: NoProbe | None = None

    @property
    def worth(self) -> int:
        """Recorders first, then answers without, then silence."""
        return int(not self.head.get("parts")) + int(not self.head)


def read(target: Endpoint, *, alone: bool = False, signals: bool = False, timeout_s: float = 60.0) -> Iterator[Batch]:
    """One batch per process that answers, a note for each that does not, then `cluster.nodes`.

    alone: ask only that process, not the others of its job. signals: get stacks by a signal as well, which works where
    the GIL is held. Raises NoProbe, NoRank for the target itself.
    """
    now = time.time_ns()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 10**9))
    snapshot = f"{stamp}{now // 10**6 % 1000:03d}Z-probing"
    looks = snapshot.replace("probing", "stacks-probing")  # a collection of its own: stacks are compared among theirs
    _greet(target, min(_TABLE_S, timeout_s))
    asked = [Process(target), *([] if alone else peers(target))]
    with ThreadPoolExecutor(min(_AT_ONCE, len(asked))) as pool:
        answers = list(zip(asked, pool.map(lambda p: _ask(p.door, timeout_s, signals), asked), strict=True))
    job, size = _job_of(*answers[0])
    nodes: dict[int | None, dict[str, Any]] = {}
    for process, answer in sorted(answers, key=lambda pair: pair[1].worth):
        rank = answer.head.get("rank", process.rank)
        if rank in nodes or answer.head.get("job_id", job) != job:
            continue  # a rank through another door, a worker process of it, another job
        yield _batch(answer, snapshot, process)
        if answer.looks and rank is not None:
            origin = Looked(looks, "process", None, answer.head.get("host", socket.gethostname()), job)
            yield to_batch(rank, answer.looks, origin)
        if rank is not None:
            nodes[rank] = _node(answer.head, process, job, size)
    for name in (snapshot, looks):
        rows = [row | {"snapshot_id": name} for row in nodes.values()]
        yield Batch(name, None, {NODES.name: rows_to_arrow(NODES, rows)})


def _greet(target: Endpoint, timeout_s: float) -> None:
    try:
        target.rows("SELECT 1", timeout_s)
    except NoSuchTable as error:
        raise NoProbe(f"{target} does not run SQL: {error}") from None


def _job_of(process: Process, answer: Answer) -> tuple[str, int | None]:
    if answer.why:
        raise answer.why
    if answer.head["rank"] is None:
        raise NoRank(f"{process.door} is no rank: torch.distributed is not initialised there, and RANK is not set")
    return str(answer.head["job_id"]), answer.head.get("world_size")


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
def _ask(door: Endpoint, timeout_s: float, signals: bool) -> Answer:
    """By a signal first, if at all: an expression that waits for the GIL may keep the probe from answering anything."""
    answer = Answer()
    if signals and _state(door) == "silent":
        with suppress(NoProbe):
            answer.looks = [by_signal(door, _STACKS_S)]
    try:
        answer.head = _head(value_of(door, flight_recorder_live, "answer_text(stacks=True)", timeout_s))
        with suppress(NoProbe):  # the recorder is enough for a verdict
            answer.looks = list(_looks(door, min(_STACKS_S, timeout_s)))
    except NoProbe as error:
        answer.why = error
    except (ValueError, KeyError, TypeError) as error:
        answer.why = NoProbe(f"{door} did not evaluate an expression as expected: {error}")
    return answer


def _looks(door: Endpoint, timeout_s: float) -> Iterator[tuple[Look, int]]:
    for number in range(_LOOKS):
        time.sleep(_BETWEEN_S if number else 0)
        yield from_inside(door, timeout_s)


def _head(text: str) -> dict[str, Any]:
    """The answer of flight_recorder_live.answer_text. Raises ValueError, KeyError, TypeError for any other text."""
    head: dict[str, Any] = json.loads(text)
    needed = {"parts": list(head["parts"]), "job_id": str(head["job_id"]), "rank": head["rank"]}
    return head | needed | {"body": base64.b64decode(head["body"])}


def _batch(answer: Answer, snapshot: str, process: Process) -> Batch:
    if answer.head:
        return to_rows({**answer.head, "snapshot_id": snapshot}, answer.head["body"], name=str(process.door))
    text = f"rank {process.rank} did not give its recorder: {answer.why}"
    said = note("unreadable", text, severity="error", source=str(process.door), rank=process.rank)
    return notes_batch(snapshot, process.rank, [said])


def _node(head: Mapping[str, Any], process: Process, job: str, size: int | None) -> dict[str, Any]:
    """A row of cluster.nodes; without an answer, what is known of the process from outside."""
    names = ("rank", "host", "pid", "local_rank", "backend", "torch_version", "nccl_version")
    row = {name: head.get(name) for name in names} | {"job_id": job, "world_size": size}
    if head:
        return row | {"state": "answered", "answered_ns": head.get("snapshot_ns")}
    return row | {"rank": process.rank, "host": process.host, "pid": process.door.pid, "state": _state(process.door)}


def _state(door: Endpoint) -> str:
    """`stopped` where the kernel says so, `dead` where it is gone, else `silent`."""
    try:
        stat = Path(f"/proc/{door.pid}/stat").read_text()
    except OSError:
        return "silent" if door.pid is None else "dead"
    return "stopped" if stat.rpartition(")")[2].split()[0] in "Tt" else "silent"


def _number(known: Mapping[str, str], *names: str) -> int | None:
    return next((int(known[name]) for name in names if known.get(name, "").isdecimal()), None)
