"""Which snapshot of a store is diagnosed: of one job only, the newest one that is whole; any other on request."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from whichrank.batch import Batch, rows_to_arrow
from whichrank.engine.diagnosis import Diagnosis
from whichrank.engine.runner import diagnose
from whichrank.errors import QueryFailed
from whichrank.store.shards import write
from whichrank.tables import DUMP, FLIGHT_RECORD, NODES, PG_STATUS, RANKS, SIGNATURE

SECOND = 10**9


def _snapshot(
    store: Path,
    id: str,
    reached: dict[int, int],
    *,
    job: str | None = "j/0",
    asked: Iterable[int] = (),
    at_s: int = 100,
) -> None:
    """Ranks that have entered so many all_reduces of a group of four; the newest is open. asked: were silent."""
    for rank, count in reached.items():
        origin: dict[str, Any] = {"snapshot_id": id, "rank": rank, "job_id": job}
        dumped = origin | {"source": "process", "snapshot_ns": at_s * SECOND}
        entry = origin | {"source": "process", "pg_id": 0, "pg_name": "0", "signature_id": 7, "timeout_ms": 600_000}
        entries = [
            entry
            | {"entry_index": i, "record_id": i, "collective_seq_id": i + 1, "op_id": i + 1, "p2p_seq_id": 0}
            | {"time_created_ns": i * SECOND, "is_p2p": False}
            | {"state": "completed" if i + 1 < count else "scheduled", "retired": i + 1 < count}
            for i in range(count)
        ]
        status = origin | {"pg_id": 0, "pg_name": "0", "ranks_id": 3, "ranks_recorded": True}
        rows = {
            DUMP: [dumped | {"fr_version": "2.10", "entries": count}],
            FLIGHT_RECORD: entries,
            PG_STATUS: [status],
            RANKS: [{"ranks_id": 3, "ranks": [0, 1, 2, 3]}],
            SIGNATURE: [{"signature_id": 7, "profiling_name": "nccl:all_reduce", "input_sizes": [[8]]}],
        }
        write(store, Batch(id, rank, {table.name: rows_to_arrow(table, found) for table, found in rows.items()}))
    nodes = [{"snapshot_id": id, "rank": rank, "job_id": job, "state": "silent"} for rank in asked]
    write(store, Batch(id, None, {NODES.name: rows_to_arrow(NODES, nodes)}))


def _kinds(diagnosis: Diagnosis) -> set[str]:
    return {gap.kind for gap in diagnosis.gaps}


HANG = {0: 3, 1: 3, 2: 2, 3: 3}  # rank 2 never came to the third
OTHER = {0: 3, 1: 2, 2: 3, 3: 3}


def test_the_newest_whole_snapshot(tmp_path: Path) -> None:
    _snapshot(tmp_path, "s1", OTHER)
    _snapshot(tmp_path, "s2", HANG)
    found = diagnose([tmp_path])
    assert found.coverage.ranks_seen == [0, 1, 2, 3]
    assert found.culprit_ranks == [2]
    assert "newer_snapshot_not_whole" not in _kinds(found)


def test_some_ranks_of_a_newer_one_do_not_hide_it(tmp_path: Path) -> None:
    _snapshot(tmp_path, "s1", HANG)
    _snapshot(tmp_path, "s2", {0: 3})
    found = diagnose([tmp_path])
    assert found.culprit_ranks == [2]
    assert found.coverage.ranks_seen == [0, 1, 2, 3]
    assert "newer_snapshot_not_whole" in _kinds(found)


def test_a_rank_that_was_asked_and_stays_silent_is_evidence(tmp_path: Path) -> None:
    _snapshot(tmp_path, "s1", OTHER)
    _snapshot(tmp_path, "s2", {0: 3, 1: 3, 3: 3}, asked=range(4))
    found = diagnose([tmp_path])
    assert found.coverage.ranks_seen == [0, 1, 3], "the newer one, though rank 2 is not in it"
    assert "newer_snapshot_not_whole" not in _kinds(found)


def test_an_older_one_on_request(tmp_path: Path) -> None:
    _snapshot(tmp_path, "s1", OTHER)
    _snapshot(tmp_path, "s2", HANG)
    assert diagnose([tmp_path], parameters={"snapshot": "s1"}).culprit_ranks == [1]


def test_jobs_do_not_mix(tmp_path: Path) -> None:
    _snapshot(tmp_path, "s1", OTHER, job="j/0")
    _snapshot(tmp_path, "s2", {0: 3, 2: 3}, job="j/1")  # the restart is smaller, and no part of the first
    found = diagnose([tmp_path])
    assert found.coverage.ranks_seen == [0, 2]
    assert "other_jobs" in _kinds(found)
    older = diagnose([tmp_path], parameters={"job": "j/0"})
    assert older.culprit_ranks == [1]
    assert "other_jobs" in _kinds(older)


@pytest.mark.parametrize("asked", [{"snapshot": "s9"}, {"job": "nobody"}])
def test_what_is_not_there_is_said(tmp_path: Path, asked: dict[str, str]) -> None:
    _snapshot(tmp_path, "s1", HANG)
    with pytest.raises(QueryFailed, match=r"there is no .* in this store; it has .*(s1|j/0)"):
        diagnose([tmp_path], parameters=asked)


def test_dumps_collected_later_are_newer(tmp_path: Path) -> None:
    _snapshot(tmp_path, "s1", OTHER, job="j/0")
    for batch_of, reached in (("s2", HANG), ("s3", {0: 1})):
        _snapshot(tmp_path, batch_of, reached, job=None)
    assert diagnose([tmp_path], parameters={"snapshot": "s2"}).culprit_ranks == [2]
