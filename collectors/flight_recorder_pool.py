"""Processes that read dumps side by side and send back Arrow tables.

They are started as programs, neither forked nor spawned by multiprocessing. A fork copies the locks of threads that do
not exist in the copy (Arrow, DuckDB and a progress bar have some). Spawn and forkserver run the user's own script once
more, which ends badly where it lacks `if __name__ == "__main__"`, and are forbidden in daemonic processes. A third of a
second to start is the price, so nobody starts them for a small job.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, cast

from whichrank.batch import Batch

if TYPE_CHECKING:
    import pyarrow as pa

_AHEAD = 4  # tasks a worker may be ahead of the reader: bounds the memory that finished ones take
_HELLO = b"whichrank"
_ALIGNED = 64  # Arrow reads buffers in place where they are aligned


class PoolUnavailableError(Exception):
    """No worker could be started; the caller has to do the work itself."""


Here = Callable[[Any], list[Batch]]


def run(
    target: str,
    tasks: Sequence[Any],
    workers: int,
    here: Here | None = None,
    workforce: Workforce | None = None,
) -> Iterator[list[Batch] | None]:
    """Results of the tasks in their order; None where the worker died over a task.

    target:     `module:function`, called with a task (JSON-like), returns a list of batches.
    here:       the same function, for a caller who would rather work than wait.
    workforce:  workers of this target that were called before.
    The workers begin at once. Raises PoolUnavailableError with the first result. Closing the iterator ends the workers.
    """
    workforce = workforce or Workforce(target)
    return cast(Iterator[list[Batch] | None], started(_run(workforce, tasks, workers, here)))


def started(generator: Iterator[Any]) -> Iterator[Any]:
    """Run a generator to its first yield, which gives nothing. From there on, closing it cleans up."""
    next(generator)
    return generator


def _run(workforce: Workforce, tasks: Sequence[Any], workers: int, here: Here | None) -> Iterator[list[Batch] | None]:
    threads = ThreadPoolExecutor(workers, thread_name_prefix="whichrank-read")
    waiting: _Waiting = deque()
    left = iter(tasks)
    try:
        waiting.extend((threads.submit(workforce.ask, task), task) for task in islice(left, workers * _AHEAD))
        yield None
        while waiting:
            yield _oldest(waiting, here)
            waiting.extend((threads.submit(workforce.ask, task), task) for task in islice(left, 1))
    finally:
        workforce.end()
        threads.shutdown(wait=True, cancel_futures=True)


_Waiting = deque[tuple["Future[list[Batch] | None]", Any]]


def _oldest(waiting: _Waiting, here: Here | None) -> list[Batch] | None:
    """The oldest result. Instead of waiting for it, the caller does what no worker has begun, the newest first."""
    for place in reversed(range(len(waiting))):
        if here is None or waiting[0][0].done():
            break
        future, task = waiting[place]
        if future.cancel():
            mine: Future[list[Batch] | None] = Future()
            mine.set_result(here(task))
            waiting[place] = mine, task
    return waiting.popleft()[0].result()


class Workforce:
    """A worker for each thread that asks, started when it first does, and again when it died.

    early: so many are started at once, while the caller prepares their tasks: they have much to import.
    """

    def __init__(self, target: str, early: int = 0) -> None:
        self._target = target
        self._mine = threading.local()
        self._all: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._ended = False
        self._lock = threading.Lock()
        with suppress(PoolUnavailableError):  # it is raised again when one is needed
            for _ in range(early):
                self._idle.append(self._start())

    def _start(self) -> _Worker:
        self._all.append(_Worker(self._target))
        return self._all[-1]

    def ask(self, task: Any) -> list[Batch] | None:
        worker: _Worker | None = getattr(self._mine, "worker", None)
        if worker is None or worker.died:
            with self._lock:  # none must start after the end
                if self._ended:
                    return None
                worker = self._mine.worker = self._idle.pop() if self._idle else self._start()
            worker.wait_for_hello()
        return worker.ask(task)

    def end(self) -> None:
        with self._lock:
            self._ended = True
        for worker in self._all:
            worker.kill()


class _Worker:
    """One process. It dies alone, for instance over a dump that unpickles to more memory than there is."""

    def __init__(self, target: str) -> None:
        program = f"from {__name__} import serve; serve({target!r})"
        path = os.pathsep.join(p for p in sys.path if p)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": path},
            )
        except OSError as error:
            raise PoolUnavailableError(str(error)) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self.died = False

    def wait_for_hello(self) -> None:
        if self._from.read(len(_HELLO)) != _HELLO:
            self.kill()
            raise PoolUnavailableError("the worker did not start")

    def ask(self, task: Any) -> list[Batch] | None:
        try:
            self._to.write(json.dumps(task).encode() + b"\n")
            self._to.flush()
            size = self._from.read(8)
            answer = self._from.read(int.from_bytes(size, "little")) if len(size) == 8 else b""
        except OSError:
            answer = size = b""
        if len(size) < 8 or len(answer) < int.from_bytes(size, "little"):
            self.kill()
            return None
        return unpack(answer)

    def kill(self) -> None:
        self.died = True
        self._process.kill()
        self._process.wait()
        for pipe in (self._to, self._from):
            try:
                pipe.close()
            except OSError:  # what was still to be written has nobody to read it
                continue


def serve(target: str) -> None:
    """The worker: tasks from stdin, a JSON line each; answers to stdout, length first. Ends with stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reader decides what an interrupt ends
    _limit_memory()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a stray print must not end up among the answers
    module, _, name = target.partition(":")
    function: Callable[[Any], list[Batch]] = getattr(importlib.import_module(module), name)
    gc.disable()  # a dump is a million new objects, none of them garbage, and this process does not live long
    _send(out, _HELLO)
    for line in sys.stdin.buffer:
        answer = pack(function(json.loads(line)))
        _send(out, len(answer).to_bytes(8, "little"), answer)


