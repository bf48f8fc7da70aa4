"""How a running job and the people who ask it talk through the store, in files that appear whole or not at all.

    STORE/nodes/<job>/rank=<n>.json               written by each process at its start; its mtime is the heartbeat
    STORE/requests/<snapshot_id>.json             asked by a person, or by a rank that suspects something
    STORE/answers/<snapshot_id>/rank=<n>.fr       a line of JSON (who, when), then the bytes of the recorder
    STORE/answers/<snapshot_id>/rank=<n>.stacks.fr   the same with stacks, taken afterwards
    STORE/answers/<snapshot_id>/closed.json       the one who asked waits no longer

Imported inside training processes: the standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NODES, REQUESTS, ANSWERS = "nodes", "requests", "answers"
FOLDERS = (NODES, REQUESTS, ANSWERS)
HEARTBEAT_S = 5.0
STALE_S = 2 * HEARTBEAT_S
_MOST_RANKS = 1 << 20  # a size beyond that is a mistake
_CLOSED = "closed.json"
_RANK = re.compile(r"rank=(\d+)\.(json|fr|stacks\.fr)")


@dataclass(frozen=True, slots=True)
class Request:
    """One moment at which every rank of a job is to be looked at. asked_ns: ns since epoch, by the asker's clock."""

    snapshot_id: str
    job_id: str
    reason: str  # `asked`, `suspicion`, `interval`, `exception`
    asked_ns: int
    stacks: bool = True


