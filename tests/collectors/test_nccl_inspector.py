"""Records of NCCL Inspector -> rows: the real ones, all versions, proxy traces, cut off, and hostile."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.test_nccl_ras import shared
from tests.jobs.inspector import Perf, proxy_records
from whichrank.collectors import nccl_inspector
from whichrank.tables import COLL_PERF, NOTE, PROXY_OPS

WAITS = {
    "send_gpu_wait": 30,
    "send_peer_wait": 5,
    "send_wait": 7,
    "recv_wait": 40,
    "recv_flush_wait": 1,
    "recv_gpu_wait": 2,
}


def rows(*paths: Path, table: str = COLL_PERF.name) -> tuple[list[dict[str, Any]], set[str]]:
    """Rows, and the kinds of notes."""
    found: list[dict[str, Any]] = []
    kinds: set[str] = set()
    for batch in nccl_inspector.read(paths):
        found += batch.tables[table].to_pylist() if table in batch.tables else []
        kinds |= set(batch.tables[NOTE.name].column("kind").to_pylist() if NOTE.name in batch.tables else [])
    return found, kinds


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("inspector_exporter_readme_0", ("ReduceScatter", 129, 31, 32, 65536, 110_000, "kernel_gpu")),
        ("inspector_readme_0", ("AllReduce", 1407, 2, 8, 17179869184, 61_974_000, None)),
        ("inspector_readme_1", ("ReduceScatter", 1231, 4, 8, 2147483648, 41_057_000, "kernel_gpu")),
    ],
)
@pytest.mark.parametrize("as_line", [False, True])
def test_the_real_records(name: str, expected: tuple[Any, ...], as_line: bool, tmp_path: Path) -> None:
    path = shared(f"nccl_samples/{name}.json")
    if as_line:
        text = json.dumps(json.loads(path.read_text()))
        path = tmp_path / "x.log"
        path.write_text(f"{text}\n{text}\n")
    assert nccl_inspector.recognises(path, path.read_bytes(), False)
    found, kinds = rows(path)
    assert kinds == set()
    assert len(found) == 1 + as_line
    keys = ("coll_func", "seq", "rank", "n_ranks", "msg_size_bytes", "exec_time_ns", "timing_source")
    assert tuple(found[0][key] for key in keys) == expected
    assert found[0]["node"] == "example-hostname"
    assert (found[0]["started_ns"] is None) == (name != "inspector_readme_1")


@pytest.mark.parametrize("version", ["v4.0", "v4.2", "v4.3"])
@pytest.mark.parametrize("indent", [None, 2])
def test_versions(version: str, indent: int | None, tmp_path: Path) -> None:
    Perf(ranks=(0, 1), hashed=1, steps=3, version=version).write(tmp_path, indent=indent)
    Perf(ranks=(0, 1), hashed=2, steps=2, version=version).write(tmp_path, indent=indent)
    found, kinds = rows(*tmp_path.iterdir())
    assert kinds == set()
    assert [(int(r["comm_hash"], 16), r["rank"], r["seq"]) for r in found] == [
        (comm, rank, seq) for rank in (0, 1) for comm, seqs in ((1, 6), (2, 4)) for seq in range(seqs)
    ]


@pytest.mark.parametrize("nested", [False, True])
def test_proxy_traces(nested: bool, tmp_path: Path) -> None:
    Perf(ranks=(0, 1), steps=2).write(tmp_path, only=[1])
    (path,) = tmp_path.iterdir()
    whose = {k: v for k, v in json.loads(path.read_text().splitlines()[0]).items() if k != "coll_perf"}
    with path.open("a") as file:
        for record in proxy_records(1, 2, 2, WAITS, nested=nested):
            file.write(json.dumps(whose | record) + "\n")
    (received, sent), kinds = rows(path, table=PROXY_OPS.name)
    assert kinds == set()
    assert (received["is_send"], received["peer"], received["seq"], received["coll_func"]) == (False, 0, 2, "AllReduce")
    assert (received["recv_wait_ns"], received["recv_flush_wait_ns"], received["recv_gpu_wait_ns"]) == (
        80_000,
        2_000,
        4_000,
    )
    assert (sent["send_gpu_wait_ns"], sent["send_peer_wait_ns"], sent["send_wait_ns"]) == (60_000, 10_000, 14_000)
    assert (sent["n_steps"], sent["steps_seen"], sent["trans_bytes"], sent["complete"]) == (2, 2, 200, True)
    assert sent["duration_ns"] == 10_000_000
    assert sent["recv_wait_ns"] is None


def test_waits_that_are_told_need_no_times(tmp_path: Path) -> None:
    (record,) = [r for r in proxy_records(0, 2, 0, WAITS, nested=True) if "steps" in r["proxy_trace"]][1:]
    for step in record["proxy_trace"]["steps"]:
        del step["event_trace_ts"]
        step |= {"gpu_produce_us": 9, "wire_us": 4}
    whose = Perf(ranks=(0, 1)).records()[0][0]
    path = tmp_path / "x.log"
    path.write_text(json.dumps({"header": whose["header"], "metadata": whose["metadata"], **record}))
    (sent,), _ = rows(path, table=PROXY_OPS.name)
    assert (sent["send_gpu_wait_ns"], sent["send_peer_wait_ns"], sent["send_wait_ns"]) == (18_000, 0, 8_000)


@pytest.mark.parametrize("version", ["v4.2", "v4.3"])
@pytest.mark.parametrize("indent", [None, 2])
def test_cut_off_keeps_what_is_whole(version: str, indent: int | None, tmp_path: Path) -> None:
    Perf(ranks=(0, 1), steps=4, version=version).write(tmp_path, indent=indent, only=[0])
    (path,) = tmp_path.iterdir()
    whole, _ = rows(path)
    text = path.read_text()
    for cut in random.Random(2).sample(range(2, len(text) - 3), 25):
        path.write_text(text[:cut])
        found, kinds = rows(path)
        assert kinds <= {"broken_records"}
        assert [r["seq"] for r in found] == [r["seq"] for r in whole[: len(found)]]
        assert len(found) >= len(whole) * cut // len(text) - 2


def test_after_a_broken_marker_nobody_knows_whose_it_is(tmp_path: Path) -> None:
    Perf(ranks=(0, 1), hashed=1, steps=1, version="v4.3").write(tmp_path, only=[0])
    Perf(ranks=(0, 1), hashed=2, steps=1, version="v4.3").write(tmp_path, only=[0])
    (path,) = tmp_path.iterdir()
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], lines[3][:40] + "\n", *lines[4:]]))
    found, kinds = rows(path)
    assert kinds == {"broken_records"}
    assert {int(r["comm_hash"], 16) for r in found} == {1}


def test_packed_and_in_a_list(tmp_path: Path) -> None:
    Perf(ranks=(0, 1), steps=2).write(tmp_path, only=[0])
    (path,) = tmp_path.iterdir()
    text = path.read_text()
    packed, listed = tmp_path / "a.gz", tmp_path / "b.json"
    packed.write_bytes(gzip.compress(text.encode()))
    listed.write_text("[" + ",\n".join(text.splitlines()) + "]")
    assert [len(rows(p)[0]) for p in (path, packed, listed)] == [4, 4, 4]
    assert rows(listed)[1] == set()


def test_point_to_point(tmp_path: Path) -> None:
    record = Perf(ranks=(0, 1)).records()[0][0]
    del record["coll_perf"]
    record["p2p_perf"] = {"p2p": "Send", "p2p_sn": 4, "p2p_peer": 1, "p2p_msg_size_bytes": 10, "p2p_exec_time_us": 3}
    path = tmp_path / "x.log"
    path.write_text(json.dumps(record))
    (row,), _ = rows(path)
    assert (row["coll_func"], row["is_p2p"], row["peer"], row["seq"], row["exec_time_ns"]) == ("Send", True, 1, 4, 3000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{" * 5000,
        "[" * 100_000,
        '{"header": 3, "metadata": [], "coll_perf": {"coll": 7, "coll_sn": -1, "coll_msg_size_bytes": 1e9}}',
        '{"header": {"id": "zzzzzzzzzzzzzzzzzzzzzzz", "rank": true}, "coll_perf": {"coll_exec_time_us": 1e308}}',
        '{"header": {"rank": 99999999999999999999}, "coll_perf": {"coll_exec_time_us": NaN, "coll_algobw_gbs": -1}}',
        '{"header": {"rank": null}, "proxy_trace": {"steps": 7, "record_type": [], "event_trace_ts": "x"}}',
        '{"header": {"id": "\\ud800"}, "metadata": {"hostname": "\\ud800"}, "coll_perf": {}}',
        '{"coll_perf": {"coll": "AllReduce"}}',
    ],
)
def test_hostile(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.log"
    path.write_text(text)
    for row in rows(path)[0]:
        assert (row["rank"], row["seq"], row["exec_time_ns"], row["algobw"]) == (None, None, None, None)
    rows(path, table=PROXY_OPS.name)
