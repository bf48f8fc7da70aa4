"""Traces of the example profiler plugin -> rows: the real excerpt, cut off at any place, and hostile."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.test_nccl_ras import shared
from tests.jobs.ring import Ring
from whichrank.collectors import nccl_profiler
from whichrank.tables import NOTE, PROXY_OPS

EXCERPT = "nccl_samples/example_profiler_allreduce_excerpt.jsonish"


def rows(*paths: Path) -> tuple[list[dict[str, Any]], set[str]]:
    """Rows, and the kinds of notes."""
    found: list[dict[str, Any]] = []
    kinds: set[str] = set()
    for batch in nccl_profiler.read(paths):
        found += batch.tables[PROXY_OPS.name].to_pylist() if PROXY_OPS.name in batch.tables else []
        kinds |= set(batch.tables[NOTE.name].column("kind").to_pylist() if NOTE.name in batch.tables else [])
    return found, kinds


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Ring(ranks=3, seqs=2).write(tmp_path_factory.mktemp("traces"))
    return sorted(folder.iterdir())[0]


def test_every_whole_event_of_the_excerpt() -> None:
    path = shared(EXCERPT)
    text = path.read_text()
    lines = [line for line in text.splitlines() if line.lstrip().startswith(('{"name"', "{“name"))]
    events = list(nccl_profiler.events(text))
    assert len(events) == len(lines) == 44
    assert [event.cat for event in events].count("NET") == 28
    assert sum(event.after_gap for event in events) == 1
    assert nccl_profiler.recognises(path, text.encode()[:4096], False)


def test_the_operations_of_the_excerpt() -> None:
    (received, sent), kinds = rows(shared(EXCERPT))
    assert kinds == {"trace_gap"}
    assert {received["comm_hash"], sent["comm_hash"]} == {f"0x{1493613951195738943:016x}"}
    assert (received["rank"], received["peer"], received["seq"], received["coll_func"]) == (0, 1, 0, "AllReduce")
    assert (received["is_send"], received["n_steps"], received["steps_seen"], received["complete"]) == (
        False,
        4,
        4,
        True,
    )
    # the line with curly quotes is the first of these waits
    waits = 119807.691986 - 119707.677979, 119844.401001 - 119733.647980, 120038.847992 - 119753.023987
    assert received["recv_wait_ns"] == pytest.approx((sum(waits) + 120062.944977 - 119772.510986) * 1000, abs=4)
    assert received["send_wait_ns"] is None
    assert (sent["is_send"], sent["steps_seen"], sent["complete"], sent["trans_bytes"]) == (True, 1, False, 524288)
    assert sent["send_gpu_wait_ns"] == pytest.approx((119808.636993 - 119710.632996) * 1000, abs=1)


def test_the_builder_writes_what_the_reader_expects(trace: Path) -> None:
    found, kinds = rows(trace)
    assert kinds == set()
    assert [(row["seq"], row["is_send"], row["peer"]) for row in found] == [
        (0, False, 2),
        (0, True, 1),
        (1, False, 2),
        (1, True, 1),
    ]
    assert all(row["complete"] and row["steps_seen"] == row["n_steps"] == 4 for row in found)


def test_cut_off_keeps_what_is_whole(trace: Path, tmp_path: Path) -> None:
    text = trace.read_text()
    whole, _ = rows(trace)
    path = tmp_path / trace.name
    for cut in random.Random(1).sample(range(3, len(text) - 3), 60):
        path.write_text(text[:cut])
        found, kinds = rows(path)
        assert kinds == {"cut_off"}
        complete = [row for row in found if row["complete"]]
        keys = ("seq", "is_send", "recv_wait_ns", "send_gpu_wait_ns", "send_wait_ns")
        assert [[row[k] for k in keys] for row in complete] == [
            [row[k] for k in keys] for row in whole[: len(complete)]
        ]


def test_after_a_gap_the_collective_is_unknown(trace: Path, tmp_path: Path) -> None:
    lines = trace.read_text().splitlines(keepends=True)
    begins = next(n for n, line in enumerate(lines) if '"SeqNum": 1,' in line)
    path = tmp_path / trace.name
    path.write_text("".join([*lines[:begins], "### lost\n", *lines[begins + 1 :]]))
    found, kinds = rows(path)
    assert kinds == {"trace_gap"}
    assert [row["seq"] for row in found] == [0, 0, None, None]
    assert {row["rank"] for row in found} == {0}, "the file is that of one rank"


def test_without_a_collective_the_file_name_tells_whose_it_is(trace: Path, tmp_path: Path) -> None:
    lines = [line for line in trace.read_text().splitlines(keepends=True) if '"COLL"' not in line]
    path = tmp_path / "dump_17_5.json"
    path.write_text("".join(lines))
    found, _ = rows(path)
    assert {(row["comm_hash"], row["rank"], row["seq"]) for row in found} == {("0x0000000000000011", 5, None)}


def test_packed_and_printed_otherwise(trace: Path, tmp_path: Path) -> None:
    text = trace.read_text()
    packed, one_line, spread = (tmp_path / name for name in ("a_1_0.json.gz", "b_1_0.json", "c_1_0.json"))
    packed.write_bytes(gzip.compress(text.encode()))
    one_line.write_text(text.replace("\n", " "))
    spread.write_text(text.replace(", ", ",\n    ").replace("{", "{\n  "))
    assert (
        len({str([(r["seq"], r["recv_wait_ns"]) for r in rows(path)[0]]) for path in (trace, packed, one_line, spread)})
        == 1
    )


def test_point_to_point_has_no_number(trace: Path, tmp_path: Path) -> None:
    text = (
        trace.read_text().replace('"AllReduce", "cat": "COLL"', '"Send", "cat": "P2P"').replace('"SeqNum": ', '"X": ')
    )
    path = tmp_path / trace.name
    path.write_text(text)
    found, _ = rows(path)
    assert {(row["coll_func"], row["seq"]) for row in found} == {("Send", None)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[\n{}]",
        "[" * 100_000,
        '{"name":"' * 50_000,
        '{"name": "x", "cat": "PROXY", "ph": "b", "id": 99999999999999999999, "pid": 1, "tid": 1, "ts": 1.0},',
        '{"name": "ProgressRecv", "cat": "PROXY", "ph": "b", "id": 1, "pid": 1, "tid": 1, "ts": 1.0, "args": '
        '{"Channel": 99999999999999999999, "Peer": -1, "Steps": 0x1, "transSize": 1e9}},',
        '{"name": "RecvWait", "cat": "NET", "ph": "e", "id": 1, "pid": 1, "tid": 1, "ts": -5.0},',
        '{"name": "A", "cat": "COLL", "ph": "b", "id": 1, "pid": 1, "tid": 1, "ts": 1.0, "args": {"CommHash": zz}},',
        "\x00\ufffd\x1b[31m" * 1000,
    ],
)
def test_hostile(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    for row in rows(path)[0]:
        assert (row["channel_id"], row["peer"], row["n_steps"], row["trans_bytes"]) == (None, None, None, None)


def test_what_is_not_recognised() -> None:
    for head in (b'[{"name": "aten::add", "cat": "cpu_op", "ph": "X"}]', b'{"entries": []}', b"", b"NCCL INFO"):
        assert not nccl_profiler.recognises(Path("x"), head, True)
