"""Entries of a dump -> columns of torch_nccl_flight_record.

Column by column, because row by row costs many times more than reading the pickle does. Where a chunk of entries holds
something odd, it is mended first (`flight_recorder_mending`) and then takes the same way.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, repeat
from operator import itemgetter
from types import NoneType
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
SCALARS = (*INTS, *TIMES, *BOOLS)
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
    """Numbers and truth values.

    Types are looked at before Arrow sees a value: its errors write the value out, and a few bytes of a pickle can make
    a list that no memory holds when it is written out.
    """
    columns: dict[str, Sequence[Any]] = dict(zip(SCALARS, zip(*_rows(entries, SCALARS), strict=True), strict=True))
    for key, was in OLD_NAMES.items():
        if key not in entries[0] and was in entries[0]:
            columns[key] = list(map(dict.get, entries, repeat(was)))
    arrays = {key: _numbers(columns[key], lowest) for keys, lowest in ((INTS, 0), (TIMES, 1)) for key in keys}
    if "time_created_ns" not in entries[0] and "time_created_us" in entries[0]:
        arrays["time_created_ns"] = pc.multiply_checked(arrays["time_created_ns"], 1_000)
    for key in BOOLS:
        _refuse_others(columns[key], {bool, NoneType})
        arrays[key] = pa.array(columns[key], pa.bool_())
    arrays["duration_ns"] = _durations(list(map(dict.get, entries, repeat("duration_ms"))))
    return arrays


def _numbers(values: Sequence[Any], lowest: int) -> pa.Array:
    """int64, NULL where the value is below `lowest`: PyTorch writes -1, or 0 for a time, where it does not know."""
    try:
        column = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(array("q", values))])
    except TypeError:  # one of them is None, or worse
        _refuse_others(values, {int, NoneType})
        column = pa.array(values, pa.int64())
    smallest = pc.min(column).as_py()
    if smallest is None or smallest >= lowest:
        return column
    return pc.if_else(pc.less(column, lowest), pa.scalar(None, pa.int64()), column)


def _durations(values: Sequence[float | None]) -> pa.Array:
    """Milliseconds -> ns. Raises for NaN and for what has no 64-bit integer."""
    if values.count(None) == len(values):
        return pa.nulls(len(values), pa.int64())
    _refuse_others(values, {float, int, NoneType})
    return pc.round(pc.multiply(pa.array(values, pa.float64()), 1e6)).cast(pa.int64())


def _refuse_others(values: Iterable[Any], kinds: set[type]) -> None:
    if not set(map(type, values)) <= kinds:
        raise TypeError("a value is of another type")


def _texts(entries: Sequence[dict[str, Any]], out: Entries) -> dict[str, pa.Array]:
    """Texts, NULL for '', and which pg_id has which group. Few combinations differ: each is looked at once.

    `process_group` is (name, description), a list in JSON, and absent before FR 2.1.
    """
    rows = _rows(entries, ("process_group", *TEXTS))
    if type(rows[0][0]) is list:
        rows = [(group and tuple(group), *texts) for group, *texts in rows]
    pairs, *texts = zip(*rows, strict=True)
    _refuse_others(pairs, {tuple, NoneType})
    for values in (chain.from_iterable(filter(None, pairs)), *texts):
        _refuse_others(values, {str, NoneType})
    place_of = {row: place for place, row in enumerate(dict.fromkeys(rows))}
    distinct = [(*(group or (None, None)), *texts) for group, *texts in place_of]
    places = list(map(place_of.__getitem__, rows))
    taken = pa.array(places, pa.int32())
    columns = {
        name: _distinct_texts(values).take(taken)
        for name, values in zip(("pg_name", "pg_desc", *TEXTS), zip(*distinct, strict=True), strict=True)
    }
    pg_ids = map(dict.get, entries, repeat("pg_id"))
    for pg_id, place in dict(zip(pg_ids, places, strict=True)).items():
        if pg_id is not None and pg_id >= 0:
            name, desc, *_ = distinct[place]
            out.groups[pg_id] = (name or None, desc or None)
    return columns


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
