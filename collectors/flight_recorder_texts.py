"""The texts of entries: state, thread and group. Millions of entries share a few combinations of them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from whichrank.collectors.flight_recorder_mending import MAX_TEXT

TEXTS = ("state", "thread_id", "thread_name")

Group = tuple[str | None, str | None]  # name and description


class Texts(dict[Any, int]):
    """Distinct (pg_id, group, texts) -> place. Few combinations of texts differ: each is looked at once."""

    def __init__(self) -> None:
        self._places: list[int] = []

    def __missing__(self, row: Any) -> int:
        self[row] = place = len(self)
        return place

    def add(self, values: dict[str, Sequence[Any]]) -> None:
        pairs = values["process_group"]  # (name, description); a list in JSON, absent before FR 2.1
        if type(pairs[0]) is list:
            pairs = [pair and tuple(pair) for pair in pairs]
        self._places += map(self.__getitem__, zip(values["pg_id"], pairs, *(values[key] for key in TEXTS), strict=True))

    def _distinct(self) -> list[tuple[Any, ...]]:
        return [(*_pair(pair), *map(_text, texts)) for _, pair, *texts in self]

    def columns(self) -> dict[str, pa.Array]:
        names = ("pg_name", "pg_desc", *TEXTS)
        rows = pa.array(self._distinct(), pa.struct([(name, pa.string()) for name in names]))
        taken = rows.take(
            pa.Array.from_buffers(pa.int32(), len(self._places), [None, pa.py_buffer(array("i", self._places))])
        )
        return dict(zip(names, taken.flatten(), strict=True))

    def groups(self, *starts: int) -> list[dict[int, Group]]:
        """pg_id -> (name, description) in its newest entry: for the dumps whose entries begin at these places."""
        rows = [(pg_id, *_pair(pair)) for pg_id, pair, *_ in self]
        return [
            _newest(rows, self._places[start:end])
            for start, end in zip(starts, (*starts[1:], len(self._places)), strict=True)
        ]


def _newest(rows: Sequence[tuple[int | None, str | None, str | None]], places: Sequence[int]) -> dict[int, Group]:
    newest = dict(zip(places, range(len(places)), strict=True))
    ordered = [rows[place] for place in sorted(newest, key=newest.__getitem__)]
    return {  # int: a truth value passes for a number in the columns, and must be the same one here
        int(pg_id): (name or None, desc or None) for pg_id, name, desc in ordered if pg_id is not None and pg_id >= 0
    }


def _pair(group: Any) -> Group:
    if group is None:
        return None, None
    if type(group) is not tuple:
        raise TypeError("process_group is no pair")
    name, desc = group
    return _text(name), _text(desc)


def _text(value: Any) -> str | None:
    """A text that stands in many rows; NULL for ''."""
    if value is not None and (type(value) is not str or len(value) > MAX_TEXT):
        raise TypeError("no text, or too long a one")
    return value or None
