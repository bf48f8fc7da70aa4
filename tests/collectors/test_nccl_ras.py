"""Answers of NCCL RAS -> rows: whole, several, cut off, hostile, and the text that is refused."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.ras import answer, communicator
from whichrank.collectors import nccl_ras
from whichrank.tables import NOTE, RAS_STATUS

SHARED = Path(__file__).parent.parent.parent / "../shared/data"


def rows(*paths: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows, and the kinds of notes."""
    found: list[dict[str, Any]] = []
    kinds: list[str] = []
    for batch in nccl_ras.read(paths):
        found += batch.tables[RAS_STATUS.name].to_pylist() if RAS_STATUS.name in batch.tables else []
        kinds += batch.tables[NOTE.name].column("kind").to_pylist() if NOTE.name in batch.tables else []
    return found, kinds


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{name} is not there: it is no part of the project")
    return path


def test_a_real_answer() -> None:
    path = shared("ray_ras/ncclras_a10g_mismatch.json")
    assert nccl_ras.recognises(path, path.read_bytes(), False)
    found, kinds = rows(path)
    assert kinds == []
    assert [row["launched"] for row in found] == [101, 100, 101, 101]
    assert [row["rank"] for row in found] == [0, 1, 2, 3]
    assert {row["comm_hash"] for row in found} == {"0xf31e5874c3f25459"}
    assert found[1]["node"] == "10.0.109.86"
    assert found[1]["coll_funcs"][-1] == "AllReduce"
    assert found[1]["missing"] is False
    assert found[1]["async_error"] == 0


def test_the_answer_in_the_manual(tmp_path: Path) -> None:
    text = shared("nccl_samples/ras_docs_samples.rst").read_text()
    json = text[text.index('  {\n    "nccl_version"') :]
    path = tmp_path / "ras.json"
    path.write_text(json[: json.index("\n\nAs can be observed")])
    (seen, missing), kinds = rows(path)
    assert kinds == []
    assert (seen["launched"], seen["missing"]) == (0, False)
    assert (missing["rank"], missing["missing"], missing["unresponsive"]) == (1, True, True)
    assert missing["considered_dead"] is False
    assert missing["launched"] is None


def test_the_text_is_refused_with_what_to_type(tmp_path: Path) -> None:
    manual = shared("nccl_samples/ras_docs_samples.rst").read_text()
    blocks = re.findall(r"^  Job summary\n(?:  .*\n|\n)*", manual, re.M)
    path = tmp_path / "ras.txt"
    path.write_text(re.sub(r"^  ", "", blocks[0], flags=re.M))
    assert nccl_ras.recognises(path, path.read_bytes(), False)
    (batch,) = nccl_ras.read([path])
    (note,) = batch.tables[NOTE.name].to_pylist()
    assert note["kind"] == "ras_text"
    assert "ncclras -f json" in note["message"]


@pytest.mark.parametrize("indent", [None, 2])
def test_several_answers_in_one_file(tmp_path: Path, indent: int | None) -> None:
    first = answer(communicator([7, 7]), indent=indent)
    second = answer(communicator([8, 7]), at="2026-09-23 11:55:47", indent=indent)
    path = tmp_path / "ras.json"
    path.write_text(f"{first}\n{second}\n")
    found, kinds = rows(path)
    assert kinds == []
    assert [(row["launched"], row["asked_ns"] // 10**9 % 100) for row in found] == [(7, 37), (7, 37), (8, 47), (7, 47)]
    assert len({row["snapshot_id"] for row in found}) == 2


def test_packed(tmp_path: Path) -> None:
    path = tmp_path / "ras.json.gz"
    path.write_bytes(gzip.compress(answer(communicator([7, 7])).encode()))
    assert len(rows(path)[0]) == 2


def test_cut_off_keeps_whole_communicators(tmp_path: Path) -> None:
    text = answer(communicator([5, 5]), communicator([9, 8], hashed=0xABC))
    path = tmp_path / "ras.json"
    for cut in range(1, len(text), 7):
        path.write_text(text[:cut])
        found, kinds = rows(path)
        assert kinds == ["cut_off"]
        assert [row["launched"] for row in found] in ([], [5, 5], [5, 5, 9, 8])
    assert [row["launched"] for row in found] == [5, 5, 9, 8]
    assert found[0]["asked_ns"] is not None


@pytest.mark.parametrize(
    "text",
    [
        '{"communicators": 3}',
        '{"communicators": [1, null, {"ranks": 3}, {"ranks": [{"rank": "x"}], "missing_ranks": [[]]}]}',
        '{"communicators": [{"hash": 7, "size": -1, "ranks": [{"rank": 1e400, "pid": true, "status": []}]}]}',
        '{"communicators": [{"hash": "0xzz", "size": 9999999999999999999999, "ranks": [{"rank": 0,'
        ' "collective_counts": {"AllReduce": 9223372036854775807, "Reduce": 9223372036854775807}}]}]}',
        '{"communicators": ' + "[" * 100_000,
        '{"timestamp": "0001-01-01 00:00:00", "communicators": [{"hash": "\\ud800", "ranks": [{"rank": 0}]}]}',
        '{"communicators_count": 1}',
        "{",
    ],
)
def test_hostile(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ras.json"
    path.write_text(text)
    for row in rows(path)[0]:
        assert row["launched"] is None


def test_what_is_not_recognised(tmp_path: Path) -> None:
    for text in (b'{"entries": []}', b'{"header": {}, "coll_perf": {}}', b"[]", b"", b"NCCL INFO Bootstrap"):
        assert not nccl_ras.recognises(tmp_path / "x", text, True)
