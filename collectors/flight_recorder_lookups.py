"""Stacks, signatures and rank lists: what every dump repeats, told apart cheaply and named by its content.

An id is a hash of the content, so that two processes that never met give the same stack the same id. Content is
hashed once per process and distinct value; the caches are bounded, because a collector may live for weeks.
"""

from __future__ import annotations

import json
import marshal
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from whichrank.batch import rows_to_arrow
from whichrank.tables import RANKS, SIGNATURE, STACK, Table

MAX_ITEMS = 200_000  # tensors and dimensions of a call: a pickle can say [x] * 10**9 in a few bytes

Frame = tuple[str, str, int]  # name, filename, line


class Stack(NamedTuple):
    """A row of torch_nccl_stack."""

    stack_id: int
    frames: tuple[Frame, ...]
    top_frame: str
    user_frame: str | None
    call_site_id: int | None


class Signature(NamedTuple):
    """A row of torch_nccl_signature."""

    signature_id: int
    profiling_name: str | None
    input_sizes: list[list[int]] | None
    input_dtypes: list[str] | None
    output_sizes: list[list[int]] | None
    output_dtypes: list[str] | None


class Ranks(NamedTuple):
    """A row of torch_nccl_ranks."""

    ranks_id: int
    ranks: tuple[int, ...]


def content_id(content: Any) -> int:
    """Signed 64-bit hash of JSON-like content; equal in every process, Python version and machine."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
    return int.from_bytes(blake2b(text.encode("ascii"), digest_size=8).digest(), "big", signed=True)


# ---- stacks --------------------------------------------------------------------------------------------------------
# torch itself and the packages that stand in for it on other devices. A folder called torch is torch's only below
# site-packages, or where one of torch's own subpackages follows: people do call their project folder `torch`.
_TORCH = re.compile(
    r"/(?:site-packages|dist-packages)/(?:torch|torch_npu|torch_musa|torch_xla|torchcomms|functorch)(?:/|$)"
    r"|/torch/(?:distributed|nn|autograd|utils|optim|cuda|fx|func|jit|multiprocessing|csrc|_[a-z]\w*)(?:/|\.py$)"
)
_STDLIB = re.compile(r"/lib(?:64)?/python3\.\d+/(?!site-packages/|dist-packages/)")
_NOT_PYTHON = re.compile(r"\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp|so(?:\.\d+)*|pxd|pxi)$|^\?*$|^<(?!stdin>|ipython-input)")


def is_user_frame(name: str, filename: str) -> bool:
    """Whether a frame belongs to the user's program: Python, and neither torch nor the standard library."""
    path = filename.replace("\\", "/")
    return not ("::" in name or _NOT_PYTHON.search(path) or _TORCH.search(path) or _STDLIB.search(path))


def _base_name(filename: str) -> str:
    return filename.replace("\\", "/").rpartition("/")[2]


@lru_cache(maxsize=65_536)
def stack_of(frames: tuple[Frame, ...]) -> Stack:
    """The row of a stack (innermost first, not empty). Raises TypeError or ValueError where a frame is unusable."""
    for name, filename, line in frames:
        if not (isinstance(name, str) and isinstance(filename, str) and isinstance(line, int)):
            raise TypeError("a frame is not (name, filename, line)")
        if not -(1 << 63) <= line < 1 << 63:
            raise ValueError("a line number has more than 64 bits")
        (name + filename).encode()  # raises for half a surrogate pair
    user = [frame for frame in frames if is_user_frame(frame[0], frame[1])]
    name, filename, line = frames[0]
    return Stack(
        content_id(frames),
        frames,
        f"{name} ({filename}:{line})",
        f"{_base_name(user[0][1])}:{user[0][2]} in {user[0][0]}" if user else None,
        content_id([[filename, line, name] for name, filename, line in user]) if user else None,
    )


