"""Entries: NULL for unknown, p2p by name, and one bad field costs that field only."""

from __future__ import annotations

from typing import Any

import pytest

from tests.collectors.dumps import T0, convert, entries, entry, frame, kinds, notes, payload, records, rows
from whichrank.collectors import flight_recorder_entries
from whichrank.tables import FLIGHT_RECORD, arrow_schema


def one(**changes: Any) -> dict[str, Any]:
    (row,) = records(payload([entry(**changes)]))
    return row


def test_an_entry_becomes_a_row() -> None:
    row = one(duration_ms=1.5)
    assert row["duration_ns"] == 1_500_000
    assert row["top_frame"] == "all_reduce (/v/site-packages/torch/distributed/distributed_c10d.py:3245)"
    assert row["user_frame"] == "train.py:88 in step"
    assert row["output_dtypes"] == ["Float"]
    assert (row["retired"], row["is_p2p"], row["timeout_ms"], row["state"]) == (True, False, 600_000, "completed")
    assert (row["entry_index"], row["source"], row["only_active"], row["world_size"]) == (0, "file", None, None)


def test_the_schema_is_that_of_the_tables() -> None:
    batch = convert(payload(entries(3)))
    assert batch.tables[FLIGHT_RECORD.name].schema.equals(arrow_schema(FLIGHT_RECORD))
    batch.tables[FLIGHT_RECORD.name].validate(full=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("record_id", -1),
        ("collective_seq_id", -1),
        ("timeout_ms", -1),
        ("time_created_ns", 0),
        ("time_discovered_completed_ns", 0),
        ("time_discovered_started_ns", -1),
        ("state", ""),
        ("thread_name", ""),
    ],
)
def test_unknown_is_null(field: str, value: object) -> None:
    assert one(**{field: value})[field] is None


def test_an_empty_name_of_a_group_is_null() -> None:
    row = one(process_group=("", ""))
    assert (row["pg_name"], row["pg_desc"]) == (None, None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nccl:send 0->3", True),
        ("nccl:recv 3<-0", True),
        ("nccl2:recv 1<-?", True),
        ("nccl:send", True),
        ("recv", True),
        ("nccl:all_reduce", False),
        ("nccl:sendrecv_other", False),
        ("nccl:recv_any", False),
        ("nccl:coalesced", False),
        (None, None),
    ],
)
def test_p2p_shows_in_the_name_where_it_is_not_marked(name: str | None, expected: bool | None) -> None:
    assert one(is_p2p=..., profiling_name=name)["is_p2p"] is expected


def test_a_marked_entry_is_believed() -> None:
    assert one(is_p2p=False, profiling_name="nccl:send 0->1")["is_p2p"] is False
    assert one(is_p2p=True, profiling_name="nccl:all_reduce")["is_p2p"] is True


def test_unknown_keys_are_ignored() -> None:
    assert kinds(convert(payload([entry(is_new_in_2_16={"a": [1]})]))) == []


@pytest.mark.parametrize("field", sorted(set(entry()) - {"profiling_name", "pg_id"}))
def test_any_key_may_be_missing(field: str) -> None:
    for dump in (payload([entry(**{field: ...})]), payload([entry(), entry(**{field: ...}), entry()])):
        batch = convert(dump)
        assert kinds(batch) == []
        assert len(rows(batch, "torch_nccl_flight_record")) == len(dump["entries"])


def test_missing_keys_of_one_entry_do_not_move_the_others() -> None:
    calls = entries(3)
    del calls[1]["frames"], calls[1]["state"], calls[1]["input_sizes"]
    first, second, third = records(payload(calls))
    assert (second["stack_id"], second["state"], second["input_sizes"]) == (None, None, None)
    assert first["stack_id"] == third["stack_id"] is not None


BAD: dict[str, list[Any]] = {
    "record_id": ["7", 7.5, 1 << 70, [1], -(1 << 70), b"7"],
    "collective_seq_id": ["1", {}, 1 << 63],
    "time_created_ns": ["now", 1 << 64],
    "pg_id": ["0", 1 << 63],
    "state": [3.5, ["completed"], "x" * 5_000],
    "thread_name": [0.5, {}],
    "retired": [3, "yes"],
    "is_p2p": [0.5, "no"],
    "duration_ms": ["1", float("nan"), float("inf"), 1e300],
    "process_group": [("only",), (1.5, "x"), {"a": 1}, ("a", "b", "c"), 7.5, (["a"], "b")],
    "profiling_name": [1.5, ["x"]],
    "input_sizes": [[4], "44", [["4"]], [[4.5]], [[1 << 70]], {"a": 1}, [[[1]]], 5],
    "output_dtypes": [[1.5], "Float", [["Float"]], [None]],
    "frames": [[1], "f", [{"name": "x"}], [frame(line="88")], [frame(line=1 << 70)], [frame(name=None)], 5],  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in BAD.items() for v in values])
