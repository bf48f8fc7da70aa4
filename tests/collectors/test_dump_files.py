"""Files and folders: what is read, whose it is, and that everything else becomes a note."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.dumps import T0, entries, entry, kinds, notes, payload, rows, write_json, write_pickle
from whichrank.batch import Batch
from whichrank.collectors.flight_recorder_dump import rank_of, read, recognise


def ranks(batches: list[Batch]) -> list[int | None]:
    return [batch.rank for batch in batches if "torch_nccl_dump" in batch.tables]


def read_one(path: Path) -> list[Batch]:
    return list(read([path]))


# ---- names ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("comm_lib_trace_rank_3", 3),
        ("nccl_trace_rank_12", 12),
        ("nccl_trace_rank_node01_2", 2),
        ("nccl_trace_rank_container-node02_5", 5),
        ("_dump_12", 12),
        ("rank3.json", 3),
        ("nccl_trace_rank_5.pkl", 5),
        ("nccl_trace_rank_5.pkl.gz", 5),
        ("hccl_trace_rank_0", 0),
        ("7", 7),
        ("rank_007", 7),
        ("trace_rank_3_20261201093000", 3),  # a time stamp is no rank
        ("trace_rank_3.20261201", 3),
        ("nccl_trace_rank_", None),
        ("dump", None),
        ("rank_١", None),  # a digit, but none that torch writes
    ],
)
def test_the_rank_is_the_number_a_name_ends_in(name: str, rank: int | None) -> None:
    assert rank_of(Path("/somewhere/rank_99") / name) == rank


# ---- finding -------------------------------------------------------------------------------------------------------
def test_folders_below_are_searched_and_hidden_files_left_out(tmp_path: Path) -> None:
    for rank, folder in enumerate(("", "node01", "node01/gpu1", ".hidden", "node02")):
        write_pickle(tmp_path / folder / f"comm_lib_trace_rank_{rank}", payload())
    write_pickle(tmp_path / ".comm_lib_trace_rank_9", payload())
    assert ranks(read_one(tmp_path)) == [0, 1, 2, 4]
    assert kinds(read_one(tmp_path)) == []


def test_files_are_read_by_rank_and_a_hidden_one_where_it_is_named(tmp_path: Path) -> None:
    paths = [write_pickle(tmp_path / f".rank_{rank}", payload()) for rank in (10, 2, 1)]
    assert ranks(list(read(paths))) == [1, 2, 10]


def test_links_are_followed_once(tmp_path: Path) -> None:
    write_pickle(tmp_path / "a/rank_1", payload())
    (tmp_path / "a/loop").symlink_to(tmp_path / "a")
    (tmp_path / "a/same_rank_1").symlink_to(tmp_path / "a/rank_1")
    (tmp_path / "self").symlink_to("self")
    batches = list(read([tmp_path, tmp_path / "a", tmp_path / "a/rank_1"]))
    assert ranks(batches) == [1]
    assert kinds(batches) == ["unreadable"]


def test_a_dead_link_of_a_rank_is_an_error(tmp_path: Path) -> None:
    write_pickle(tmp_path / "rank_1", payload())
    (tmp_path / "rank_2").symlink_to("gone")
    (note,) = notes(read_one(tmp_path))
    assert (note["kind"], note["severity"], note["rank"]) == ("unreadable", "error", 2)


def test_pipes_and_sockets_are_not_opened(tmp_path: Path) -> None:
    """The recorder's own pipe (`<stem><rank>.pipe`) would block for ever."""
    os.mkfifo(tmp_path / "nccl_trace_rank_0.pipe")
    assert read_one(tmp_path) == []


