"""Made-up jobs of any size, written fast: what the recorders of a hung training would leave, one file per rank.

Tensor-parallel groups of `TP` ranks, data-parallel groups across them, and everybody. One rank stops before the last
step, and all others wait for it, directly or not.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TP = 8
LAYERS = 10
PER_STEP = LAYERS + 4  # entries of a rank
START_NS = 1_790_000_000_000_000_000
STEP_NS = 400_000_000

Call = tuple[str, str, list[list[int]], list[list[int]], int]  # group, operation, sizes in and out, line


def culprit_of(ranks: int) -> int:
    """The rank that stops."""
    return ranks // 2 + 1


def write(folder: Path, ranks: int, entries: int, frames: int = 10, only: int | None = None) -> Path:
    """Dumps of about `entries` entries with stacks of `frames` frames. ranks: a multiple of TP; only: of this rank."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks) if only is None else [only]:
        with (folder / f"comm_lib_trace_rank_{rank}").open("wb") as file:
            pickle.dump(dump(rank, ranks, entries, frames), file, protocol=2)
    return folder


def write_only_active(folder: Path, ranks: int) -> Path:
    """Dumps that hold only what has not finished, as an onlyActive dump does: most of a file is the list of ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        whole = dump(rank, ranks, 3 * PER_STEP, 10)
        whole["entries"] = [entry for entry in whole["entries"] if entry["state"] != "completed"]
        with (folder / f"comm_lib_trace_rank_{rank}").open("wb") as file:
            pickle.dump(whole, file, protocol=2)
    return folder


def dump(rank: int, ranks: int, entries: int, frames: int) -> dict[str, Any]:
    """The dump of one rank, as plain data; equal frames are one object, as the recorder's own pickler has it."""
    return payload(rank, ranks, _recorded(rank, ranks, entries, frames), list(issued(rank, ranks, entries)))


def payload(rank: int, ranks: int, recorded: list[dict[str, Any]], issued: list[tuple[Call, bool]]) -> dict[str, Any]:
    """A dump with these entries, and with groups and counters of what was issued."""
    groups = groups_of(rank, ranks)
    return {
        "version": "2.10",
        "comm_lib_version": "2.27.5",
        "pg_config": {
            str(number): {"name": str(number), "desc": desc, "ranks": str(members)}
            for number, (desc, members) in enumerate(groups.values())
        },
        "pg_status": {
            str(number): {
                "last_enqueued_collective": sum(1 for (g, *_), _ in issued if g == group),
                "last_started_collective": -1,
                "last_completed_collective": sum(1 for (g, *_), done in issued if g == group and done),
            }
            for number, group in enumerate(groups)
        },
        "entries": recorded,
    }


def _recorded(rank: int, ranks: int, entries: int, frames: int) -> list[dict[str, Any]]:
    stacks = {line: [_frame(line, depth) for depth in range(frames)] for line in range(LAYERS + 4)}
    groups = groups_of(rank, ranks)
    counters = dict.fromkeys(groups, 0)
    recorded = []
    for place, ((group, op, ins, outs, line), done) in enumerate(issued(rank, ranks, entries)):
        counters[group] += 1
        created = START_NS + place * STEP_NS // PER_STEP + 1_000 * rank
        number = list(groups).index(group)
        recorded.append(
            {
                "frames": stacks[line],
                "record_id": place,
                "pg_id": number,
                "process_group": (str(number), groups[group][0]),
                "thread_name": "pt_main_thread",
                "thread_id": str(140_000_000_000_000 + rank),
                "collective_seq_id": counters[group],
                "p2p_seq_id": 0,
                "op_id": counters[group],
                "profiling_name": f"nccl:{op}",
                "time_created_ns": created,
                "input_sizes": ins,
                "input_dtypes": ["BFloat16"],
                "output_sizes": outs,
                "output_dtypes": ["BFloat16"],
                "state": "completed" if done else "scheduled",
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": created + 50_000_000 if done else None,
                "retired": done,
                "timeout_ms": 600_000,
                "is_p2p": False,
            }
        )
    return recorded


def groups_of(rank: int, ranks: int) -> dict[str, tuple[str, list[int]]]:
    """Name -> (description, members), in the order in which the rank made them."""
    first = rank // TP * TP
    return {
        "world": ("default_pg", list(range(ranks))),
        "tp": (f"tp_{first // TP}", list(range(first, min(first + TP, ranks)))),
        "dp": (f"dp_{rank % TP}", list(range(rank % TP, ranks, TP))),
    }


def _calls(ranks: int) -> Iterator[Call]:
    part, whole = [[1 << 20]], [[ranks // TP << 20]]
    for layer in range(LAYERS):
        yield "tp", "all_reduce", [[4096, 1024]], [[4096, 1024]], layer
    yield "dp", "_all_gather_base", part, whole, LAYERS
    yield "dp", "_reduce_scatter_base", whole, part, LAYERS + 1
    yield "dp", "all_reduce", part, part, LAYERS + 2
    yield "world", "all_reduce", [[1]], [[1]], LAYERS + 3


def issued(rank: int, ranks: int, entries: int) -> Iterator[tuple[Call, bool]]:
    """What a rank entered, and whether it has finished. A host waits for what it needs, so nobody runs ahead."""
    culprit = culprit_of(ranks)
    steps = entries // PER_STEP
    for _ in range(steps - 1):
        yield from ((call, True) for call in _calls(ranks))
    if rank == culprit:
        return
    held_up = rank // TP == culprit // TP  # and through these, everybody in the next call across the job
    for call in _calls(ranks):
        waits = held_up or call[0] != "tp"
        yield call, not waits
        if waits:
            return


def _frame(line: int, depth: int) -> dict[str, Any]:
    files = ("layers.py", "model.py", "train.py")
    return {"name": f"call_{depth}", "filename": f"/app/{files[depth % 3]}", "line": 100 * depth + line + 1}
