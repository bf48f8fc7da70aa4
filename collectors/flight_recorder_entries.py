"""Entries of a dump -> columns of torch_nccl_flight_record.

Column by column, because row by row costs many times more than reading the pickle does. Where a chunk of entries holds
something odd, it is mended first (`flight_recorder_mending`) and then takes the same way.
"""

from __future__ import annotations

import re
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, chain, repeat
from operator import itemgetter
from types import NoneType
from typing import Any

import pyarrow as pa

from whichrank.collectors.flight_recorder_calls import Calls
from whichrank.collectors.flight_recorder_mending import WRONG, Mender
from whichrank.collectors.flight_recorder_texts import TEXTS, Group, Texts

CHUNK = 20_000  # entries converted at once: bounds what a ring of millions needs beside its rows

BLOCK = 500  # entries gathered at once

TIMES = ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")
NUMBERS = ("record_id", "pg_id", "collective_seq_id", "p2p_seq_id", "op_id", "timeout_ms", *TIMES)
TRUTHS = ("retired", "is_p2p")
CALL = ("frames", "profiling_name", "input_sizes", "input_dtypes", "output_sizes", "output_dtypes")
KEYS = (*CALL, "process_group", *NUMBERS, *TEXTS, *TRUTHS)
_SIGN_BYTE = 7 if sys.byteorder == "little" else 0  # of eight
_NOT_NEGATIVE = bytes(byte < 128 for byte in range(256))  # translation tables: sign byte, or truth value, -> 0 or 1
_KNOWN = bytes(byte < 2 for byte in range(256))
_TRUE = bytes(byte == 1 for byte in range(256))
_P2P = re.compile(r"(?:^|:)(?:send|recv)(?: |$)")


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
            columns, texts = _convert(chunk, out.calls)
            out.groups |= texts.groups(0)[0]
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
    columns, texts = _convert([entry for entry, _ in mended], out.calls)
    out.groups |= texts.groups(0)[0]
    columns["entry_index"] = pa.array(places, pa.int64())
    return columns


def convert_together(dumps: Sequence[Sequence[Any]]) -> tuple[Entries, list[dict[int, Group]]]:
    """Entries of several dumps, at most CHUNK in all and one at least -> their columns, and the groups of each dump.

    Only for dumps of one kind with nothing odd in them: raises one of WRONG for what `convert` would mend.
    """
    entries = list(chain.from_iterable(dumps))
    keys = entries[0].keys()
    if not all(type(entry) is dict and entry.keys() == keys for entry in entries):
        raise TypeError("entries of several kinds")
    out = Entries()
    out.columns, texts = _convert(entries, out.calls)
    sizes = list(map(len, dumps))
    out.columns["entry_index"] = pa.array(chain.from_iterable(map(range, sizes)), pa.int64(), size=len(entries))
    return out, texts.groups(*accumulate(sizes[:-1], initial=0))


def _convert(entries: Sequence[dict[str, Any]], found: Calls) -> tuple[dict[str, pa.Array], Texts]:
    """Entries -> arrays by column, and their texts. Raises one of WRONG where an entry holds something unusable.

    Python gathers the values block by block, while they are in the processor's cache; then Arrow gets them all at once,
    because each call into it costs as much as a hundred entries. It never sees a value of an unknown type: its errors
    write values out, and a few bytes of a pickle can make a list that no memory holds when it is written out.
    """
    numbers: list[list[bytes]] = [[] for _ in NUMBERS]
    truths: list[list[bytes]] = [[] for _ in TRUTHS]
    durations: list[float | None] = []
    calls: list[int] = []
    texts = Texts()
    for start in range(0, len(entries), BLOCK):
        values = _values(entries[start : start + BLOCK])
        for key, parts in zip(NUMBERS, numbers, strict=True):
            parts.append(_packed_numbers(values[key]))
        for key, parts in zip(TRUTHS, truths, strict=True):
            parts.append(_packed_truths(values[key]))
        durations += values["duration_ms"]
        calls += found.follow(zip(*(values[key] for key in CALL), strict=True))
        texts.add(values)
    columns = _number_columns(numbers, len(entries)) | _truth_columns(truths, len(entries)) | texts.columns()
    columns["duration_ns"] = _durations(durations)
    columns["stack_id"], columns["signature_id"] = found.columns(calls)
    return columns, texts


