"""Which collector reads which file, besides the dumps. Each says itself what its files look like.

A collector of files is a module with

    recognises(path: Path, head: bytes, named: bool) -> bool
        head: the first HEAD bytes, unpacked. named: the user named this very file, and may know better.
    read(paths: Sequence[Path], *, on_progress: Progress | None = None) -> Iterator[Batch]

and a line in WITNESSES. They are asked in that order; a dump is never asked about.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from whichrank.batch import Batch
from whichrank.tables import BACKTRACE, COLL_PERF, CPU, KMSG, PROXY_OPS, RAS_STATUS

HEAD = 1 << 16
_NOT_OURS = (b"\x80", b"PAR1")  # a pickle: nearly all files of a folder of dumps; a shard

Progress = Callable[[int, int], None]


class Collector(Protocol):
    """The module of a collector of files."""

    def recognises(self, path: Path, head: bytes, named: bool) -> bool:
        """Whether the file is of this kind."""

    def read(self, paths: Sequence[Path], *, on_progress: Progress | None = None) -> Iterator[Batch]:
        """The rows of the files."""


@dataclass(frozen=True, slots=True)
class Witness:
    """One kind of file. what: for people (`logs of the job`). tables: rows in one of them are evidence."""

    what: str
    module: str
    tables: tuple[str, ...]

    def collector(self) -> Collector:
        return cast(Collector, import_module(self.module))


WITNESSES: tuple[Witness, ...] = (
    Witness("answers of NCCL RAS (ncclras -f json)", "whichrank.collectors.nccl_ras", (RAS_STATUS.full_name,)),
    Witness("traces of the NCCL profiler plugin", "whichrank.collectors.nccl_profiler", (PROXY_OPS.full_name,)),
    Witness(
        "records of NCCL Inspector",
        "whichrank.collectors.nccl_inspector",
        (COLL_PERF.full_name, PROXY_OPS.full_name),
    ),
    Witness(
        "stacks (py-spy dump --json, faulthandler, torch.distributed.debug)",
        "whichrank.collectors.backtrace_files",
        (BACKTRACE.full_name, CPU.full_name),
    ),
    Witness("kernel logs (dmesg)", "whichrank.collectors.kernel_log", (KMSG.full_name,)),
    Witness("logs of the job", "whichrank.collectors.watchdog_log", ("python.torch_nccl_watchdog_log",)),
)


def claimed(paths: Iterable[Path]) -> dict[Witness, list[Path]]:
    """The files at the paths and below that a collector other than the one of dumps reads, by kind."""
    found: dict[Witness, list[Path]] = {}
    for path in paths:
        for file in [path] if path.is_file() else _below(path):
            if witness := _witness(file, named=file is path):
                found.setdefault(witness, []).append(file)
    return found


def _below(folder: Path) -> Iterator[Path]:
    """Files below a folder; as everywhere, what is hidden is left out."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (
            path for name in sorted(names) if not name.startswith(".") and (path := Path(parent, name)).is_file()
        )


def _witness(path: Path, *, named: bool) -> Witness | None:
    try:
        head = _head(path)
    except (OSError, zlib.error):
        return None  # whoever reads it next says so in a note
    if not head or head.startswith(_NOT_OURS):
        return None
    from whichrank.collectors.flight_recorder_files import Kind, kind_of

    if kind_of(head) is Kind.DUMP:
        return None
    return next((w for w in WITNESSES if w.collector().recognises(path, head, named)), None)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        first = file.read(4)
        if first.startswith(_NOT_OURS):
            return first
        file.seek(0)
        head = file.read(HEAD)
    if head.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31).decompress(head, HEAD)  # a file that was cut off keeps its head
    return head
