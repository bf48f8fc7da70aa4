"""Answers of `ncclras -f json`, as NCCL 2.28 writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

OPS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


def communicator(
    counts: Sequence[int | None],
    *,
    ranks: Sequence[int] | None = None,
    hashed: int = 0xF31E5874C3F25459,
    op: str = "AllReduce",
    lost: Mapping[int, str] | None = None,
    **status: Any,
) -> dict[str, Any]:
    """One communicator.

    counts: collectives launched, by rank in the communicator; None: RAS has no data of it. ranks: the global ranks
    (which say pid and node, eight to a node); default: 0, 1, … lost: rank -> `dead` or `unresponsive`; else a missing
    rank is merely no member yet. status: of every rank (`init_state=7`).
    """
    ranks = range(len(counts)) if ranks is None else ranks
    plain = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    seen, missing = [], []
    for number, (rank, count) in enumerate(zip(ranks, counts, strict=True)):
        who = {"rank": number, "host": f"10.0.0.{rank // 8}", "pid": 6000 + rank, "cuda_dev": rank % 8}
        who["nvml_dev"] = rank % 8
        if count is None:
            how = (lost or {}).get(number)
            gone = {"unresponsive": how is not None, "considered_dead": how == "dead"}
            missing.append({**who, "status": gone})
        else:
            counted = {name: count if name == op else 0 for name in OPS}
            seen.append({**who, "status": {**plain, **status}, "collective_counts": counted})
    return {
        "hash": f"{hashed:#x}",
        "secondary_hash": f"{hashed ^ 0xFF:#x}:{hashed ^ 0xF0F:#x}",
        "size": len(counts),
        "ranks_count": len(seen),
        "missing_ranks_count": len(missing),
        "ranks": seen,
        "missing_ranks": missing,
    }


def answer(*communicators: dict[str, Any], at: str = "2026-09-23 11:55:37", indent: int | None = None) -> str:
    """The answer of RAS to one question."""
    return json.dumps(
        {
            "nccl_version": "2.28.9",
            "cuda_runtime_version": 12090,
            "cuda_driver_version": 13000,
            "timestamp": at,
            "communicators_count": len(communicators),
            "communicators": list(communicators),
            "ras": {"collection_time_sec": 0.001, "timeouts_count": 0},
        },
        indent=indent,
    )