def _values(entries: Sequence[dict[str, Any]]) -> dict[str, Sequence[Any]]:
    """Key -> values, entry by entry; None where it is missing. The keys of old versions get their new names."""
    try:
        own = {key: key for key in entries[0]}  # the dump's own texts: found by address, not letter by letter
        rows = map(itemgetter(*[own[key] for key in KEYS]), entries)
        values: dict[str, Sequence[Any]] = dict(zip(KEYS, zip(*rows, strict=True), strict=True))
    except KeyError:
        values = {key: list(map(dict.get, entries, repeat(key))) for key in KEYS}
    values["duration_ms"] = list(map(dict.get, entries, repeat("duration_ms")))
    if "collective_seq_id" not in entries[0] and "seq_id" in entries[0]:
        values["collective_seq_id"] = list(map(dict.get, entries, repeat("seq_id")))
    if "time_created_ns" not in entries[0] and "time_created_us" in entries[0]:
        values["time_created_ns"] = [(time or 0) * 1_000 for time in map(dict.get, entries, repeat("time_created_us"))]
    for key in TIMES:
        values[key] = [time or -1 for time in values[key]]  # 0 is JSON's way to say that there is none
    if None in values["is_p2p"]:
        values["is_p2p"] = list(map(_is_p2p, values["is_p2p"], values["profiling_name"]))
    return values


def _is_p2p(marked: bool | None, name: str | None) -> bool | None:
    """Before FR 2.1 only the name tells: `nccl:send 0->3`, `nccl:recv 3<-0`; without peers in other recorders."""
    return marked if marked is not None or name is None else bool(_P2P.search(name))


# ---- numbers and truth values --------------------------------------------------------------------------------------
def _packed_numbers(values: Sequence[Any]) -> bytes:
    """int64 after int64; -1 for None."""
    try:
        return struct.pack(f"={len(values)}q", *values)
    except struct.error:
        known = [-1 if value is None else value for value in values]
    try:
        return struct.pack(f"={len(known)}q", *known)
    except struct.error as error:
        raise TypeError(str(error)) from None


def _packed_truths(values: Sequence[Any]) -> bytes:
    """A byte each: 0 for false, 1 for true, 2 for None."""
    packed = bytes([2 if value is None else value for value in values] if None in values else values)
    if packed.translate(None, b"\0\1\2"):
        raise TypeError("no truth value")
    return packed


def _number_columns(parts: Sequence[Sequence[bytes]], count: int) -> dict[str, pa.Array]:
    """BIGINT columns, NULL for what is negative: PyTorch writes -1 where it does not know. They share two buffers."""
    data = b"".join(chain.from_iterable(parts))
    numbers = pa.py_buffer(data)
    known = _bits(data[_SIGN_BYTE::8].translate(_NOT_NEGATIVE))
    return {
        key: pa.Array.from_buffers(pa.int64(), count, [known, numbers], offset=place * count)
        for place, key in enumerate(NUMBERS)
    }


def _truth_columns(parts: Sequence[Sequence[bytes]], count: int) -> dict[str, pa.Array]:
    data = b"".join(chain.from_iterable(parts))
    known, true = _bits(data.translate(_KNOWN)), _bits(data.translate(_TRUE))
    return {
        key: pa.Array.from_buffers(pa.bool_(), count, [known, true], offset=place * count)
        for place, key in enumerate(TRUTHS)
    }


def _bits(truths: bytes) -> pa.Buffer:
    """A byte each, 0 or 1 -> a bit each, as Arrow wants them.

    Eight numbers, each of every eighth byte, are laid over each other. Arrow's own functions would do it as well, but
    their module takes longer to import than a small job takes to read.
    """
    bits = 0
    for place in range(8):
        bits |= int.from_bytes(truths[place::8], "little") << place
    return pa.py_buffer(bits.to_bytes(len(truths) // 8 + 1, "little"))


def _durations(values: Sequence[float | None]) -> pa.Array:
    """Milliseconds -> ns. Raises for NaN and for what has no 64-bit integer."""
    if values.count(None) == len(values):
        return pa.nulls(len(values), pa.int64())
    if not set(map(type, values)) <= {float, int, NoneType}:
        raise TypeError("a duration is no number")
    import pyarrow.compute as pc

    return pc.round(pc.multiply(pa.array(values, pa.float64()), 1e6)).cast(pa.int64())


@cache
def _first_positions() -> pa.Array:
    return pa.array(range(CHUNK), pa.int64())


def _positions(start: int, count: int) -> pa.Array:
    """start, start + 1, …: `count` of them, at most CHUNK."""
    first = _first_positions().slice(0, count)
    return pa.array(range(start, start + count), pa.int64()) if start else first


def listed(names: Iterable[str]) -> str:
    """`a, b, c and 2 more`: names for a sentence."""
    names = sorted(names)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