def test_deep_folders_are_no_problem(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(300):
        folder /= "d"
    write_pickle(folder / "rank_1", payload())
    assert ranks(read_one(tmp_path)) == [1]


def test_a_file_name_that_is_no_text(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9_rank_1"))
    write_pickle(path, payload())
    (batch,) = read_one(tmp_path)
    assert rows(batch, "torch_nccl_dump")[0]["path"].endswith("caf\ufffd_rank_1")


def test_nothing_is_nothing(tmp_path: Path) -> None:
    assert read_one(tmp_path) == []
    (note,) = notes(read_one(tmp_path / "missing"))
    assert note["kind"] == "unreadable"


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_or_refuse(path: Path) -> io.FileIO:
        if path.name == "rank_1":  # not with chmod: nothing is forbidden to root
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return io.FileIO(path)

    for rank in (0, 1):
        write_pickle(tmp_path / f"rank_{rank}", payload([entry(record_id=rank)]))
    monkeypatch.setattr("whichrank.collectors.flight_recorder_files._opened", open_or_refuse)
    batches = read_one(tmp_path)
    assert ranks(batches) == [0]
    (note,) = notes(batches)
    assert (note["kind"], note["severity"], note["rank"]) == ("unreadable", "error", 1)
    assert "Permission denied" in note["message"]


def test_a_file_that_goes_away_meanwhile(tmp_path: Path) -> None:
    for rank in (1, 2):
        write_pickle(tmp_path / f"rank_{rank}", payload([entry(record_id=rank)]))
    reading = read([tmp_path])  # it has found the files
    (tmp_path / "rank_2").unlink()
    batches = list(reading)
    assert ranks(batches[:1]) == [1]
    (note,) = notes(batches)
    assert (note["kind"], note["severity"], note["rank"]) == ("unreadable", "error", 2)


# ---- formats -------------------------------------------------------------------------------------------------------
def test_pickle_json_and_gzip_give_the_same_rows(tmp_path: Path) -> None:
    dump = payload(entries(3, frames=...))
    write_pickle(tmp_path / "rank_0", dump)
    write_json(tmp_path / "rank_1.json", dump)
    (tmp_path / "rank_2.json").write_bytes(b"\xef\xbb\xbf \n" + json.dumps(dump, indent=1).encode())
    (tmp_path / "rank_3.gz").write_bytes(gzip.compress(pickle.dumps(dump, protocol=2)))
    (tmp_path / "rank_4").write_bytes(gzip.compress(json.dumps(dump).encode()))
    write_pickle(tmp_path / "rank_5", dump).write_bytes(pickle.dumps(dump, protocol=5))
    batches = read_one(tmp_path)
    assert ranks(batches) == [0, 1, 2, 3, 4, 5]
    assert kinds(batches) == []
    records = [[row | {"rank": 0} for row in rows(batch, "torch_nccl_flight_record")] for batch in batches]
    assert all(each == records[0] for each in records)
    assert all(recognise(path) for path in tmp_path.iterdir())


@pytest.mark.parametrize("dump", [[entry(seq_id=1)], payload(entries=...), payload([])])
def test_a_dump_is_recognised_by_its_content(tmp_path: Path, dump: Any) -> None:
    assert recognise(write_pickle(tmp_path / "any name", dump))
    assert recognise(write_json(tmp_path / "another", dump))


FOREIGN = {
    "notes.md": b"# notes",
    "rank_3.log": b"[rank3]: Watchdog caught collective operation timeout",
    "trace_0.json": b'{"schemaVersion": 1, "distributedInfo": {"pg_config": []}, "traceEvents": []}',
    "ras.json": b'{"nccl_version": "2.28.3", "communicators": []}',
    "list_4.json": b"[1, 2, 3]",
    "rank_5": b"\x7fELF and so on",
    "tree_6.pkl": pickle.dumps({"a": 1}),
    "junk_7.gz": b"\x1f\x8b\x08 this is no gzip file",
    "zip_8.pt": b"PK\x03\x04 a checkpoint",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_is_nobodys_and_no_harm(tmp_path: Path, name: str) -> None:
    write_pickle(tmp_path / "rank_0", payload())
    (tmp_path / name).write_bytes(FOREIGN[name])
    batches = read_one(tmp_path)
    assert ranks(batches) == [0]
    (note,) = notes(batches)
    assert (note["kind"], note["severity"], note["rank"]) == ("foreign", "info", None)
    assert note["source"].endswith(name)
    assert not recognise(tmp_path / name)


def test_many_foreign_files_are_counted(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"image_{number}.png").write_bytes(b"PNG")
    found = notes(read_one(tmp_path))
    assert len(found) == 21
    assert sum(note["count"] for note in found) == 50


# ---- damage --------------------------------------------------------------------------------------------------------
WHOLE = pickle.dumps(payload(entries(50)), protocol=2)
TEXT = json.dumps(payload(entries(50, frames=...))).encode()
ZIPPED = gzip.compress(WHOLE)
DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "empty gzip": (gzip.compress(b""), "empty"),
    "pickle cut in the middle": (WHOLE[: len(WHOLE) // 2], "truncated"),
    "pickle without its last byte": (WHOLE[:-1], "truncated"),
    "pickle cut in its head": (WHOLE[:5], "truncated"),
    "json cut in the middle": (TEXT[: len(TEXT) // 2], "truncated"),
    "json cut in a text": (TEXT[: TEXT.rindex(b'"thread_n') + 3], "truncated"),
    "json without its last byte": (TEXT[:-1], "truncated"),
    "gzip cut in the middle": (ZIPPED[: len(ZIPPED) // 2], "truncated"),
    "gzip with a bad sum": (ZIPPED[:-8] + bytes(8), "malformed"),
    "json with a hole": (TEXT[:300] + b"\x00\x00" + TEXT[302:], "malformed"),
    "json that is no UTF-8": (TEXT.replace(b"python3", b"pyth\xff\xfe3"), "malformed"),
    "pickle with a bad opcode": (WHOLE[:400] + b"\xff" * 20 + WHOLE[420:], "malformed"),
    "json nested too deeply": (b'{"pg_config": ' + b"[" * 200_000, "malformed"),
    "json with a number of 5,000 digits": (b'{"pg_config": ' + b"9" * 5_000 + b"}", "malformed"),
    "pickle that wants no end of memory": (b"\x80\x02X\x09\x00\x00\x00pg_config0Nr\xff\xff\xff\x7f.", "malformed"),
    "pickle that claims a huge text": (b"\x80\x04\x8c\x09pg_config\x8d" + b"\xff" * 7 + b"\x7fabc.", "malformed"),
    "pickle that claims 4 GiB": (b"\x80\x02X\x09\x00\x00\x00pg_configX\xff\xff\xff\xffabc", "truncated"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_file_is_noted_and_the_others_are_read(tmp_path: Path, what: str) -> None:
    content, kind = DAMAGED[what]
    write_pickle(tmp_path / "rank_0", payload())
    (tmp_path / "rank_1").write_bytes(content)
    batches = read_one(tmp_path)
    assert ranks(batches) == [0]
    (note,) = notes(batches)
    assert (note["kind"], note["severity"], note["rank"]) == (kind, "error", 1)
    assert note["source"] == str(tmp_path / "rank_1")
    assert note["source"] in note["message"]
    assert "\n" not in note["message"]


def test_numbers_that_json_has_not_are_noted(tmp_path: Path) -> None:
    text = json.dumps(payload([entry(frames=..., duration_ms=float("nan"))]))
    (tmp_path / "rank_0.json").write_text(text)
    batches = read_one(tmp_path)
    assert (ranks(batches), kinds(batches)) == ([0], ["malformed_entry"])


def test_an_empty_log_is_no_dump_of_a_rank(tmp_path: Path) -> None:
    (tmp_path / "worker_3.log").touch()
    (note,) = notes(read_one(tmp_path))
    assert (note["kind"], note["severity"], note["rank"]) == ("empty", "info", None)


def test_a_bomb_in_gzip_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whichrank.collectors.flight_recorder_files.MAX_UNPACKED", 1 << 20)
    bomb = b"\x80\x04\x8c\x09pg_config\x8e" + (1 << 24).to_bytes(8, "little") + bytes(1 << 24) + b"."
    (tmp_path / "rank_0").write_bytes(gzip.compress(bomb))
    (note,) = notes(read_one(tmp_path))
    assert (note["kind"], note["rank"]) == ("too_large", 0)


def test_a_bug_of_ours_costs_one_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Iterator[None]:
        raise ZeroDivisionError("oh")

    write_pickle(tmp_path / "rank_0", payload())
    monkeypatch.setattr("whichrank.collectors.flight_recorder_rank.to_batch", fail)
    (note,) = notes(read_one(tmp_path))
    assert (note["kind"], note["severity"], note["rank"]) == ("malformed", "error", 0)
    assert "ZeroDivisionError" in note["message"]


# ---- whose it is ---------------------------------------------------------------------------------------------------
def test_a_dump_without_a_rank_is_named(tmp_path: Path) -> None:
    path = write_pickle(tmp_path / "dump", payload())
    (batch,) = read_one(path)
    (note,) = notes(batch)
    assert (batch.rank, note["kind"], note["severity"], note["rank"]) == (None, "no_rank", "error", None)


def test_of_two_dumps_of_a_rank_the_newest_entries_win(tmp_path: Path) -> None:
    write_pickle(tmp_path / "a/rank_1", payload([entry(time_created_ns=T0 + 9, op_id=2)]))
    write_pickle(tmp_path / "b/rank_1", payload([entry(time_created_ns=T0 + 1, op_id=1)]))
    write_pickle(tmp_path / "c/rank_1", payload([]))
    (batch,) = read_one(tmp_path)
    assert [row["op_id"] for row in rows(batch, "torch_nccl_flight_record")] == [2]
    found = notes(batch)
    assert [(n["kind"], n["severity"], n["rank"]) for n in found] == [("duplicate_rank", "warning", 1)] * 2
    assert all(str(tmp_path / "a/rank_1") in note["message"] for note in found)
    assert {note["source"] for note in found} == {str(tmp_path / "b/rank_1"), str(tmp_path / "c/rank_1")}


def test_a_copy_of_a_dump_is_only_mentioned(tmp_path: Path) -> None:
    for folder in "ab":
        write_pickle(tmp_path / folder / "rank_1", payload())
    (note,) = notes(read_one(tmp_path))
    assert (note["kind"], note["severity"], note["rank"]) == ("duplicate_rank", "info", 1)


def test_a_damaged_file_beside_a_good_one_of_the_rank_is_a_warning(tmp_path: Path) -> None:
    write_pickle(tmp_path / "a/rank_1", payload())
    (tmp_path / "rank_1").write_bytes(WHOLE[:300])
    batches = read_one(tmp_path)
    assert ranks(batches) == [1]
    (note,) = notes(batches)
    assert (note["kind"], note["severity"]) == ("truncated", "warning")
