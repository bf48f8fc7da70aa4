"""Every version of the Flight Recorder, and its relatives on other devices, gives the same rows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.collectors.dumps import T0, convert, entry, groups, kinds, notes, payload, records, rows
from whichrank.collectors.flight_recorder import NotFlightRecorderError, is_payload

NEWER = {"thread_id": ..., "thread_name": ...}  # since 2.9
NEWEST = NEWER | {"timeout_ms": ...}  # since 2.4
TORCH_2_4 = NEWEST | {"collective_seq_id": 7, "process_group": ("0", "default_pg")}
TORCH_2_3 = NEWEST | dict.fromkeys(("collective_seq_id", "p2p_seq_id", "is_p2p", "process_group")) | {
    "collective_seq_id": ..., "p2p_seq_id": ..., "is_p2p": ..., "process_group": ..., "seq_id": 7,
    "input_dtypes": ..., "output_dtypes": ...,
}  # fmt: skip
TORCH_2_2 = TORCH_2_3 | {
    "record_id": ..., "op_id": ..., "time_created_ns": ..., "time_created_us": T0 // 1_000,
    "time_discovered_started_ns": ..., "time_discovered_completed_ns": ...,
}  # fmt: skip


def test_torch_2_2_is_a_bare_list_in_microseconds() -> None:
    batch = convert([entry(**TORCH_2_2)])
    (row,) = records([entry(**TORCH_2_2)])
    assert row["fr_version"] == "2.2-list"
    assert (row["collective_seq_id"], row["time_created_ns"]) == (7, T0)
    assert (row["record_id"], row["op_id"], row["p2p_seq_id"]) == (None, None, None)
    assert (row["pg_id"], row["pg_name"], row["is_p2p"], row["thread_id"]) == (0, None, False, None)
    assert (row["input_sizes"], row["input_dtypes"]) == ([[4, 2]], None)
    assert row["user_frame"] == "train.py:88 in step"
    (group,) = rows(batch, "torch_nccl_pg_status")
    assert (group["pg_id"], group["pg_name"], group["ranks_id"], group["ranks_recorded"]) == (0, None, None, None)
    assert kinds(batch) == []


def test_torch_2_3_has_members_by_pg_id() -> None:
    dump = {"version": "1.4", "pg_config": {0: [0, 1, 2, 3], 4: [0, 2]}, "entries": [entry(**TORCH_2_3)]}
    (row,) = records(dump)
    assert (row["fr_version"], row["collective_seq_id"], row["record_id"]) == ("1.4", 7, 0)
    found = {g["pg_id"]: (g["pg_name"], g["ranks"], g["ranks_recorded"]) for g in groups(dump)}
    assert found == {0: (None, [0, 1, 2, 3], True), 4: (None, [0, 2], True)}


def test_torch_2_4_has_ranks_as_a_text() -> None:
    dump = payload([entry(**TORCH_2_4)], version="2.1", pg_status=..., comm_lib_version=...)
    (row,) = records(dump)
    assert (row["fr_version"], row["collective_seq_id"], row["timeout_ms"]) == ("2.1", 7, None)
    (group,) = groups(dump)
    assert (group["pg_name"], group["ranks"], group["last_enqueued_collective"]) == ("0", [0, 1, 2, 3], None)


@pytest.mark.parametrize(
    ("version", "key", "library"),
    [("2.4", None, None), ("2.9", "nccl_version", "2.21.5"), ("2.10", "comm_lib_version", "2.27.5")],
)
def test_the_library_version_has_had_two_names(version: str, key: str | None, library: str | None) -> None:
    changes: dict[str, Any] = {"version": version, "comm_lib_version": ...} | ({key: library} if key else {})
    batch = convert(payload(**changes))
    (dump,) = rows(batch, "torch_nccl_dump")
    assert (dump["fr_version"], dump["comm_lib_version"], dump["entries"]) == (version, library, 1)
    assert kinds(batch) == []


def test_gloo_has_no_library_version() -> None:
    (dump,) = rows(convert(payload(comm_lib_version="")), "torch_nccl_dump")
    assert dump["comm_lib_version"] is None


@pytest.mark.parametrize("name", ["hccl", "mccl", "xccl", "bccl", "nccl2", "gloo", "ucc", "weird:backend"])
def test_any_library_is_read(name: str) -> None:
    dump = payload([entry(profiling_name=f"{name}:all_reduce")]) | {f"{name}_comm_state": {"x": {"y": "1"}}}
    (row,) = records(dump)
    assert row["profiling_name"] == f"{name}:all_reduce"
    assert kinds(convert(dump)) == []


def test_torchcomms_has_no_frames_and_another_spelling_of_ranks() -> None:
    call = entry(frames=..., profiling_name="nccl:send", process_group=("main", "ncclx"), is_p2p=False)
    dump = payload([call], pg_config={"main": {"name": "main", "desc": "ncclx", "ranks": "[0,1]"}}, pg_status={})
    (row,) = records(dump)
    assert (row["stack_id"], row["pg_desc"]) == (None, "ncclx")
    assert row["is_p2p"] is False  # what the dump says; that torchcomms never marks p2p is for the statements to know
    assert groups(dump)[0]["ranks"] == [0, 1]


def test_json_differs_in_its_zeros_texts_and_lists() -> None:
    call = entry(
        frames=..., process_group=["0", "default_pg"], time_discovered_started_ns=0, time_discovered_completed_ns=0
    )
    counters = {"last_enqueued_collective": "5", "last_started_collective": "-1", "last_completed_collective": "4"}
    dump = payload([call], pg_status={"0": counters}, nccl_comm_state=None)
    (row,) = records(dump)
    assert (row["time_discovered_started_ns"], row["time_discovered_completed_ns"]) == (None, None)
    assert (row["pg_name"], row["pg_desc"], row["stack_id"]) == ("0", "default_pg", None)
    (group,) = groups(dump)
    assert [group[f"last_{what}_collective"] for what in ("enqueued", "started", "completed")] == [5, None, 4]


def test_json_without_entries_is_a_dump_that_was_seen() -> None:
    batch = convert(payload(entries=...))
    assert rows(batch, "torch_nccl_flight_record") == []
    (dump,) = rows(batch, "torch_nccl_dump")
    assert dump["entries"] == 0
    assert [g["pg_id"] for g in groups(payload(entries=...))] == [None, 0] or groups(payload(entries=...))
    assert kinds(batch) == []


@pytest.mark.parametrize("version", ["2.11", "3.0", "2", "two", "", 2.1, None])
def test_an_odd_version_is_noted_and_read(version: object) -> None:
    batch = convert(payload(version=version))
    (note,) = notes(batch)
    assert (note["kind"], note["severity"], note["rank"], note["source"]) == (
        "unknown_version", "warning", 3, "dumps/rank_3",
    )  # fmt: skip
    (row,) = rows(batch, "torch_nccl_flight_record")
    assert row["fr_version"] == (version if isinstance(version, str) and version else None)


def test_2_10_is_newer_than_2_9_and_known() -> None:
    assert kinds(convert(payload(version="2.9"))) == kinds(convert(payload(version="2.10"))) == []


def test_who_and_when_stand_in_every_row() -> None:
    batch = convert(payload())
    for name in ("torch_nccl_flight_record", "torch_nccl_pg_status", "torch_nccl_dump"):
        for row in rows(batch, name):
            assert (row["snapshot_id"], row["rank"], row["host"], row["snapshot_ns"]) == ("snap", 3, None, None)
    (dump,) = rows(batch, "torch_nccl_dump")
    assert (dump["path"], dump["bytes"], dump["source"]) == ("dumps/rank_3", 10, "file")


@pytest.mark.parametrize(
    "other", [None, 3, "x", {}, {"version": "2.10"}, {"entries": [1]}, [1], [{}], [{"pg_id": 1}], {"traceEvents": []}]
)
def test_something_else_is_refused(other: object) -> None:
    assert not is_payload(other)
    with pytest.raises(NotFlightRecorderError):
        convert(other)


def test_an_empty_list_is_a_dump_of_torch_2_2() -> None:
    assert rows(convert([]), "torch_nccl_dump")[0]["fr_version"] == "2.2-list"
