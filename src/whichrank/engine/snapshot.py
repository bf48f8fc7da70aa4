"""Ask every rank of a running job for its recorder, see who answers, and turn the answers into shards."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichrank.batch import Batch, note, notes_batch, rows_to_arrow
from whichrank.errors import NoEvidence
from whichrank.store import live
from whichrank.tables import DUMP, NODES

POLL_S = 0.05
QUIET_S = 1.0  # a rank whose heart stopped before it was asked is not waited for longer
STACKS_S = 3.0  # a verdict does not need them, so nobody waits longer for them
GONE = ("exited", "failed", "terminated")  # what a process says of itself when it goes
TURN_ON = "start the job with WHICHRANK_STORE=STORE torchrun ... -m whichrank.watch train.py"
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Who answered a request. states: rank -> `answered`, or why it did not (see cluster.nodes)."""

    snapshot_id: str
    job_id: str
    states: dict[int, str]
    hosts: dict[int, str | None]
    seconds: float

    @property
    def answered(self) -> list[int]:
        return sorted(rank for rank, state in self.states.items() if state == "answered")

    @property
    def silent(self) -> list[int]:
        return sorted(rank for rank, state in self.states.items() if state != "answered")


def take(
    store: Path,
    wait_s: float = 30.0,
    *,
    job_id: str | None = None,
    stacks_s: float = STACKS_S,
    on_progress: Progress | None = None,
) -> Snapshot:
    """Ask, wait until everyone who can answer has, or for wait_s, and write the shards.

    stacks_s: when all have answered, wait so long for their stacks. Where all are gone, the snapshot is what they
    left on the way out. Raises NoEvidence where nobody watches or nobody answers, StoreNotWritten.
    """
    from whichrank.store.shards import not_written

    job = job_id or live.newest_job(store)
    if job is None or not live.nodes(store, job):
        raise NoEvidence(
            f"no running job has said a word in {store}", looked_for="nodes/<job>/rank=<n>.json", next=TURN_ON
        )
    started = time.monotonic()
    try:
        request = live.new_request(job, "asked")
        live.ask(store, request)
        states = _wait(store, request, (started + wait_s, stacks_s), on_progress)
        snapshot_id = request.snapshot_id if "answered" in states.values() else _left_by(store, job)
        if snapshot_id is None:
            raise _nobody(store, job, wait_s, states)
        if snapshot_id != request.snapshot_id:
            states |= dict.fromkeys((a.rank for a in live.answers(store, snapshot_id)), "answered")
        live.close(store, snapshot_id, states)
    except OSError as error:
        raise not_written(store, error) from None
    convert(store, snapshot_id)
    hosts = {node["rank"]: node.get("host") for node in live.nodes(store, job)}
    return Snapshot(snapshot_id, job, states, hosts, time.monotonic() - started)


def _left_by(store: Path, job: str) -> str | None:
    """The newest snapshot of a job nobody answers for any more."""
    theirs = {request.snapshot_id for request in live.requests(store) if request.job_id == job}
    return max(theirs.intersection(live.snapshot_ids(store)), default=None)


def _nobody(store: Path, job: str, wait_s: float, states: Mapping[int, str]) -> NoEvidence:
    shown = ", ".join(f"rank {rank} {state}" for rank, state in sorted(states.items())[:8])
    said = f"no rank of job {job} answered within {wait_s:.0f} s, and none left a snapshot: {shown}"
    return NoEvidence(said, looked_for="processes with whichrank.watch in them", next=f"whichrank diagnose {store}")


def _wait(
    store: Path, request: live.Request, patience: tuple[float, float], on_progress: Progress | None
) -> dict[int, str]:
    """States of all ranks, when all that can have answered. patience: deadline (monotonic), seconds for stacks."""
    deadline, stacks_s = patience
    asked = time.monotonic()
    enough: float | None = None  # when everyone who can answer has
    while True:
        answers = live.answers(store, request.snapshot_id)
        states = _states(store, request.job_id, {a.rank for a in answers})
        if on_progress:
            on_progress(len(answers), len(states))
        now = time.monotonic()
        silent = {rank for rank, state in states.items() if state == "silent"}
        if now > asked + QUIET_S:
            silent -= _quiet_before(store, request)
        if not silent:
            enough = enough or now
            if all(a.stacks for a in answers) or now > enough + stacks_s:
                return states
        if now > deadline:
            return states
        time.sleep(POLL_S)


def _quiet_before(store: Path, request: live.Request) -> set[int]:
    """Ranks whose heart had stopped when they were asked. Both times are those of the file system's clock."""
    asked_ns = (store / live.REQUESTS / f"{request.snapshot_id}.json").stat().st_mtime_ns
    known = live.nodes(store, request.job_id)
    return {node["rank"] for node in known if asked_ns - node["heartbeat_ns"] > live.STALE_S * 1e9}


