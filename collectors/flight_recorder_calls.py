"""Which stack and which signature each entry has: found by comparing with the calls before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import pyarrow as pa

from whichrank.collectors.flight_recorder_lookups import Signature, Stack, signature_of, stack_of

MAX_FRAMES = 10_000  # of a stack


class Calls:
    """Stack and signature of each entry of one dump.

    A training loop makes the same calls in the same order, so an entry is compared first with the one that came next
    the last time. Comparing is cheap, because the pickle shares its frame dicts; naming a call by content is not.
    """

    def __init__(self) -> None:
        self.stacks: dict[int, Stack] = {}
        self.signatures: dict[int, Signature] = {}
        self._known: list[tuple[Any, ...]] = [()]
        self._ids: list[tuple[int | None, int | None]] = [(None, None)]
        self._index: dict[tuple[int | None, int | None], int] = {}
        self._by_address: dict[tuple[int, ...], tuple[Stack, Any]] = {}
        self._next: dict[int, int] = {}
        self._last = 0

    def follow(self, calls: Iterable[tuple[Any, ...]]) -> list[int]:
        """Tuples (frames, name, input sizes, input dtypes, output sizes, output dtypes) -> their numbers.

        Raises TypeError, ValueError, KeyError or RecursionError where a call holds something unusable.
        """
        known, following = self._known, self._next
        numbers: list[int] = []
        last = self._last
        for call in calls:
            guess = following.get(last, 0)
            if call != known[guess]:
                guess = following[last] = self._find(call)
            numbers.append(guess)
            last = guess
        self._last = last
        return numbers

    def columns(self, numbers: Sequence[int]) -> tuple[pa.Array, pa.Array]:
        """Numbers of calls -> stack_id and signature_id of each; NULL where there is none."""
        ids = pa.array(self._ids, pa.struct([("stack_id", pa.int64()), ("signature_id", pa.int64())]))
        stack_ids, signature_ids = ids.take(pa.array(numbers, pa.int32())).flatten()
        return stack_ids, signature_ids

    def _find(self, call: tuple[Any, ...]) -> int:
        stack = self._stack(call[0]) if call[0] else None
        signature = signature_of(call[1:])
        ids = (stack and stack.stack_id, signature.signature_id)
        index = self._index.get(ids)
        if index is None:
            index = self._index[ids] = len(self._known)
            self._known.append(call)
            self._ids.append(ids)
            self.signatures[signature.signature_id] = signature
            if stack:
                self.stacks[stack.stack_id] = stack
        return index

    def _stack(self, frames: list[dict[str, Any]]) -> Stack:
        if type(frames) is not list or len(frames) > MAX_FRAMES:
            raise TypeError("frames are no list, or too many")
        address = tuple(map(id, frames))
        if address not in self._by_address:
            content = tuple(map(itemgetter("name", "filename", "line"), frames))
            if not set(map(type, chain.from_iterable(content))) <= {str, int}:
                raise TypeError("a frame is not (name, filename, line)")
            # The frames are kept, lest another one comes to stand at the address of one that is gone.
            self._by_address[address] = (stack_of(content), frames)
        return self._by_address[address][0]
