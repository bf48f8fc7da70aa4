"""What a path is, and collecting into a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.builder import Job
from whichrank.engine.intake import collect, discover, is_store, open_evidence
from whichrank.errors import NoEvidence, UsageError


def test_kinds(tmp_path: Path) -> None:
    dumps = Job(2).all_reduce().write(tmp_path / "dumps")
    collect([dumps], tmp_path / "store")
    (tmp_path / "compacted").mkdir()
    (tmp_path / "compacted" / "global.duckdb").touch()
    assert not is_store(dumps)
    assert is_store(tmp_path / "store")
    assert is_store(tmp_path / "compacted")
    assert is_store(tmp_path / "compacted" / "global.duckdb")
    sources = discover([dumps, tmp_path / "store", sorted(dumps.iterdir())[0]])
    assert (len(sources.dumps), sources.stores) == (2, [tmp_path / "store"])


def test_nothing_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(NoEvidence, match="no path"):
        discover([])
    with pytest.raises(NoEvidence, match="does not exist"):
        discover([tmp_path / "nope"])


def test_a_store_and_dumps_together(tmp_path: Path) -> None:
    first = Job(2).all_reduce().write(tmp_path / "first")
    collect([first], tmp_path / "store")
    with open_evidence([tmp_path / "store", first]) as evidence:
        assert evidence.count("python.torch_nccl_dump") == 4


def test_progress_counts_files(tmp_path: Path) -> None:
    dumps = Job(4).all_reduce().write(tmp_path)
    steps: list[tuple[int, int]] = []
    open_evidence([dumps], on_progress=lambda done, total: steps.append((done, total))).close()
    assert steps[-1] == (4, 4)


def test_what_is_not_converted_is_kept(tmp_path: Path) -> None:
    dumps = Job(3).all_reduce().write(tmp_path / "dumps")
    broken = sorted(dumps.iterdir())[1]
    content = broken.read_bytes()[:100]
    broken.write_bytes(content)
    done = collect([dumps], tmp_path / "store")
    assert done["ranks"] == [0, 2]
    (kept,) = done["kept"]
    assert Path(kept).read_bytes() == content
    assert any(broken.name in message for message in done["notes"])


def test_collecting_has_limits(tmp_path: Path) -> None:
    dumps = Job(2).all_reduce().write(tmp_path / "dumps")
    collect([dumps], tmp_path / "store")
    with pytest.raises(UsageError, match="is a store already"):
        collect([tmp_path / "store"], tmp_path / "other")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "rank_0").write_text("hello")
    with pytest.raises(NoEvidence, match="could be read as evidence"):
        collect([tmp_path / "empty"], tmp_path / "other")
