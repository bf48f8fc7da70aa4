"""Entries of a dump -> columns of torch_nccl_flight_record. Columns, not rows: that is 60 times faster.

Each chunk of entries takes the quick path; where a key is missing or a type is wrong it takes the careful one, in which
a field that cannot be used becomes NULL and its entry is counted.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from whichrank.collectors.flight_recorder_lookups import Signature, Stack, signature_column, stack_column

CHUNK = 20_000  # entries converted at once: bounds what the conversion of a ring of millions needs beside the rows
MAX_TEXT = 1 << 16  # characters of a name: anything longer is no name, and one shared text would fill the memory
MAX_ITEMS = 50_000_000  # frames or dimensions of a chunk: pickles may share one list a million times
WRONG = (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError)  # what odd values raise

INTS = ("record_id", "pg_id", "collective_seq_id", "p2p_seq_id", "op_id", "timeout_ms")
TIMES = ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")
TEXTS = ("state", "thread_id", "thread_name")
BOOLS = ("retired", "is_p2p")
SIGNATURE_KEYS = ("profiling_name", "input_sizes", "input_dtypes", "output_sizes", "output_dtypes")
KEYS = ("frames", "process_group", *INTS, *TIMES, *TEXTS, *BOOLS, *SIGNATURE_KEYS, "duration_ms")
OLD_NAMES = {"collective_seq_id": "seq_id", "time_created_ns": "time_created_us"}  # FR 1.4 and before; torch 2.2

_P2P = re.compile(r"(?:^|:)(?:send|recv)(?: |$)")

Group = tuple[str | None, str | None]  # name and description


@dataclass(slots=True)
class Entries:
    """What the entries of one dump give.

    columns:  column name -> Arrow array, for the columns an entry decides (not who and when).
    groups:   pg_id -> (name, description) as the newest entry with that pg_id says.
    wrong:    field -> how many entries hold something unusable there (it became NULL).
    dropped:  how many items are no entries at all.
    """

    columns: dict[str, pa.ChunkedArray] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    stacks: list[Stack] = field(default_factory=list)
    signatures: list[Signature] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)
    malformed: int = 0
    dropped: int = 0

    @property
    def newest_ns(self) -> int | None:
        """Time of the newest entry, ns since epoch."""
        times = self.columns.get("time_created_ns")
        return None if times is None else pc.max(times).as_py()


def convert(entries: Sequence[Any]) -> Entries:
    """Entries of any FR version, oldest first -> columns. Never raises for what an entry holds."""
    out = Entries()
    chunks: list[dict[str, pa.Array]] = []
    for start in range(0, len(entries), CHUNK):
        chunk = entries[start : start + CHUNK]
        try:
            columns = _convert(_quick(chunk), out)
            columns["entry_index"] = pa.array(range(start, start + len(chunk)), pa.int64())
        except WRONG:
            columns = _convert_carefully(chunk, start, out)
        chunks.append(columns)
    out.columns = {name: pa.chunked_array([c[name] for c in chunks]) for name in (chunks[0] if chunks else ())}
    return out


def _quick(entries: Sequence[dict[str, Any]]) -> dict[str, Sequence[Any]]:
    """Key -> values of all entries. Raises one of WRONG where an entry lacks a key that the first has."""
    first = entries[0]
    present = [key for key in KEYS if key in first]
    if len(present) < 2:
        raise KeyError("not an entry")
    columns: dict[str, Sequence[Any]] = dict(
        zip(present, zip(*map(itemgetter(*present), entries), strict=True), strict=True)
    )
    for key in KEYS:
        if key not in columns:
            columns[key] = list(map(dict.get, entries, repeat(key)))
    if "collective_seq_id" not in first and "seq_id" in first:
        columns["collective_seq_id"] = list(map(itemgetter("seq_id"), entries))
    if "time_created_ns" not in first and "time_created_us" in first:
        columns["time_created_ns"] = [us * 1000 for us in map(itemgetter("time_created_us"), entries)]
    return columns


def _convert(values: dict[str, Sequence[Any]], out: Entries) -> dict[str, pa.Array]:
    """Values by key -> arrays by column; adds lookups and groups to `out` once nothing can fail any more."""
    _refuse_bombs(values)
    columns = {key: _ints(values[key]) for key in INTS}
    columns |= {key: _ints(values[key], lowest=1) for key in TIMES}
    columns |= {key: _texts(values[key]) for key in TEXTS}
    columns["duration_ns"] = _durations(values["duration_ms"])
    columns["retired"] = pa.array(values["retired"], pa.bool_())
    columns["is_p2p"] = pa.array(_is_p2p(values["is_p2p"], values["profiling_name"]), pa.bool_())
    names, descs = _groups(values["process_group"])
    columns |= {"pg_name": _texts(names), "pg_desc": _texts(descs)}
    columns["signature_id"], signatures = signature_column(*(values[key] for key in SIGNATURE_KEYS))
    columns["stack_id"], stacks = stack_column([f or [] for f in values["frames"]])
    groups = dict(zip(values["pg_id"], zip(names, descs, strict=True), strict=True))
    out.groups |= {pg: (n or None, d or None) for pg, (n, d) in groups.items() if pg is not None and pg >= 0}
    out.stacks += stacks
    out.signatures += signatures
    return columns


def _refuse_bombs(values: dict[str, Sequence[Any]]) -> None:
    """Raise one of WRONG where shared or nested lists stand for more items than a real dump can hold."""
    frames = sum(len(f) for f in values["frames"] if f)
    dims = 0
    for key in ("input_sizes", "output_sizes"):
        sizes = [s for s in values[key] if s]
        dims += sum(map(len, chain.from_iterable(sizes)))
        if dims <= MAX_ITEMS:
            sum(chain.from_iterable(chain.from_iterable(sizes)))  # TypeError where a dimension is a list in turn
    if frames + dims > MAX_ITEMS:
        raise ValueError("too many items")
    for key in ("input_dtypes", "output_dtypes"):
        _refuse_long(set(chain.from_iterable(d for d in values[key] if d)))
    for key in (*TEXTS, "profiling_name"):
        _refuse_long(set(values[key]))


def _refuse_long(texts: set[str | None]) -> None:
    if any(len(text) > MAX_TEXT for text in texts if text):
        raise ValueError("a name is too long")


def _ints(values: Sequence[int | None], lowest: int = 0) -> pa.Array:
    """int64, NULL where the value is below `lowest`: PyTorch writes -1, or 0 for a time, where it does not know."""
    try:
        column = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(array("q", values))])  # type: ignore[arg-type]
    except TypeError:  # None among them, or a wrong type, which the slower way tells apart
        if float in set(map(type, values)):
            raise
        column = pa.array(values, pa.int64())
    smallest = pc.min(column).as_py()
    if smallest is not None and smallest < lowest:
        column = pc.if_else(pc.less(column, lowest), pa.scalar(None, pa.int64()), column)
    return column


def _texts(values: Sequence[str | None]) -> pa.Array:
    return pa.array([v or None for v in values] if "" in values else values, pa.string())


def _durations(values: Sequence[float | None]) -> pa.Array:
    if values.count(None) == len(values):
        return pa.nulls(len(values), pa.int64())
    return pa.array([None if v is None else round(v * 1e6) for v in values], pa.int64())


def _is_p2p(values: Sequence[bool | None], names: Sequence[str | None]) -> Sequence[bool | None]:
    """Before FR 2.1 only the name tells: `nccl:send 0->3`, `nccl:recv 3<-0`, without peers elsewhere."""
    if None not in values:
        return values
    return [
        (name and bool(_P2P.search(name))) or (False if name else None) if value is None else value
        for value, name in zip(values, names, strict=True)
    ]


def _groups(values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Names and descriptions of (name, description) pairs; a list in JSON, absent before FR 2.1."""
    if None in values:
        values = [v if v is not None else (None, None) for v in values]
    names, descs = zip(*values, strict=True)
    return names, descs