def new_request(job_id: str, reason: str, *, stacks: bool = True) -> Request:
    """A request of this moment; its id sorts by time and belongs to one job only."""
    now = time.time_ns()
    seconds, rest = divmod(now, 10**9)
    stamp = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(seconds))}{rest // 10**6:03d}Z"
    return Request(f"{stamp}-{job_key(job_id)}-{uuid.uuid4().hex[:4]}", job_id, reason, now, stacks)


def job_key(job_id: str) -> str:
    """Eight letters of a job id, for names of files."""
    return hashlib.blake2b(job_id.encode("utf-8", "replace"), digest_size=4).hexdigest()


def write_whole(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file that appears whole or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


# ---- requests --------------------------------------------------------------------------------------------------------
def ask(store: Path, request: Request) -> None:
    """Put a request where every rank sees it. Raises OSError."""
    write_whole(store / REQUESTS / f"{request.snapshot_id}.json", json.dumps(asdict(request)).encode())


def ask_once(store: Path, reason: str, job_id: str, within_s: float) -> Request:
    """The request of an event that many ranks notice at about the same time: all of them get the same one.

    Whoever comes first makes it; it stands for `within_s`. Raises OSError.
    """
    mark = store / REQUESTS / f".{reason}-{job_key(job_id)}"
    for _ in range(3):
        standing = read_request(mark)
        if standing is not None and time.time_ns() - standing.asked_ns < within_s * 1e9:
            ask(store, standing)  # whoever made it may have died before it asked
            return standing
        if standing is not None:
            mark.unlink(missing_ok=True)
        request = new_request(job_id, reason, stacks=reason != "exception")
        draft = store / REQUESTS / f".{request.snapshot_id}.draft"
        write_whole(draft, json.dumps(asdict(request)).encode())
        try:
            os.link(draft, mark)  # fails where another was quicker
            ask(store, request)
            return request
        except FileExistsError:
            continue
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
    request = new_request(job_id, reason)
    ask(store, request)
    return request


def requests(store: Path) -> list[Request]:
    """All requests, oldest first; what is no request is left out."""
    found = []
    for path in sorted((store / REQUESTS).glob("[!.]*.json")):
        request = read_request(path)
        if request and request.snapshot_id == path.stem:
            found.append(request)
    return found


def read_request(path: Path) -> Request | None:
    """The request in a file, or None."""
    raw = _object(path)
    try:
        return Request(
            str(raw["snapshot_id"]), str(raw["job_id"]), str(raw["reason"]), int(raw["asked_ns"]), bool(raw["stacks"])
        )
    except (KeyError, TypeError, ValueError):
        return None


# ---- nodes -----------------------------------------------------------------------------------------------------------
def node_path(store: Path, job_id: str, rank: int) -> Path:
    """Where a process says who it is."""
    return store / NODES / job_key(job_id) / f"rank={rank}.json"


def nodes(store: Path, job_id: str | None = None) -> list[dict[str, Any]]:
    """What processes of a job (of all jobs) say of themselves, by job and rank; `heartbeat_ns`: the file's time."""
    pattern = f"{NODES}/{job_key(job_id) if job_id else '*'}/rank=*.json"
    found = []
    for path in store.glob(pattern):
        named = _RANK.fullmatch(path.name)
        node = _object(path)
        if named and node and (job_id is None or node.get("job_id") == job_id):
            with suppress(OSError):
                found.append(node | {"rank": int(named[1]), "heartbeat_ns": path.stat().st_mtime_ns})
    return sorted(found, key=lambda node: (str(node.get("job_id")), node["rank"]))


def expected(known: Collection[Mapping[str, Any]]) -> set[int]:
    """The ranks a job must have: those that were seen, and all below the size they speak of."""
    sizes = [node["world_size"] for node in known if isinstance(node.get("world_size"), int)]
    return {node["rank"] for node in known} | set(range(min(max(sizes, default=0), _MOST_RANKS)))


def newest_job(store: Path) -> str | None:
    """The job whose newest heartbeat is the newest of all."""
    newest = max(nodes(store), key=lambda node: int(node["heartbeat_ns"]), default=None)
    return str(newest["job_id"]) if newest and newest.get("job_id") else None


# ---- answers ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Answer:
    """One rank's answer to one request. stacks: the second file of it, if it is there."""

    rank: int
    path: Path
    stacks: Path | None


def answer_path(store: Path, snapshot_id: str, rank: int, *, stacks: bool = False) -> Path:
    """Where a rank puts its answer."""
    return store / ANSWERS / snapshot_id / f"rank={rank}{'.stacks' if stacks else ''}.fr"


def answers(store: Path, snapshot_id: str) -> list[Answer]:
    """Who has answered, by rank."""
    files: dict[int, dict[str, Path]] = {}
    for path in (store / ANSWERS / snapshot_id).glob("rank=*.fr"):
        named = _RANK.fullmatch(path.name)
        if named:
            files.setdefault(int(named[1]), {})[named[2]] = path
    return [Answer(rank, f["fr"], f.get("stacks.fr")) for rank, f in sorted(files.items()) if "fr" in f]


def snapshot_ids(store: Path) -> list[str]:
    """Snapshots anybody has answered, oldest first."""
    return sorted(p.name for p in (store / ANSWERS).glob("[!.]*") if p.is_dir())


def close(store: Path, snapshot_id: str, states: dict[int, str]) -> None:
    """Nobody waits for more answers. states: rank -> what the asker saw. Raises OSError."""
    said = {"closed_ns": time.time_ns(), "states": {str(rank): state for rank, state in states.items()}}
    write_whole(store / ANSWERS / snapshot_id / _CLOSED, json.dumps(said).encode())


def closing_states(store: Path, snapshot_id: str) -> dict[int, str]:
    """What the asker saw of each rank; empty where nobody has closed the snapshot."""
    said = _object(store / ANSWERS / snapshot_id / _CLOSED).get("states")
    return {int(k): str(v) for k, v in said.items() if k.isdigit()} if isinstance(said, dict) else {}


def complete(store: Path, snapshot_id: str) -> bool:
    """Whether a snapshot is as whole as it gets: closed, all answered, or nothing new for a while."""
    folder = store / ANSWERS / snapshot_id
    if (folder / _CLOSED).exists():
        return True
    answered = answers(store, snapshot_id)
    request = read_request(store / REQUESTS / f"{snapshot_id}.json")
    known = expected(nodes(store, request.job_id)) if request else set()
    if request and known and known <= {a.rank for a in answered if a.stacks or not request.stacks}:
        return True
    newest = max(_times(folder), default=0.0)
    return time.time() - newest > STALE_S


def split(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The line of JSON and the recorder's bytes of an answer. Raises ValueError."""
    line, _, body = data.partition(b"\n")
    head = json.loads(line)
    if not isinstance(head, dict):
        raise ValueError("the first line of an answer is a JSON object")
    return head, body


def join(head: dict[str, Any], body: bytes) -> bytes:
    """The reverse of split."""
    return json.dumps(head).encode() + b"\n" + body


def _times(folder: Path) -> Iterator[float]:
    for path in (folder, *folder.glob("*")):
        with suppress(OSError):
            yield path.stat().st_mtime


def _object(path: Path) -> dict[str, Any]:
    try:
        raw = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return raw if isinstance(raw, dict) else {}
