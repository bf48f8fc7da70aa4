"""What a running process answered (its recorder's bytes, with and without stacks) -> the rows whichrank keeps."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whichrank.batch import Batch, note, notes_batch
from whichrank.collectors.flight_recorder import NotFlightRecorderError, Origin, to_batch
from whichrank.collectors.flight_recorder_decoding import load
from whichrank.collectors.flight_recorder_files import LoadError


def to_rows(head: Mapping[str, Any], body: bytes, stacks: bytes | None = None, name: str | None = None) -> Batch:
    """One answer -> a batch. Whatever is wrong with it becomes a note.

    head:   the line in front: snapshot_id, rank, host, job_id, world_size, snapshot_ns, groups, parts, notes.
    body:   the recorders' pickles one behind the other, `parts` says how long each is. stacks: the same with frames.
    name:   file to name in notes.
    """
    snapshot, rank = str(head["snapshot_id"]), int(head["rank"])
    said = [n for n in head.get("notes") or [] if isinstance(n, dict)]
    notes = [note(str(n.get("kind")), str(n.get("message")), source=name, rank=rank) for n in said]
    try:
        payload = _merged(body, head)
        if stacks:
            _add_stacks(payload, stacks)
        if payload is None:
            return notes_batch(snapshot, rank, notes)
        _add_groups(payload, head.get("groups") or {})
        failed = head.get("raised_in") == "collective" and _reopen(payload)
        # A signal says nothing about what the process was doing: it may end a healthy job.
        ended = failed or head.get("why") not in (None, "SIGTERM")
        batch = to_batch(payload, _origin(head, "exit" if ended else "process", len(body)))
    except LoadError as error:
        notes.append(note(error.kind, f"the answer of rank {rank}: {error}", severity="error", source=name, rank=rank))
        return notes_batch(snapshot, rank, notes)
    except NotFlightRecorderError:
        text = f"the answer of rank {rank} is no Flight Recorder dump"
        notes.append(note("foreign", text, severity="error", source=name, rank=rank))
        return notes_batch(snapshot, rank, notes)
    if notes:
        more = notes_batch(snapshot, rank, notes).tables
        for table, rows in more.items():
            batch.tables.setdefault(table, rows)
    return batch


def _origin(head: Mapping[str, Any], source: str, size: int) -> Origin:
    def number(key: str) -> int | None:
        return int(head[key]) if isinstance(head.get(key), int) else None

    return Origin(
        str(head["snapshot_id"]),
        int(head["rank"]),
        source,
        size=size,
        host=str(head["host"]) if head.get("host") else None,
        job_id=str(head["job_id"]) if head.get("job_id") else None,
        world_size=number("world_size"),
        snapshot_ns=number("snapshot_ns"),
    )


def _merged(body: bytes, head: Mapping[str, Any]) -> Any:
    """The payload; of several recorders (NCCL's beside gloo's) the entries in order of time, and the groups of all."""
    parts: list[Any] = []
    start = 0
    for length in head.get("parts") or []:
        parts.append(_decode(body[start : start + int(length)]))
        start += int(length)
    full = [p for p in parts if isinstance(p, dict) and isinstance(p.get("entries"), list) and p["entries"]]
    if len(full) < 2:
        return next(iter([*full, *parts]), None)
    entries = {_key(e): e for p in full for e in p["entries"] if isinstance(e, dict)}  # two names may mean one recorder
    first = sum(p["entries"][0].get("record_id") or 0 for p in full if isinstance(p["entries"][0], dict))
    rows = sorted(entries.values(), key=lambda e: e.get("time_created_ns") or 0)
    merged = {**full[0], "entries": [e | {"record_id": first + i} for i, e in enumerate(rows)]}
    for table in ("pg_config", "pg_status"):
        merged[table] = {k: v for p in full if isinstance(p.get(table), dict) for k, v in p[table].items()}
    return merged


def _key(entry: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("pg_id", "op_id", "time_created_ns", "profiling_name", "record_id")
    return tuple(repr(entry.get(name)) for name in names)


def _decode(data: bytes) -> Any:
    """Through a file, because the reader of files is the one that refuses what it must."""
    with tempfile.NamedTemporaryFile(suffix=".fr") as file:
        file.write(data)
        file.flush()
        return load(Path(file.name))


def _add_stacks(payload: Any, data: bytes) -> None:
    """Frames of the second dump for the entries of the first: same number, same time."""
    try:
        head, _, body = data.partition(b"\n")
        other = _merged(body, json.loads(head))
    except (LoadError, ValueError):
        return  # the first dump is enough for a verdict
    entries = other.get("entries") if isinstance(other, dict) else None
    mine = payload.get("entries") if isinstance(payload, dict) else None
    if not isinstance(entries, list) or not isinstance(mine, list):
        return

    def key(entry: Any) -> Any:
        return (entry.get("record_id"), entry.get("time_created_ns")) if isinstance(entry, dict) else None

    frames = {key(e): e["frames"] for e in entries if isinstance(e, dict) and "frames" in e}
    for entry in mine:
        if isinstance(entry, dict) and key(entry) in frames:
            entry["frames"] = frames[key(entry)]


def _add_groups(payload: Any, groups: Mapping[str, Any]) -> None:
    """Members from torch itself where the dump has none: gloo writes one empty group."""
    if not isinstance(payload, dict):
        return
    config = payload.get("pg_config")
    if not isinstance(config, dict):
        config = {}
    known = {k: v for k, v in config.items() if not (isinstance(v, dict) and v.get("ranks") in ("[]", [], ""))}
    for name, group in groups.items():
        if name and name not in known and isinstance(group, dict) and isinstance(group.get("ranks"), list):
            known[name] = {"name": name, "desc": str(group.get("desc", "")), "ranks": json.dumps(group["ranks"])}
    payload["pg_config"] = known


def _reopen(payload: Any) -> bool:
    """Gloo marks everything as finished before it raises. The call that raised is the newest one, and is still open."""
    entries = payload.get("entries") if isinstance(payload, dict) else None
    newest = entries[-1] if isinstance(entries, list) and entries else None
    if not isinstance(newest, dict) or newest.get("state") == "completed" or newest.get("retired") is not True:
        return False
    newest["retired"] = False
    status = payload.get("pg_status")
    counters = status.get(str(newest.get("pg_id"))) if isinstance(status, dict) else None
    if isinstance(counters, dict) and isinstance(counters.get("last_enqueued_collective"), int):
        counters["last_completed_collective"] = counters["last_enqueued_collective"] - 1
    return True