def test_a_bad_field_is_null_and_counted_and_the_rest_is_kept(field: str, value: object) -> None:
    calls = entries(3)
    calls[1][field] = value
    batch = convert(payload(calls))
    (note,) = notes(batch)
    assert (note["kind"], note["count"], note["severity"]) == ("malformed_entry", 1, "warning")
    assert field in note["message"]
    before, bad, after = records(payload(calls))
    assert (before["record_id"], after["record_id"], bad["entry_index"]) == (0, 2, 1)
    column = {"process_group": "pg_name", "frames": "stack_id", "duration_ms": "duration_ns"}.get(field, field)
    assert bad.get(column) is (False if field == "is_p2p" else None)  # its name tells as well
    assert before[column] is not None or field == "duration_ms"


def test_what_other_programs_make_of_numbers_is_understood() -> None:
    row = one(thread_id=140335636581248, collective_seq_id=7.0, input_sizes=[(4, 2)], process_group=["0", "default_pg"])
    assert (row["thread_id"], row["collective_seq_id"], row["input_sizes"]) == ("140335636581248", 7, [[4, 2]])
    assert one(thread_name=b"python3", profiling_name=b"nccl:all_reduce")["profiling_name"] == "nccl:all_reduce"
    assert one(process_group="0")["pg_name"] == "0"
    assert one(retired=1, is_p2p=0)["retired"] is True


def test_a_truth_value_that_stands_for_a_number_is_that_number_everywhere() -> None:
    dump = payload([entry(pg_id=True)], pg_status={})
    assert [row["pg_id"] for row in records(dump)] == [1]
    assert 1 in [row["pg_id"] for row in rows(convert(dump), "torch_nccl_pg_status")]


@pytest.mark.parametrize("junk", [None, 3, "entry", [], [1]])
def test_what_is_no_entry_leaves_a_gap_in_the_index(junk: object) -> None:
    calls = entries(2)
    batch = convert(payload([calls[0], junk, calls[1]]))  # type: ignore[list-item]
    assert [row["entry_index"] for row in rows(batch, "torch_nccl_flight_record")] == [0, 2]
    (note,) = notes(batch)
    assert (note["kind"], note["severity"], note["count"]) == ("malformed_entry", "error", 1)
    assert rows(batch, "torch_nccl_dump")[0]["entries"] == 3


def test_entries_that_are_no_list_are_noted() -> None:
    batch = convert(payload(entries={"a": 1}))
    assert kinds(batch) == ["malformed_entry"]
    assert rows(batch, "torch_nccl_dump")[0]["entries"] == 0


def test_half_a_surrogate_pair_is_replaced() -> None:
    call = entry(
        thread_name="a\ud800", process_group=("g\udc80", "d"), profiling_name="n:\ud801", frames=[frame("\ud802f")]
    )
    (row,) = records(payload([call]))
    assert (row["thread_name"], row["pg_name"], row["profiling_name"]) == ("a?", "g?", "n:?")
    assert row["frames"][0]["name"] == "?f"


def test_chunks_are_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = entries(10)
    calls[3]["state"] = 1.5
    calls[9]["frames"] = [frame("other")]
    whole = records(payload(calls))
    monkeypatch.setattr(flight_recorder_entries, "CHUNK", 4)
    flight_recorder_entries._first_positions.cache_clear()
    try:
        assert records(payload(calls)) == whole
    finally:
        flight_recorder_entries._first_positions.cache_clear()
    assert [row["entry_index"] for row in whole] == list(range(10))


def test_what_a_few_bytes_repeat_costs_no_more() -> None:
    """A pickle may say `[x] * 10**6` in a few bytes, and so fill any memory that writes it out."""
    many = [[1] * 1_000] * 1_000
    long = "x" * 1_000_000
    calls = [entry(input_sizes=many, thread_name=long, frames=[frame()] * 20_000)] * 1_000
    batch = convert(payload(calls))
    (row, *_) = rows(batch, "torch_nccl_flight_record")
    assert (row["thread_name"], row["stack_id"]) == (None, None)
    assert batch.tables["torch_nccl_flight_record"].nbytes < 1_000_000
    assert notes(batch)[0]["count"] == 1_000


def test_the_newest_entry_says_what_a_pg_id_is_called() -> None:
    calls = [entry(process_group=("old", "a"), time_created_ns=T0), entry(process_group=("new", "b"))]
    (group, *_) = rows(convert(payload(calls)), "torch_nccl_pg_status")
    assert (group["pg_id"], group["pg_name"], group["pg_desc"]) == (0, "new", "b")
