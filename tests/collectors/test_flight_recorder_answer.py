"""What a running process answered becomes rows: groups from torch, stacks of the second dump, what a raise undid."""

from __future__ import annotations

import json
import pickle
from typing import Any

from whichrank.batch import Batch
from whichrank.collectors.flight_recorder_answer import to_rows

GROUPS = {"0": {"name": "0", "desc": "default_pg", "ranks": [0, 1]}}


def entry(number: int, *, retired: bool = True, created_ns: int | None = None, **more: Any) -> dict[str, Any]:
    """A gloo entry without stacks."""
    return {
        "record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number,
        "p2p_seq_id": 0, "op_id": number, "profiling_name": "gloo:all_reduce", "state": "scheduled", "retired": retired,
        "time_created_ns": created_ns or number * 1000, "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "input_sizes": [[4]], "input_dtypes": ["Float"], "output_sizes": [[4]],
        "output_dtypes": ["Float"], "timeout_ms": 600000, "is_p2p": False, **more,
    }  # fmt: skip


def dump(*entries: dict[str, Any], **head: Any) -> bytes:
    """A dump as torch 2.13 writes it for gloo: one group without members."""
    config = {"": {"name": "", "desc": "", "ranks": "[]"}}
    return pickle.dumps({"version": "2.10", "pg_config": config, "pg_status": {}, "entries": list(entries), **head})


def rows(parts: list[bytes], stacks: bytes | None = None, **head: Any) -> Batch:
    """The batch of one answer of rank 1."""
    said = {
        "snapshot_id": "s",
        "rank": 1,
        "host": "h",
        "job_id": "j",
        "world_size": 2,
        "snapshot_ns": 5,
        "groups": GROUPS,
    }
    said |= {"parts": [len(part) for part in parts], "notes": []}
    return to_rows(said | head, b"".join(parts), stacks, "answer")


def records(batch: Batch) -> list[dict[str, Any]]:
    return list(batch.tables["torch_nccl_flight_record"].to_pylist())


def test_it_says_who_and_when() -> None:
    batch = rows([dump(entry(1))])
    (head,) = batch.tables["torch_nccl_dump"].to_pylist()
    (row,) = records(batch)
    assert (head["source"], head["host"], head["job_id"], head["world_size"], head["snapshot_ns"]) == (
        "process", "h", "j", 2, 5,
    )  # fmt: skip
    assert (row["rank"], row["snapshot_id"], row["host"]) == (1, "s", "h")


def test_members_come_from_torch_where_the_dump_has_none() -> None:
    batch = rows([dump(entry(1))])
    (status,) = batch.tables["torch_nccl_pg_status"].to_pylist()
    assert (status["pg_name"], status["ranks_recorded"]) == ("0", True)
    (ranks,) = batch.tables["torch_nccl_ranks"].to_pylist()
    assert ranks["ranks"] == [0, 1]


def test_what_was_recorded_in_the_dump_stays() -> None:
    config = {"0": {"name": "0", "desc": "own", "ranks": "[1, 0]"}}
    (ranks,) = rows([dump(entry(1), pg_config=config)]).tables["torch_nccl_ranks"].to_pylist()
    assert ranks["ranks"] == [1, 0]


def test_stacks_of_the_second_dump_go_to_the_same_entries() -> None:
    frames = [{"name": "step", "filename": "train.py", "line": 7}]
    second = dump(entry(1, frames=frames), entry(2, frames=frames))
    stacks = json.dumps({"parts": [len(second)]}).encode() + b"\n" + second
    batch = rows([dump(entry(1))], stacks)
    assert [row["stack_id"] is not None for row in records(batch)] == [True]
    assert batch.tables["torch_nccl_stack"].to_pylist()[0]["user_frame"] == "train.py:7 in step"


def test_damaged_stacks_cost_nothing_else() -> None:
    assert len(records(rows([dump(entry(1))], b'{"parts": [9]}\n\x80\x02garbage'))) == 1
    assert len(records(rows([dump(entry(1))], b"no json at all"))) == 1


def test_two_recorders_are_one_dump_in_order_of_time() -> None:
    nccl = dump(entry(1, created_ns=10), entry(2, created_ns=30))
    gloo = dump(entry(1, created_ns=20, profiling_name="gloo:barrier", pg_id=1))
    assert [row["time_created_ns"] for row in records(rows([nccl, gloo]))] == [10, 20, 30]
    assert len(records(rows([nccl, nccl]))) == 2, "two names of one recorder"


def test_the_call_that_raised_is_open_again() -> None:
    batch = rows([dump(entry(1), entry(2))], raised_in="collective", why="RuntimeError: closed by peer")
    assert [row["retired"] for row in records(batch)] == [True, False]
    assert batch.tables["torch_nccl_dump"].to_pylist()[0]["source"] == "exit"


def test_a_signal_that_ends_a_healthy_job_accuses_nobody() -> None:
    for raised_in in (None, "collective"):
        batch = rows([dump(entry(1), entry(2, retired=False))], raised_in=raised_in, why="SIGTERM")
        assert batch.tables["torch_nccl_dump"].to_pylist()[0]["source"] == "process"
    batch = rows([dump(entry(1), entry(2))], raised_in="collective", why="SIGTERM")
    assert batch.tables["torch_nccl_dump"].to_pylist()[0]["source"] == "exit", "it was on its way out of a failed call"


def test_an_exception_elsewhere_opens_nothing() -> None:
    batch = rows([dump(entry(1), entry(2))], raised_in=None, why="ValueError: a bad batch")
    assert [row["retired"] for row in records(batch)] == [True, True]


def test_what_nccl_saw_finish_stays_finished() -> None:
    done = entry(2, state="completed", time_discovered_completed_ns=9)
    assert records(rows([dump(entry(1), done)], raised_in="collective", why="x"))[1]["retired"] is True


def test_without_a_recorder_the_notes_remain() -> None:
    batch = rows([], notes=[{"kind": "no_recorder", "message": "rank 1: set TORCH_FR_BUFFER_SIZE"}])
    (note,) = batch.tables["collection_note"].to_pylist()
    assert set(batch.tables) == {"collection_note"}
    assert (note["kind"], note["rank"]) == ("no_recorder", 1)


def test_bytes_that_are_no_dump_become_a_note() -> None:
    for body in (b"\x80\x02garbage", pickle.dumps({"other": 1})):
        (note,) = rows([body]).tables["collection_note"].to_pylist()
        assert note["severity"] == "error"