# ---- signatures ----------------------------------------------------------------------------------------------------
@lru_cache(maxsize=65_536)
def _signature_of(key: bytes) -> Signature:
    name, *parts = marshal.loads(key)
    "".join([name or "", *(parts[1] or ()), *(parts[3] or ())]).encode()  # raises for half a surrogate pair
    for sizes in (parts[0], parts[2]):
        array("q", chain.from_iterable(sizes or ()))  # raises for more than 64 bits
    return Signature(content_id([name, *parts]), name or None, *parts)


def signature_of(call: Sequence[Any]) -> Signature:
    """The row of (name, input sizes, input dtypes, output sizes, output dtypes), each a list or None.

    Raises TypeError where it is something else, ValueError or OverflowError where it is larger than any real call.
    """
    name, *parts = call
    if not (name is None or isinstance(name, str)):
        raise TypeError("a name is no text")
    for sizes, dtypes in (parts[0:2], parts[2:4]):
        if sizes is not None:
            _check(sizes, list)
            if sum(map(len, sizes)) > MAX_ITEMS:
                raise ValueError("too many dimensions")
            for size in sizes:
                _check(size, int)
        if dtypes is not None:
            _check(dtypes, str)
    # marshal's version 2 writes no back references: equal content gives equal bytes, whichever objects are shared.
    return _signature_of(marshal.dumps((name, *parts), 2))


def _check(values: Any, kind: type) -> None:
    if type(values) is not list or not set(map(type, values)) <= {kind}:
        raise TypeError(f"not a list of {kind.__name__}")
    if len(values) > MAX_ITEMS:
        raise ValueError("too many items")


# ---- members of groups ---------------------------------------------------------------------------------------------
@lru_cache(maxsize=4_096)
def ranks_of(text: str) -> Ranks:
    """The row of a list of ranks as PyTorch writes it (`[0, 1]`). ValueError: no list of ranks.

    A world group repeats its text in every dump; parsing 4,096 ranks anew each time costs more than all the rest.
    """
    return ranks_row(json.loads(text))


def ranks_row(ranks: object) -> Ranks:
    """The row of a list of ranks. ValueError: no list of ranks."""
    if not isinstance(ranks, (list, tuple)) or not all(type(r) is int and 0 <= r < 1 << 63 for r in ranks):
        raise ValueError("not a list of ranks")
    return Ranks(content_id(list(ranks)), tuple(ranks))


# ---- tables --------------------------------------------------------------------------------------------------------
# The ranks of a job share most stacks, so the table of one dump often is the table of the next. The rows of a table are
# found by their ids, which a cache can hash quickly; the rows themselves travel beside them.
class _Rows:
    """Rows by id, equal where the ids are."""

    def __init__(self, rows: Mapping[int, Any]) -> None:
        self.ids = tuple(sorted(rows))
        self.rows = [rows[i] for i in self.ids]

    def __hash__(self) -> int:
        return hash(self.ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rows) and self.ids == other.ids


def stack_table(stacks: Mapping[int, Stack]) -> pa.Table:
    """torch_nccl_stack of one dump, ordered by id."""
    return _table(STACK, _Rows(stacks))


def signature_table(signatures: Mapping[int, Signature]) -> pa.Table:
    """torch_nccl_signature of one dump, ordered by id."""
    return _table(SIGNATURE, _Rows(signatures))


def ranks_table(lists: Iterable[Ranks]) -> pa.Table:
    """torch_nccl_ranks of one dump, each list once, ordered by id."""
    return _table(RANKS, _Rows({r.ranks_id: r for r in lists}))


@lru_cache(maxsize=64)
def _table(table: Table, rows: _Rows) -> pa.Table:
    dicts = [row._asdict() for row in rows.rows]
    if table is STACK:
        for row in dicts:
            row["frames"] = [{"name": name, "filename": file, "line": line} for name, file, line in row["frames"]]
    return rows_to_arrow(table, dicts)