def _states(store: Path, job_id: str, answered: set[int]) -> dict[int, str]:
    nodes = {node["rank"]: node for node in live.nodes(store, job_id)}
    states = {}
    for rank in sorted(live.expected(nodes.values()) | answered):
        states[rank] = "answered" if rank in answered else _why_silent(nodes.get(rank))
    return states


def _why_silent(node: Mapping[str, Any] | None) -> str:
    """What can be told about a process that has not answered: much on our host, little elsewhere."""
    if node is None:
        return "never_seen"
    if node.get("state") in GONE:
        return str(node["state"])
    if node.get("host") == socket.gethostname() and isinstance(node.get("pid"), int):
        try:
            stat = Path(f"/proc/{node['pid']}/stat").read_text(errors="replace")
        except OSError:
            return "dead" if Path("/proc/self/stat").exists() else "silent"
        letter = stat.rpartition(")")[2].split()[0]
        return {"T": "stopped", "t": "stopped", "Z": "dead", "X": "dead"}.get(letter, "silent")
    return "silent"


# ---- answers -> shards -----------------------------------------------------------------------------------------------
def convert_all(store: Path, *, newest: bool = False) -> list[str]:
    """Write the shards of every snapshot that is complete (of the newest, if none is); returns their ids.

    newest: only of the newest one, which is all that a diagnosis reads.

    Any number of readers may do so at the same time: they write the same files. Raises StoreNotWritten.
    """
    ids = live.snapshot_ids(store)
    if newest:
        whole = [next((i for i in reversed(ids) if live.complete(store, i)), ids[-1])] if ids else []
    else:
        whole = [i for i in ids if live.complete(store, i)] or ids[-1:]
    for snapshot_id in whole:
        convert(store, snapshot_id)
    return whole


def convert(store: Path, snapshot_id: str) -> None:
    """Write the shards of one snapshot, unless they are there."""
    from whichrank.store.shards import shard_path, write

    done = shard_path(store, NODES, None, snapshot_id)
    answers = live.answers(store, snapshot_id)
    fresh = [a for a in answers if not shard_path(store, DUMP, a.rank, snapshot_id).exists()]
    if done.exists() and not fresh:
        return
    for batch in batches(store, snapshot_id):
        if batch.rank is None or batch.rank in {a.rank for a in fresh}:
            write(store, batch)


def batches(store: Path, snapshot_id: str) -> Iterator[Batch]:
    """The rows of all answers, then those of cluster.nodes, and a note about the ranks that stayed silent."""
    from whichrank.collectors.flight_recorder_answer import to_rows

    heads: dict[int, dict[str, Any]] = {}
    for answer in live.answers(store, snapshot_id):
        try:
            head, body = live.split(answer.path.read_bytes())
            stacks = answer.stacks.read_bytes() if answer.stacks else None
            heads[answer.rank] = head
            yield to_rows(head | {"snapshot_id": snapshot_id, "rank": answer.rank}, body, stacks, str(answer.path))
        except (OSError, ValueError) as error:
            text = f"the answer of rank {answer.rank} cannot be read: {error}"
            said = note("unreadable", text, severity="error", source=str(answer.path), rank=answer.rank)
            yield notes_batch(snapshot_id, answer.rank, [said])
    yield _nodes(store, snapshot_id, heads)


def _nodes(store: Path, snapshot_id: str, heads: Mapping[int, Mapping[str, Any]]) -> Batch:
    request = live.read_request(store / live.REQUESTS / f"{snapshot_id}.json")
    job = request.job_id if request else next((str(h["job_id"]) for h in heads.values() if h.get("job_id")), "")
    known = {node["rank"]: node for node in live.nodes(store, job)}
    states = _states(store, job, set(heads)) | live.closing_states(store, snapshot_id)
    earlier = [i for i in live.snapshot_ids(store) if i <= snapshot_id]
    rows = []
    for rank, state in sorted(states.items()):
        node = known.get(rank, {}) | dict(heads.get(rank, {}))
        last = next((i for i in reversed(earlier) if live.answer_path(store, i, rank).exists()), None)
        row = {c.name: node.get(c.name) for c in NODES.stored}
        rows.append(
            row
            | {"snapshot_id": snapshot_id, "rank": rank, "job_id": job, "state": state, "last_answered": last}
            | {"answered_ns": node.get("snapshot_ns"), "last_heartbeat_ns": known.get(rank, {}).get("heartbeat_ns")}
        )
    return Batch(snapshot_id, None, {NODES.name: rows_to_arrow(NODES, rows)})
