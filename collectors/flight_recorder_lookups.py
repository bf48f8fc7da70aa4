"""Stacks, signatures and rank lists: what every dump repeats, told apart cheaply and named by its content.

An id is a hash of the content, so that two processes that never met give the same stack the same id. The content is
hashed once per process and distinct value; the caches below are bounded, because a collector may live for weeks.
"""

from __future__ import annotations

import json
import marshal
import re
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, chain, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from whichrank.batch import rows_to_arrow
from whichrank.tables import RANKS, SIGNATURE, STACK, Table

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
    """The row of a stack (innermost first, not empty). Raises TypeError where a frame is not (str, str, int)."""
    for name, filename, line in frames:
        if not (isinstance(name, str) and isinstance(filename, str) and isinstance(line, int)):
            raise TypeError("a frame is not (name, filename, line)")
    user = [frame for frame in frames if is_user_frame(frame[0], frame[1])]
    name, filename, line = frames[0]
    return Stack(
        content_id(frames),
        frames,
        f"{name} ({filename}:{line})",
        f"{_base_name(user[0][1])}:{user[0][2]} in {user[0][0]}" if user else None,
        content_id([[filename, line, name] for name, filename, line in user]) if user else None,
    )


def stack_column(frames: Sequence[list[dict[str, Any]]]) -> tuple[pa.Array, list[Stack]]:
    """Frames of each entry -> stack_id of each entry (NULL where it has none), and the distinct stacks.

    PyTorch writes each distinct frame once and refers to it afterwards, so the addresses of an entry's frame dicts
    tell its stack without looking into them. Dumps without such sharing only have more keys, not other ids.
    """
    ids = array("Q", map(id, chain.from_iterable(frames)))
    ends = array("i", accumulate(map(ids.itemsize.__mul__, map(len, frames)), initial=0))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(ids)]
    keys = pa.Array.from_buffers(pa.binary(), len(frames), buffers).dictionary_encode()
    which = memoryview(keys.indices.buffers()[1]).cast("i")[: len(frames)].tolist()
    first = dict(zip(reversed(which), range(len(which) - 1, -1, -1), strict=True))
    fields = itemgetter("name", "filename", "line")
    stacks = [stack_of(tuple(map(fields, frames[first[k]]))) if frames[first[k]] else None for k in range(len(first))]
    column = pa.array([s and s.stack_id for s in stacks], pa.int64()).take(keys.indices)
    return column, [s for s in stacks if s]


# ---- signatures ----------------------------------------------------------------------------------------------------
@lru_cache(maxsize=65_536)
def signature_of(key: bytes) -> Signature:
    """The row of a signature, from the marshalled (name, sizes, dtypes, sizes, dtypes). TypeError: of wrong types."""
    name, *parts = marshal.loads(key)
    sizes, dtypes = [parts[0], parts[2]], [parts[1], parts[3]]
    if not (name is None or isinstance(name, str)) or not all(map(_are_sizes, sizes)) or not all(map(_are_texts, dtypes)):
        raise TypeError("a signature is not (name, sizes, dtypes, sizes, dtypes)")
    return Signature(content_id([name, *parts]), name or None, *parts)


def _are_sizes(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(s, list) and set(map(type, s)) <= {int} for s in value))


def _are_texts(value: Any) -> bool:
    return value is None or (isinstance(value, list) and set(map(type, value)) <= {str})


def signature_column(*parts: Sequence[Any]) -> tuple[pa.Array, list[Signature]]:
    """Names, input sizes, input dtypes, output sizes, output dtypes of each entry -> signature_id, distinct signatures.

    marshal's version 2 writes no back references: equal content gives equal bytes, whichever objects are shared.
    """
    keys = list(map(marshal.dumps, zip(*parts, strict=True), repeat(2)))
    rows = {key: signature_of(key) for key in set(keys)}
    ids = {key: row.signature_id for key, row in rows.items()}
    return pa.array(list(map(ids.__getitem__, keys)), pa.int64()), list(rows.values())


# ---- members of groups ---------------------------------------------------------------------------------------------
@lru_cache(maxsize=4_096)
def ranks_of(text: str) -> Ranks:
    """The row of a list of ranks as PyTorch writes it (`[0, 1]`). ValueError: no list of ranks.

    A world group repeats its text in every dump; parsing 4,096 ranks anew each time costs more than all the rest.
    """
    ranks = json.loads(text)
    if not isinstance(ranks, list) or not all(type(r) is int and 0 <= r < 1 << 63 for r in ranks):
        raise ValueError("not a list of ranks")
    return Ranks(content_id(ranks), tuple(ranks))


# ---- tables --------------------------------------------------------------------------------------------------------
def stack_table(stacks: Iterable[Stack]) -> pa.Table:
    """torch_nccl_stack of one dump, each stack once, ordered by id."""
    return _stack_table(tuple(sorted({s.stack_id: s for s in stacks}.values(), key=itemgetter(0))))


def signature_table(signatures: Iterable[Signature]) -> pa.Table:
    """torch_nccl_signature of one dump, each signature once, ordered by id."""
    rows = sorted({s.signature_id: s for s in signatures}.values(), key=itemgetter(0))
    return rows_to_arrow(SIGNATURE, [s._asdict() for s in rows])


def ranks_table(lists: Iterable[Ranks]) -> pa.Table:
    """torch_nccl_ranks of one dump, each list once, ordered by id."""
    return _table(RANKS, tuple(sorted({r.ranks_id: r for r in lists}.values(), key=itemgetter(0))))


@lru_cache(maxsize=64)
def _stack_table(stacks: tuple[Stack, ...]) -> pa.Table:
    rows = [
        s._asdict() | {"frames": [{"name": n, "filename": f, "line": i} for n, f, i in s.frames]} for s in stacks
    ]
    return rows_to_arrow(STACK, rows)


@lru_cache(maxsize=64)
def _table(table: Table, rows: tuple[Any, ...]) -> pa.Table:
    return rows_to_arrow(table, [row._asdict() for row in rows])
