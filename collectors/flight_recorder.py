"""A Flight Recorder dump of any version, already decoded -> the rows whichrank keeps.

`flight_recorder_dump` brings files here, `flight_recorder_live` running processes. What a dump does not say itself
(rank, host, when it was taken) comes in as an `Origin`.

| torch  | version | what differs                                                                              |
|--------|---------|-------------------------------------------------------------------------------------------|
| 2.2    | none    | a bare list of entries; `seq_id`, microseconds, no groups                                 |
| 2.3    | 1.4     | `pg_config` = {pg_id: [ranks]}; `seq_id`                                                  |
| 2.4    | 2.1     | `collective_seq_id`, `process_group`, dtypes; ranks are a text                            |
| 2.5    | 2.4     | `pg_status`, `timeout_ms`; JSON                                                           |
| 2.8    | 2.9     | `nccl_version`, threads; gloo records too                                                 |
| 2.9+   | 2.10    | `comm_lib_version`                                                                        |
Versions are compared as pairs of ints: 2.10 is newer than 2.9.
"""

from __future__ import annotations

import gc
import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import pyarrow as pa

from whichrank.batch import Batch, note, rows_to_arrow
from whichrank.collectors.flight_recorder_entries import Entries, convert, convert_together, listed
from whichrank.collectors.flight_recorder_groups import GroupRows, group_rows
from whichrank.collectors.flight_recorder_lookups import ranks_table, signature_table, stack_table
from whichrank.tables import DUMP, FLIGHT_RECORD, NOTE, PG_STATUS, RANKS, SIGNATURE, STACK, arrow_schema

LIST_VERSION = "2.2-list"
KNOWN_VERSIONS = ((1, 4), *((2, minor) for minor in range(11)))
_HEAD_KEYS = ("entries", "pg_config", "pg_status")


class NotFlightRecorderError(ValueError):
    """The payload is something else than a Flight Recorder dump."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a dump does not say of itself; None is unknown.

    source:       `file` or `process`. path: the file. size: bytes of the dump.
    snapshot_ns:  when the dump was taken, ns since epoch by the clock of that host.
    """

    snapshot_id: str
    rank: int | None
    source: str
    path: str | None = None
    size: int | None = None
    host: str | None = None
    job_id: str | None = None
    world_size: int | None = None
    only_active: bool | None = None
    snapshot_ns: int | None = None


def is_payload(payload: object) -> bool:
    """Whether a decoded object is a Flight Recorder dump of some version."""
    if isinstance(payload, list):
        return all(_is_entry(e) for e in payload[:1])
    if not isinstance(payload, dict):
        return False
    entries = payload.get("entries")
    if isinstance(entries, list) and entries and _is_entry(entries[0]):
        return True
    return "version" in payload and any(key in payload for key in _HEAD_KEYS)


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and "profiling_name" in entry and ("pg_id" in entry or "process_group" in entry)