def _send(out: IO[bytes], *parts: bytes) -> None:
    for part in parts:
        out.write(part)
    out.flush()


def _limit_memory() -> None:
    """More than the machine has is a MemoryError here, which ends in a note, and not the end of somebody's job."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory if most == resource.RLIM_INFINITY else min(memory, most), most))


def pack(batches: Sequence[Batch]) -> bytes:
    """Batches -> bytes. Rows of one table lie together: each table costs the reader time, whatever its size."""
    import pyarrow as pa

    tables: dict[str, list[pa.Table]] = {}
    for batch in batches:
        for name, rows in batch.tables.items():
            tables.setdefault(name, []).append(rows)
    sink = pa.BufferOutputStream()
    ends = []
    for parts in tables.values():
        with pa.ipc.new_stream(sink, parts[0].schema) as stream:
            for part in parts:
                stream.write_table(part)
        sink.write(bytes(-sink.tell() % _ALIGNED))
        ends.append(sink.tell())
    heads = [[b.snapshot_id, b.rank, {name: rows.num_rows for name, rows in b.tables.items()}] for b in batches]
    head = json.dumps([heads, list(tables), ends]).encode()
    body = sink.getvalue()
    start = len(head) + 8
    start += -start % _ALIGNED
    return b"".join((start.to_bytes(8, "little"), head.ljust(start - 8), body))


def unpack(answer: bytes) -> list[Batch]:
    """The batches that were packed; their tables share memory."""
    import pyarrow as pa

    start = int.from_bytes(answer[:8], "little")
    heads, names, ends = json.loads(answer[8:start])
    body = pa.py_buffer(answer).slice(start)
    streams = {
        name: pa.ipc.open_stream(body.slice(begin, end - begin))
        for name, begin, end in zip(names, [0, *ends], ends, strict=False)
    }
    return [
        Batch(snapshot_id, rank, {name: _read_rows(streams[name], count) for name, count in rows.items()})
        for snapshot_id, rank, rows in heads
    ]


def _read_rows(stream: pa.RecordBatchStreamReader, count: int) -> pa.Table:
    """The next `count` rows. Read piece by piece, as they were written: a slice of many pieces looks at all of them."""
    import pyarrow as pa

    pieces: list[pa.RecordBatch] = []
    while count:
        pieces.append(stream.read_next_batch())
        count -= pieces[-1].num_rows
    return pa.Table.from_batches(pieces, stream.schema)
