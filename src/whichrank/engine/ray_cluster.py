"""The two heavy parts of a diagnosis on a Ray cluster: turning dumps into rows, and the facts of single ranks.

The entries of the Flight Recorder, which are more than all the rest, stay in the memory of the cluster. A fact whose
header says `per: rank` is made there, a part of the ranks at a time, and its rows are put together here; every other
fact is made here, from those. The same SQL runs in both places, and all that is shipped is a table.

Ray does a task again when its worker is lost, and makes again what was lost with it: the tasks depend on nothing but
their arguments. Every node needs whichrank, and should see the dumps; a file that it does not see is read here.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichrank import __version__
from whichrank.batch import Batch
from whichrank.engine import ray_worker
from whichrank.errors import UsageError, WhichrankError
from whichrank.store.apart import add, drop, typed
from whichrank.store.ddl import COMPACTED
from whichrank.store.evidence import Evidence
from whichrank.store.shards import shards
from whichrank.tables import FLIGHT_RECORD, LOOKUPS, by_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from whichrank.engine.query import Query

_AHEAD = 4  # tasks for each core that may wait, be under way, or be done and not yet fetched
_SHARDS_PER_TASK = 64
_TIMEOUT_S = 10.0


class ClusterUnavailable(WhichrankError):
    """There is no Ray, no cluster at that address, or nothing of ours on it."""


class RayCluster:
    """A connection; a context manager. It leaves a cluster that it found running as it was.

    address: `auto` finds the cluster of this machine, `local` starts one here, anything else is what Ray takes.
    keep:    entries stay on the cluster, for facts to be made of them there.
    Raises ClusterUnavailable.
    """

    def __init__(self, address: str, *, keep: bool = False) -> None:
        self._ray, self._ours = _connect(address)
        self._keep = keep
        self._parts: list[Any] = []  # references to the entries of some ranks
        self._made: dict[str, list[Any]] = {}  # fact -> references to its columns' types and rows, part by part
        remote = self._ray.remote
        self._convert = remote(num_returns=2, max_retries=1)(ray_worker.convert)  # a poisoned dump kills every time
        self._read_shards = remote(ray_worker.read_shards)
        self._count_rows = remote(ray_worker.count_rows)
        self._make_part = remote(ray_worker.make_part)
        try:
            self._check_version()
        except BaseException:
            self.__exit__()
            raise
        self.workers = max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def _check_version(self) -> None:
        advice = f"install whichrank {__version__} on every node of the cluster"
        try:
            theirs = self._ray.get(self._ray.remote(ray_worker.version).remote())
        except self._ray.exceptions.RayError as error:
            why = str(error).strip().splitlines()[-1]
            raise ClusterUnavailable(f"the workers of Ray cannot run whichrank: {why}", next=advice) from None
        if theirs != __version__:
            raise ClusterUnavailable(f"this is whichrank {__version__}, on the cluster it is {theirs}", next=advice)

    # ---- rows --------------------------------------------------------------------------------------------------------
    def run(
        self, target: str, tasks: Sequence[Any], workers: int, here: Callable[[Any], list[Batch]] | None = None
    ) -> Iterator[list[Batch] | None]:
        """Results of the tasks in their order, like `flight_recorder_pool.run`; None where workers died over a task."""
        cwd = str(Path.cwd())  # paths may be relative
        left = iter(tasks)
        ahead = islice(left, workers * _AHEAD)
        waiting = deque((self._convert.remote(target, task, cwd, self._keep), task) for task in ahead)
        while waiting:
            (rest, entries), task = waiting.popleft()
            yield self._answer(rest, entries, target, task)
            waiting.extend((self._convert.remote(target, more, cwd, self._keep), more) for more in islice(left, 1))

    def _answer(self, rest: Any, entries: Any, target: str, task: Any) -> list[Batch] | None:
        from whichrank.collectors.flight_recorder_pool import unpack

        errors = self._ray.exceptions
        try:
            packed = self._ray.get(rest)
        except (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.ObjectLostError):
            return None  # every time: Ray has tried it again
        if packed is None:  # that node does not see the files
            return ray_worker.call(target, task)
        if self._keep:
            self._parts.append(entries)
        return unpack(packed)

    def take_stock(self, evidence: Evidence) -> None:
        """Make parts of all entries, wherever they are: on the cluster, in shards, or here.

        Raises UsageError for a compacted store.
        """
        counts = self._ray.get([self._count_rows.remote(part) for part in self._parts])
        evidence.stand_in(FLIGHT_RECORD, sum(counts))
        for store in evidence.stores:
            if store.is_file() or (store / COMPACTED).exists():
                told = f"{store} is compacted: one process reads it faster than a cluster could"
                raise UsageError(told, next=f"whichrank diagnose {store}")
            paths = list(map(str, shards(store).get(FLIGHT_RECORD.name, [])))
            for start in range(0, len(paths), _SHARDS_PER_TASK):
                self._parts.append(self._read_shards.remote(paths[start : start + _SHARDS_PER_TASK]))
        if (here := evidence.held(FLIGHT_RECORD)) is not None:
            self._parts.append(self._ray.put(here))

    def entries(self) -> Iterator[Batch]:
        """All entries, brought here."""
        for part in self._parts:
            yield Batch("", None, {FLIGHT_RECORD.name: self._ray.get(part)})

    # ---- facts -------------------------------------------------------------------------------------------------------
    def makes(self, fact: Query) -> bool:
        """Whether this fact is made on the cluster."""
        return fact.per == "rank" and bool(self._parts)

    def make(self, fact: Query, sql: str, values: Mapping[str, Any], evidence: Evidence, at: DuckDBPyConnection) -> int:
        """Make a fact part by part, and a table of all its rows here; returns their number.

        sql: its SELECT. at: a cursor of the evidence.
        """
        reads = fact.reads_given(evidence.present)
        tables = [table for read in reads if (table := by_name(read))]
        lookups = [LOOKUPS[via] for table in tables for via in table.lookups]
        names = {table.name for table in (*tables, *lookups)} - {FLIGHT_RECORD.name}
        rows = {name: at.table(f"global.shard.{name}").to_arrow_table() for name in names}
        apart = [read for read in reads if read in self._made]
        facts = {r: typed(at.table(r)) for r in reads if r.startswith("facts.") and r not in apart}
        shared = self._ray.put(ray_worker.Shared(sql, dict(values), evidence.host, rows, facts))
        answers = [
            self._make_part.remote(shared, entries, apart, *(self._made[name][part] for name in apart))
            for part, entries in enumerate(self._parts)
        ]
        self._made[fact.id] = answers
        drop(at, fact.id)
        for answer in answers:
            add(at, fact.id, self._ray.get(answer))
        return int(at.table(fact.id).count("*").fetchall()[0][0])

    def forget(self) -> None:
        """Let go of what is on the cluster."""
        self._parts.clear()
        self._made.clear()

    def __enter__(self) -> RayCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()
        if self._ours:
            self._ray.shutdown()


def _connect(address: str) -> tuple[Any, bool]:
    """The module `ray`, connected, and whether that was our doing."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unless the user asks Ray for it
    try:
        import ray
    except ImportError:
        raise ClusterUnavailable("Ray is not installed", next='pip install "whichrank[ray]"') from None
    if ray.is_initialized():
        return ray, False
    try:
        _reach(address)
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise ClusterUnavailable(
            f"no Ray cluster at {address!r}: {why}", next="ray status   (or --ray local, to start one here)"
        ) from None
    return ray, True


def _reach(address: str) -> None:
    """Raises OSError where nobody listens at `host:port`: Ray would go on trying for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_TIMEOUT_S).close()
