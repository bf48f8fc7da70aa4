"""Entries that hold something unusable: the field becomes None, and is named; the rest of the entry stays.

Only damaged or strange dumps come here. An entry is never dropped for one bad field: a collective that is missing from
the rows would look like one the rank never joined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whichrank.collectors.flight_recorder_calls import MAX_FRAMES
from whichrank.collectors.flight_recorder_lookups import MAX_ITEMS

MAX_TEXT = 1_024  # characters of a name that stands in every row
_MAX_FRAME_TEXT = 1 << 16  # of a function or file; mangled C++ names are long
WRONG = (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError)  # what odd values raise
OLD_NAMES = {"collective_seq_id": "seq_id", "time_created_ns": "time_created_us"}  # before FR 2.1; torch 2.2

_UNUSABLE = object()


class Mender:
    """Mends the entries of one dump.

    Pickles share objects, so each object is looked at once: what a few bytes repeat a million times costs no more here.
    The results are kept, because `Calls` tells stacks apart by address.
    """

    def __init__(self) -> None:
        self._done: dict[tuple[str, int], Any] = {}

    def mend(self, entry: dict[Any, Any]) -> tuple[dict[str, Any], list[str]]:
        """The entry with every field usable or None, and the names of the fields that were unusable."""
        clean: dict[str, Any] = {}
        wrong = []
        for key, check in self._checks().items():
            value = entry.get(key)
            try:
                if value is None and key in OLD_NAMES:
                    value = _in_ns(entry.get("time_created_us")) if key == "time_created_ns" else entry.get("seq_id")
                clean[key] = None if value is None else self._once(key, value, check)
            except WRONG:
                clean[key] = None
                wrong.append(key)
        return clean, wrong

    def _checks(self) -> dict[str, Callable[[Any], Any]]:
        return {
            **dict.fromkeys(("record_id", "pg_id", "collective_seq_id", "p2p_seq_id", "op_id", "timeout_ms"), _int),
            **dict.fromkeys(("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns"), _int),
            **dict.fromkeys(("state", "thread_id", "thread_name", "profiling_name"), _text),
            **dict.fromkeys(("retired", "is_p2p"), _bool),
            **dict.fromkeys(("input_sizes", "output_sizes"), self._sizes),
            **dict.fromkeys(("input_dtypes", "output_dtypes"), self._dtypes),
            "frames": self._frames,
            "process_group": _group,
            "duration_ms": _duration,
        }

    def _once(self, what: str, value: Any, check: Callable[[Any], Any]) -> Any:
        if not isinstance(value, (list, tuple, dict)):
            return check(value)
        key = (what, id(value))
        if key not in self._done:
            try:
                self._done[key] = check(value)
            except WRONG:
                self._done[key] = _UNUSABLE
        if self._done[key] is _UNUSABLE:
            raise TypeError(f"unusable {what}")
        return self._done[key]

    def _sizes(self, value: Any) -> list[list[int]]:
        sizes = [self._once("size", size, _size) for size in _items(value)]
        if sum(map(len, sizes)) > MAX_ITEMS:
            raise ValueError("too many dimensions")
        return sizes

    def _dtypes(self, value: Any) -> list[str]:
        return [_text(dtype) for dtype in _items(value)]

    def _frames(self, value: Any) -> list[dict[str, Any]]:
        if len(_items(value)) > MAX_FRAMES:
            raise ValueError("too many frames")
        return [self._once("frame", frame, _frame) for frame in value]


def _items(value: Any) -> Any:
    if not isinstance(value, (list, tuple)) or len(value) > MAX_ITEMS:
        raise TypeError("no list, or too long")
    return value


def _in_ns(microseconds: Any) -> int | None:
    return None if microseconds is None else _int(microseconds) * 1_000


def _int(value: Any) -> int:
    if type(value) is float and value.is_integer():  # other programs write JSON numbers like that
        value = int(value)
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise TypeError("no 64-bit integer")
    return value


def _bool(value: Any) -> bool:
    if not isinstance(value, int) or value not in (0, 1):
        raise TypeError("no truth value")
    return bool(value)


def _text(value: Any, longest: int = MAX_TEXT) -> str:
    if type(value) is int:  # a thread id
        value = str(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str) or len(value) > longest:
        raise TypeError("no name")
    return value.encode("utf-8", "replace").decode()  # half a surrogate pair is no text anywhere else


def _duration(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError("no number")
    if not abs(value) < 1e12:  # also NaN
        raise ValueError("no duration")
    return float(value)


def _size(value: Any) -> list[int]:
    return [_int(dimension) for dimension in _items(value)]


def _frame(value: Any) -> dict[str, Any]:
    name, filename = (_text(value[key], _MAX_FRAME_TEXT) for key in ("name", "filename"))
    return {"name": name, "filename": filename, "line": _int(value["line"])}


def _group(value: Any) -> tuple[str | None, str | None]:
    name, desc = value if isinstance(value, (list, tuple)) else (value, None)
    return None if name is None else _text(name), None if desc is None else _text(desc)
