"""The cases of PyTorch's own analyzer tests (test_fr_analysis.py): same verdict, or ours with the reason.

Each case is what two ranks of one group recorded. MATCHED and UNDECIDED mean silence; TYPE, SIZE and DTYPE a mismatch
in which neither of two ranks is the majority.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.verdict import Verdict, verdict_of

Entry = dict[str, Any]
Sizes = list[list[int]]
SILENT: Verdict = ("no_fault", [])
TYPE: Verdict = ("collective_type_mismatch", [0, 1])
SIZE: Verdict = ("collective_size_mismatch", [0, 1])
ALL_WRONG: Verdict = ("collective_size_mismatch", [])
DTYPE: Verdict = ("collective_dtype_mismatch", [0, 1])
SQUARE: Sizes = [[4, 4]]


def call(
    name: str,
    ins: Sizes = SQUARE,
    outs: Sizes = SQUARE,
    *,
    dtypes: tuple[str, str] = ("Float", "Float"),
    done: bool = False,
) -> Entry:
    """One recorded call; open unless `done`."""
    return {
        "profiling_name": name if ":" in name else f"nccl:{name}",
        "input_sizes": ins,
        "output_sizes": outs,
        "input_dtypes": [dtypes[0]] * len(ins),
        "output_dtypes": [dtypes[1]] * len(outs),
        "state": "completed" if done else "scheduled",
        "retired": done,
        "is_p2p": name.startswith(("send", "recv")),
    }


def job(folder: Path, *ranks: Sequence[Entry | tuple[int, Entry]]) -> Path:
    """Write the dumps. An entry counts its group up by one; (seq, entry) says the number, as inside a batch."""
    members = list(range(len(ranks)))
    for rank, calls in enumerate(ranks):
        entries: list[Entry] = []
        newest = 0
        for given in calls:
            seq, entry = given if isinstance(given, tuple) else (newest + 1, given)
            newest = seq
            entries.append(
                entry
                | {
                    "record_id": len(entries),
                    "pg_id": 0,
                    "process_group": ("0", "default"),
                    "collective_seq_id": 0 if entry["is_p2p"] else seq,
                    "p2p_seq_id": seq if entry["is_p2p"] else 0,
                    "op_id": seq,
                    "time_created_ns": 1_796_000_000_000_000_000 + len(entries) * 1_000_000,
                    "time_discovered_started_ns": None,
                    "time_discovered_completed_ns": None,
                    "timeout_ms": 600_000,
                }
            )
        config = {"0": {"name": "0", "desc": "default", "ranks": str(members)}}
        payload = {"version": "2.8", "pg_config": config, "pg_status": {}, "entries": entries}
        folder.mkdir(exist_ok=True)
        (folder / f"trace_{rank}").write_bytes(pickle.dumps(payload, protocol=2))
    return folder


GATHER_ROOT = call("gather", SQUARE, [[4, 4], [4, 4]], done=True)
OOP = call("_broadcast_oop")
CLOSER = call("ALLGATHER_coalesced", [], [], done=True)
PAIRS: list[tuple[str, Entry, Entry, Verdict]] = [
    ("same", call("all_reduce", done=True), call("all_reduce", done=True), SILENT),
    ("type", call("all_reduce"), call("all_gather", [[4, 4]], [[4, 4], [4, 4]]), TYPE),
    ("all_to_all undecided", call("all_to_all", done=True), call("all_to_all", done=True), SILENT),
    ("input size", call("all_reduce", [[5, 4]], [[4, 4]]), call("all_reduce"), SIZE),
    ("output size", call("all_reduce", SQUARE, [[5, 4]]), call("all_reduce"), SIZE),
    # PyTorch: SIZE. Both ranks agree and NCCL takes one count for both buffers: nothing can hang on it.
    (
        "in and out differ",
        call("all_reduce", SQUARE, [[5, 4]], done=True),
        call("all_reduce", SQUARE, [[5, 4]], done=True),
        SILENT,
    ),
    # PyTorch: COLLECTIVE_STATE_MISMATCH. A finished all_reduce has been entered by all, and nobody waits: not a fault.
    ("state", call("all_reduce"), call("all_reduce", done=True), SILENT),
    ("output dtype", call("all_reduce", dtypes=("Float", "Half")), call("all_reduce"), DTYPE),
    ("gather root and other", GATHER_ROOT, call("gather", SQUARE, [[]], done=True), SILENT),
    ("gather root and full", GATHER_ROOT, call("gather", done=True), SILENT),
    (
        "backend with colon",
        call("weird:backend:all_reduce", done=True),
        call("weird:backend:all_reduce", done=True),
        SILENT,
    ),
    ("unknown backend", call("unknown_backend:all_reduce"), call("unknown_backend:broadcast"), TYPE),
    ("all_gather variants", call("all_gather", [[8]], [[8], [8]]), call("_all_gather_base", [[8]], [[16]]), TYPE),
    ("all_reduce variants", call("all_reduce"), call("allreduce_coalesced"), TYPE),
    (
        "reduce_scatter variants",
        call("reduce_scatter", [[8], [8]], [[8]]),
        call("_reduce_scatter_base", [[16]], [[8]]),
        TYPE,
    ),
    ("all_to_all variants", call("all_to_all"), call("all_to_all_single"), TYPE),
    (
        "numel fits",
        call("_all_gather_base", [[8]], [[16]], done=True),
        call("_all_gather_base", [[8]], [[16]], done=True),
        SILENT,
    ),
    # PyTorch accuses both; both share one mistake, so nobody stands out.
    (
        "numel of all_gather",
        call("_all_gather_base", [[8]], [[24]]),
        call("_all_gather_base", [[8]], [[24]]),
        ALL_WRONG,
    ),
    (
        "numel of reduce_scatter",
        call("reduce_scatter", [[8]] * 3, [[8]]),
        call("reduce_scatter", [[8]] * 3, [[8]]),
        ALL_WRONG,
    ),
    ("flattened all_gather", call("all_gather", [[8]], [[17]]), call("all_gather", [[8]], [[17]]), ALL_WRONG),
    (
        "uneven splits",
        call("all_to_all_single", [[4]], [[6]], done=True),
        call("all_to_all_single", [[6]], [[4]], done=True),
        SILENT,
    ),
    ("any source", call("send 0->1", [[4]], [[4]], done=True), call("recv 1<-?", [[4]], [[4]], done=True), SILENT),
    # PyTorch: SIZE. A receive from any source may take it from anybody: no pair, no verdict on it.
    (
        "any source, other size",
        call("send 0->1", [[4]], [[4]], done=True),
        call("recv 1<-?", [[8]], [[8]], done=True),
        SILENT,
    ),
    (
        "send and receive differ",
        call("send 0->1", [[4]], [[4]]),
        call("recv 1<-0", [[8]], [[8]]),
        ("p2p_unmatched", [0, 1]),
    ),
]


@pytest.mark.parametrize(("one", "two", "expected"), [p[1:] for p in PAIRS], ids=[p[0] for p in PAIRS])
def test_match_one_event(one: Entry, two: Entry, expected: Verdict, tmp_path: Path) -> None:
    assert verdict_of(job(tmp_path / "job", [one], [two])) == expected


COLLECTIVES = """
broadcast _broadcast_oop reduce _reduce_oop gather scatter all_reduce allreduce_coalesced all_reduce_barrier barrier
all_gather _all_gather_base all_gather_into_tensor_coalesced reduce_scatter _reduce_scatter_base
reduce_scatter_tensor_coalesced all_to_all all_to_all_single
"""


@pytest.mark.parametrize("name", COLLECTIVES.split())
def test_all_events_match_themselves(name: str, tmp_path: Path) -> None:
    """Every operation beside itself is silent, with the sizes it demands."""
    ins = [[8, 4]] if "reduce_scatter" in name else SQUARE
    outs = [[8, 4]] if "all_gather" in name else SQUARE
    same = call(name, ins, outs, done=True)
    assert verdict_of(job(tmp_path / "job", [same], [same])) == SILENT


def test_coalesced_fast_path(tmp_path: Path) -> None:
    """testBuildDB 2: one entry with several tensors is one collective."""
    entry = call("allreduce_coalesced", [[8], [4]], [[8], [4]], done=True)
    assert verdict_of(job(tmp_path / "job", [entry], [entry])) == SILENT


def test_coalesced_parts_and_closing_entry(tmp_path: Path) -> None:
    """testBuildDB 3 and 5: inner entries stay scheduled, the closing entry tells the state."""
    one = [(1, call("broadcast")), (1, call("broadcast")), (1, call("coalesced", [], [], done=True))]
    assert verdict_of(job(tmp_path / "a", one, one)) == SILENT
    two = [(1, call("_reduce_oop")), (1, call("_reduce_oop")), (1, call("REDUCE_SCATTER_coalesced", [], [], done=True))]
    assert verdict_of(job(tmp_path / "b", two, two)) == SILENT


def test_coalesced_parts_of_other_sizes(tmp_path: Path) -> None:
    """testBuildDB 4: fails there and here."""
    odd = [(1, OOP), (1, call("_broadcast_oop", [[5, 5]], [[5, 5]])), (1, CLOSER)]
    assert verdict_of(job(tmp_path / "job", odd, [(1, OOP), (1, OOP), (1, CLOSER)])) == SIZE


def test_one_rank_did_not_issue_the_batch(tmp_path: Path) -> None:
    """testBuildDB 6: PyTorch counts two collectives and passes the second; we say who never came."""
    reduce_scatter = [(2, call("_reduce_oop")), (2, call("_reduce_oop")), (2, call("REDUCE_SCATTER_coalesced", [], []))]
    first = (1, call("all_reduce", done=True))
    assert verdict_of(job(tmp_path / "job", [first], [first, *reduce_scatter])) == ("rank_not_joined", [0])