@contextmanager
def without_gc() -> Iterator[None]:
    """Garbage collection off: a dump is a million new objects, none of them garbage. Left as it was found."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def to_batch(payload: object, origin: Origin) -> Batch:
    """Rows of one dump: entries, groups, head, lookups and notes. Raises NotFlightRecorderError, and nothing else."""
    with without_gc():
        return _to_batch(payload, origin)


def _to_batch(payload: object, origin: Origin) -> Batch:
    if not is_payload(payload):
        raise NotFlightRecorderError("neither a list of entries nor a dict with version and entries")
    head: dict[Any, Any] = payload if isinstance(payload, dict) else {"version": LIST_VERSION, "entries": payload}
    notes: list[dict[str, Any]] = []
    version = _version(head, notes)
    raw = head.get("entries")
    if raw is not None and not isinstance(raw, list):
        notes.append(note("malformed_entry", f"`entries` is no list but {type(raw).__name__}", severity="error"))
        raw = None
    entries = convert(raw or [])
    groups = group_rows(head.get("pg_config"), head.get("pg_status"), entries.groups)
    notes += _entry_notes(entries) + groups.notes
    tables = _tables(entries, [(_dump_row(head, version, len(raw or []), origin), groups)])
    if notes:
        tables[NOTE.name] = notes_table(notes, origin)
    return Batch(origin.snapshot_id, origin.rank, tables)


def plain_version(payload: object) -> str | None:
    """The version of a dump that `to_batch_together` may take, or None."""
    if not isinstance(payload, dict) or not isinstance(payload.get("entries"), list) or not is_payload(payload):
        return None
    notes: list[dict[str, Any]] = []
    version = _version(payload, notes)
    return None if notes else version


def to_batch_together(dumps: Sequence[tuple[dict[str, Any], Origin]]) -> Batch:
    """The rows `to_batch` gives for each of these dumps, in a batch of no single rank; nothing may be odd about them.

    A table costs as much time as a hundred entries, so thousands of small dumps take a fraction of it this way.
    dumps: of one version, payloads as dicts, with CHUNK entries in all or fewer, and one or more. Raises one of WRONG
    where `to_batch` would make a note, or nothing of a dump.
    """
    entries, tied = convert_together([payload["entries"] for payload, _ in dumps])
    notes: list[dict[str, Any]] = []
    parts = []
    for (payload, origin), names in zip(dumps, tied, strict=True):
        groups = group_rows(payload.get("pg_config"), payload.get("pg_status"), names)
        notes += groups.notes
        parts.append((_dump_row(payload, _version(payload, notes), len(payload["entries"]), origin), groups))
    if notes:
        raise ValueError("there is something to note")
    return Batch(dumps[0][1].snapshot_id, None, _tables(entries, parts))


def _tables(entries: Entries, parts: Sequence[tuple[dict[str, Any], GroupRows]]) -> dict[str, pa.Table]:
    """Everything but notes. entries: of all dumps, one after the other; parts: head and groups of each dump."""
    heads = [head for head, _ in parts]
    whose = {column.name for column in PG_STATUS.stored} & heads[0].keys()
    status = [{name: head[name] for name in whose} | row for head, groups in parts for row in groups.rows]
    tables = {
        FLIGHT_RECORD.name: _record_table(entries, heads),
        PG_STATUS.name: rows_to_arrow(PG_STATUS, status),
        DUMP.name: rows_to_arrow(DUMP, heads),
        STACK.name: stack_table(entries.calls.stacks),
        SIGNATURE.name: signature_table(entries.calls.signatures),
        RANKS.name: ranks_table(ranks for _, groups in parts for ranks in groups.ranks),
    }
    return {name: table for name, table in tables.items() if table.num_rows}


def notes_table(notes: list[dict[str, Any]], origin: Origin) -> pa.Table:
    """Notes about one dump -> rows that say whose it is."""
    whose = {"snapshot_id": origin.snapshot_id, "rank": origin.rank, "host": origin.host, "job_id": origin.job_id}
    return rows_to_arrow(NOTE, [n | whose | {"source": n["source"] or origin.path or origin.source} for n in notes])


def _version(head: dict[Any, Any], notes: list[dict[str, Any]]) -> str | None:
    version = head.get("version")
    if version == LIST_VERSION:
        return LIST_VERSION
    parts = re.fullmatch(r"(\d{1,6})\.(\d{1,6})", version) if isinstance(version, str) else None
    if parts and (int(parts[1]), int(parts[2])) in KNOWN_VERSIONS:
        return parts[0]
    shown = repr(version)[:40] if isinstance(version, (str, float)) else type(version).__name__
    notes.append(note("unknown_version", f"version {shown} is not one we know; read as the newest we know"))
    return version[:40].encode("utf-8", "replace").decode() if isinstance(version, str) and version else None


def _entry_notes(entries: Entries) -> list[dict[str, Any]]:
    notes = []
    if entries.malformed:
        fields = listed(entries.wrong)
        text = f"{entries.malformed} entries hold something unusable ({fields}); read without it"
        notes.append(note("malformed_entry", text, count=entries.malformed))
    if entries.dropped:
        text = f"{entries.dropped} items among the entries are no entries"
        notes.append(note("malformed_entry", text, severity="error", count=entries.dropped))
    return notes


def _dump_row(head: dict[Any, Any], version: str | None, entries: int, origin: Origin) -> dict[str, Any]:
    library = head.get("comm_lib_version", head.get("nccl_version"))
    return {
        "snapshot_id": origin.snapshot_id,
        "rank": origin.rank,
        "world_size": origin.world_size,
        "host": origin.host,
        "job_id": origin.job_id,
        "source": origin.source,
        "path": origin.path,
        "fr_version": version,
        "comm_lib_version": library.encode("utf-8", "replace").decode() or None if isinstance(library, str) else None,
        "only_active": origin.only_active,
        "snapshot_ns": origin.snapshot_ns,
        "entries": entries,
        "bytes": origin.size,
    }


def _record_table(entries: Entries, heads: Sequence[dict[str, Any]]) -> pa.Table:
    """What the entries hold, beside what the head of their dump says."""
    schema = arrow_schema(FLIGHT_RECORD)
    if not entries.columns:
        return schema.empty_table()
    rows = len(entries.columns["entry_index"])
    of_dumps = [field for field in schema if field.name not in entries.columns]
    said = pa.array(heads, pa.struct(of_dumps))
    if len(heads) == 1:
        columns = dict(zip(said.type.names, (pa.repeat(value[0], rows) for value in said.flatten()), strict=True))
    else:
        counts = (head["entries"] for head in heads)
        places = array("i", chain.from_iterable(map(repeat, range(len(heads)), counts)))
        columns = dict(zip(said.type.names, said.take(pa.array(places)).flatten(), strict=True))
    columns |= entries.columns
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
