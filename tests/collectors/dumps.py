"""Tiny dumps, written out by hand: a test shows what it changes, and nothing else."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from whichrank.batch import Batch
from whichrank.collectors.flight_recorder import Origin, to_batch
from whichrank.tables import NOTE, Table, by_name

T0 = 1_796_000_000_000_000_000
HERE = Origin("snap", 3, "file", path="dumps/rank_3", size=10)


def frame(name: str = "step", filename: str = "/job/train.py", line: int = 88) -> dict[str, Any]:
    return {"name": name, "filename": filename, "line": line}


def entry(**changes: Any) -> dict[str, Any]:
    """An entry as torch 2.13 writes it; a change to ... takes the key away."""
    whole = {
        "frames": [frame("all_reduce", "/v/site-packages/torch/distributed/distributed_c10d.py", 3245), frame()],
        "record_id": 0,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "thread_name": "python3",
        "thread_id": "140335636581248",
        "collective_seq_id": 1,
        "p2p_seq_id": 0,
        "op_id": 1,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": T0,
        "input_sizes": [[4, 2]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4, 2]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": T0 + 5,
        "retired": True,
        "timeout_ms": 600_000,
        "is_p2p": False,
    }
    return {key: value for key, value in (whole | changes).items() if value is not ...}


def entries(count: int, **changes: Any) -> list[dict[str, Any]]:
    """A row of calls of one group."""
    numbered = (
        {"record_id": i, "collective_seq_id": i + 1, "op_id": i + 1, "time_created_ns": T0 + i} for i in range(count)
    )
    return [entry(**numbers | changes) for numbers in numbered]


def payload(calls: Iterable[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    """A dump as torch 2.13 writes it; a change to ... takes the key away."""
    whole = {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
        "comm_lib_version": "2.27.5",
        "pg_status": {
            "0": {"last_enqueued_collective": 1, "last_started_collective": -1, "last_completed_collective": 1}
        },
        "entries": list(calls) if calls is not None else [entry()],
    }
    return {key: value for key, value in (whole | changes).items() if value is not ...}


def convert(dump: object) -> Batch:
    return to_batch(dump, HERE)


def records(dump: object) -> list[dict[str, Any]]:
    """Rows of torch_nccl_flight_record, the lookups' columns joined in."""
    batch = convert(dump)
    looked_up = {
        key: {row[key]: row for row in rows(batch, table)}
        for key, table in (("stack_id", "torch_nccl_stack"), ("signature_id", "torch_nccl_signature"))
    }
    joined = rows(batch, "torch_nccl_flight_record")
    for key, by_id in looked_up.items():
        joined = [row | by_id.get(row[key], {}) for row in joined]
    return joined


def rows(batch: Batch, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = batch.tables[table].to_pylist() if table in batch.tables else []
    return found


def all_rows(batches: Iterable[Batch]) -> dict[str, list[str]]:
    """The rows of every table in a fixed order, those of lookups once."""
    found: dict[str, list[str]] = {}
    for batch in batches:
        for name in batch.tables:
            found.setdefault(name, []).extend(map(repr, rows(batch, name)))
    return {name: sorted(set(texts) if table(name).key else texts) for name, texts in found.items()}


def table(name: str) -> Table:
    found = by_name(name)
    assert found is not None
    return found


def groups(dump: object) -> list[dict[str, Any]]:
    """Rows of torch_nccl_pg_status with the ranks joined in."""
    batch = convert(dump)
    ranks = {row["ranks_id"]: row["ranks"] for row in rows(batch, "torch_nccl_ranks")}
    return [row | {"ranks": ranks.get(row["ranks_id"])} for row in rows(batch, "torch_nccl_pg_status")]


def notes(batches: Batch | Iterable[Batch]) -> list[dict[str, Any]]:
    several = [batches] if isinstance(batches, Batch) else batches
    return [row for batch in several for row in rows(batch, NOTE.name)]


def kinds(batches: Batch | Iterable[Batch]) -> list[str]:
    return [row["kind"] for row in notes(batches)]


def write_pickle(path: Path, dump: object) -> Path:
    """Protocol 2, as torch's own pickler writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(dump, protocol=2))
    return path


def write_json(path: Path, dump: object) -> Path:
    path.write_text(json.dumps(dump))
    return path
