"""Entries of a dump -> columns of torch_nccl_flight_record.

Column by column, because row by row costs many times more than reading the pickle does. Where a chunk of entries holds
something odd, it is mended first (`flight_recorder_mending`) and then takes the same way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import repeat
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from whichrank.collectors.flight_recorder_lookups import Calls
from whichrank.collectors.flight_recorder_mending import MAX_TEXT, OLD_NAMES, WRONG, Mender

CHUNK = 20_000  # entries converted at once: bounds what a ring of millions needs beside its rows

INTS = ("record_id", "pg_id", "collective_seq_id", "p2p_seq_id", "op_id", "timeout_ms")
TIMES = ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")
BOOLS = ("retired", "is_p2p")
TEXTS = ("state", "thread_id", "thread_name")
CALL = ("frames", "profiling_name", "input_sizes", "input_dtypes", "output_sizes", "output_dtypes")
_P2P = re.compile(r"(?:^|:)(?:send|recv)(?: |$)")

Group = tuple[str | None, str | None]  # name and description


@dataclass(slots=True)
class Entries:
    """What the entries of one dump give.

    columns:    column name -> Arrow array, for the columns an entry decides (not who and when).
    groups:     pg_id -> (name, description) as the newest entry with that pg_id says.
    calls:      the stacks and signatures the columns refer to.
    wrong:      field -> how many entries hold something unusable there (it became NULL); malformed: how many entries.
    dropped:    how many items are no entries at all.
    """

    columns: dict[str, Any] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    calls: Calls = field(default_factory=Calls)
    wrong: Counter[str] = field(default_factory=Counter)
    malformed: int = 0
    dropped: int = 0


def convert(entries: Sequence[Any]) -> Entries:
    """Entries of any FR version, oldest first -> columns. Never raises for what an entry holds."""
    out = Entries()
    chunks: list[dict[str, pa.Array]] = []
    mender = Mender()
    for start in range(0, len(entries), CHUNK):
        chunk = entries[start : start + CHUNK]
        try:
            columns = _convert(chunk, out)
            columns["entry_index"] = _positions(start, len(chunk))
        except WRONG:
            columns = _convert_mended(chunk, start, mender, out)
        if columns:
            chunks.append(columns)
    if chunks:
        out.columns = (
            chunks[0] if len(chunks) == 1 else {k: pa.chunked_array([c[k] for c in chunks]) for k in chunks[0]}
        )
    return out


def _convert_mended(chunk: Sequence[Any], start: int, mender: Mender, out: Entries) -> dict[str, pa.Array]:
    places = [place for place, entry in enumerate(chunk, start) if isinstance(entry, dict)]
    out.dropped += len(chunk) - len(places)
    if not places:
        return {}
    mended = [mender.mend(chunk[place - start]) for place in places]
    for _, wrong in mended:
        out.wrong.update(wrong)
        out.malformed += bool(wrong)
    columns = _convert([entry for entry, _ in mended], out)
    columns["entry_index"] = pa.array(places, pa.int64())
    return columns


def _convert(entries: Sequence[dict[str, Any]], out: Entries) -> dict[str, pa.Array]:
    """Entries -> arrays by column. Raises one of WRONG where an entry holds something unusable."""
    columns = _scalars(entries)
    calls = _rows(entries, CALL)
    columns["stack_id"], columns["signature_id"] = out.calls.columns(calls)
    if columns["is_p2p"].null_count:
        named = pa.array([bool(_P2P.search(call[1])) if call[1] else None for call in calls], pa.bool_())
        columns["is_p2p"] = pc.coalesce(columns["is_p2p"], named)
    columns |= _texts(entries, out)
    return columns


def _rows(entries: Sequence[dict[str, Any]], keys: Sequence[str]) -> list[tuple[Any, ...]]:
    """The values of some keys, entry by entry; None where one is missing."""
    try:
        return list(map(itemgetter(*keys), entries))
    except KeyError:
        return list(zip(*(map(dict.get, entries, repeat(key)) for key in keys), strict=True))


def _scalars(entries: Sequence[dict[str, Any]]) -> dict[str, pa.Array]:
    """Numbers and truth values. One struct array instead of an array per column: the entries are gone through once."""
    old = tuple(key for key, was in OLD_NAMES.items() if key not in entries[0] and was in entries[0])
    rows = pa.array(entries, _scalar_type(old))
    if rows.null_count:
        raise TypeError("an entry is None")
    columns = dict(zip((*INTS, *TIMES, *BOOLS, "duration_ns"), rows.flatten(), strict=True))
    if "time_created_ns" in old:
        columns["time_created_ns"] = pc.multiply_checked(columns["time_created_ns"], 1_000)
    for keys, lowest in ((INTS, 0), (TIMES, 1)):
        for key in keys:
            columns[key] = _known(columns[key], lowest)
    durations = columns["duration_ns"]
    all_unknown = durations.null_count == len(durations)
    milliseconds = durations if all_unknown else pc.round(pc.multiply(durations, 1e6))
    columns["duration_ns"] = milliseconds.cast(pa.int64())  # raises for NaN and for what has no 64-bit integer
    return columns


@cache
def _scalar_type(old: tuple[str, ...]) -> pa.DataType:
    """What an entry is read as; a missing key is NULL. old: the columns that have their name of before FR 2.1."""
    numbers = [(OLD_NAMES[key] if key in old else key, pa.int64()) for key in (*INTS, *TIMES)]
    return pa.struct([*numbers, *((key, pa.bool_()) for key in BOOLS), ("duration_ms", pa.float64())])


def _known(column: pa.Array, lowest: int) -> pa.Array:
    """NULL where the value is below `lowest`: PyTorch writes -1, or 0 for a time, where it does not know."""
    smallest = pc.min(column).as_py()
    if smallest is None or smallest >= lowest:
        return column
    return pc.if_else(pc.less(column, lowest), pa.scalar(None, pa.int64()), column)


def _texts(entries: Sequence[dict[str, Any]], out: Entries) -> dict[str, pa.Array]:
    """Texts, NULL for '', and which pg_id has which group. Few combinations differ: each is looked at once.

    `process_group` is (name, description), a list in JSON, and absent before FR 2.1.
    """
    rows = _rows(entries, ("process_group", *TEXTS))
    if type(rows[0][0]) is list:
        rows = [(group and tuple(group), *texts) for group, *texts in rows]
    place_of = {row: place for place, row in enumerate(dict.fromkeys(rows))}
    distinct = [(*_pair(group), *texts) for group, *texts in place_of]
    places = list(map(place_of.__getitem__, rows))
    taken = pa.array(places, pa.int32())
    columns = {
        name: _distinct_texts(texts).take(taken)
        for name, texts in zip(("pg_name", "pg_desc", *TEXTS), zip(*distinct, strict=True), strict=True)
    }
    pg_ids = map(dict.get, entries, repeat("pg_id"))
    for pg_id, place in dict(zip(pg_ids, places, strict=True)).items():
        if pg_id is not None and pg_id >= 0:
            name, desc, *_ = distinct[place]
            out.groups[int(pg_id)] = (name or None, desc or None)
    return columns


def _pair(group: Any) -> Group:
    if group is None:
        return None, None
    if type(group) is not tuple:
        raise TypeError("process_group is no pair")
    name, desc = group
    return name, desc


def _distinct_texts(texts: Sequence[str | None]) -> pa.Array:
    if any(len(text) > MAX_TEXT for text in texts if text):
        raise ValueError("a name is too long")
    return pa.array([text or None for text in texts], pa.string())


@cache
def _first_positions() -> pa.Array:
    return pa.array(range(CHUNK), pa.int64())


def _positions(start: int, count: int) -> pa.Array:
    """start, start + 1, …: `count` of them, at most CHUNK."""
    first = _first_positions().slice(0, count)
    return pc.add(first, start) if start else first


def listed(names: Iterable[str]) -> str:
    """`a, b, c and 2 more`: names for a sentence."""
    names = sorted(names)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