# ---- the careful path ----------------------------------------------------------------------------------------------
def _convert_carefully(chunk: Sequence[Any], start: int, out: Entries) -> dict[str, pa.Array]:
    entries = [(start + i, entry) for i, entry in enumerate(chunk) if isinstance(entry, dict)]
    out.dropped += len(chunk) - len(entries)
    mended = []
    for _, entry in entries:
        clean, wrong = _mend(entry)
        mended.append(clean)
        out.wrong.update(wrong)
        out.malformed += bool(wrong)
    values = {key: [entry[key] for entry in mended] for key in KEYS}
    columns = _convert(values, out) if mended else {}
    columns["entry_index"] = pa.array([index for index, _ in entries], pa.int64())
    return columns


def _mend(entry: dict[Any, Any]) -> tuple[dict[str, Any], list[str]]:
    """An entry with all KEYS, where what is unusable is None; and the names of the fields that were unusable."""
    clean: dict[str, Any] = {}
    wrong = []
    for key in KEYS:
        value = entry.get(key)
        if value is None and key in OLD_NAMES:
            value = entry.get(OLD_NAMES[key])
            if key == "time_created_ns" and isinstance(value, int):
                value *= 1000
        try:
            clean[key] = None if value is None else _FIELDS[key](value)
        except WRONG:
            clean[key] = None
            wrong.append(key)
    return clean, wrong


def _int(value: Any) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise TypeError("not a 64-bit integer")
    return value


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError("not a boolean")
    return value


def _text(value: Any) -> str:
    if type(value) is int:  # a thread id
        value = str(value)
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise TypeError("not a name")
    return value.encode("utf-8", "replace").decode()  # half a surrogate pair is no text anywhere else


def _duration(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError("not a number")
    return value if abs(round(value * 1e6)) < 1 << 62 else 0 * _int(value * 1e6)


def _list(item: Callable[[Any], Any], longest: int) -> Callable[[Any], list[Any]]:
    def check(value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)) or len(value) > longest:
            raise TypeError("not a list, or too long")
        return [item(v) for v in value]

    return check


def _frame(value: Any) -> dict[str, Any]:
    return {"name": _text(value["name"]), "filename": _text(value["filename"]), "line": _int(value["line"])}


def _group(value: Any) -> tuple[str | None, str | None]:
    name, desc = value
    return name if name is None else _text(name), desc if desc is None else _text(desc)


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "frames": _list(_frame, 10_000),
    "process_group": _group,
    **dict.fromkeys((*INTS, *TIMES), _int),
    **dict.fromkeys((*TEXTS, "profiling_name"), _text),
    **dict.fromkeys(BOOLS, _bool),
    **dict.fromkeys(("input_sizes", "output_sizes"), _list(_list(_int, 1_000), 100_000)),
    **dict.fromkeys(("input_dtypes", "output_dtypes"), _list(_text, 100_000)),
    "duration_ms": _duration,
}


def missing(names: Iterable[str]) -> str:
    """`a, b and 3 more`: names for a sentence."""
    listed = sorted(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
