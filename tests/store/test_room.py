"""A job that is larger than the memory DuckDB may use: it goes through the disk, or ends with a clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import jobs
from whichrank.engine import intake
from whichrank.engine.manifest import Pack
from whichrank.engine.runner import Runner
from whichrank.errors import NoRoom
from whichrank.store import evidence


@pytest.mark.slow
def test_more_rows_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dumps = jobs.write(tmp_path / "dumps", ranks=8, entries=40_000)
    monkeypatch.setitem(evidence._CONFIG, "memory_limit", "60MB")
    monkeypatch.setitem(evidence._CONFIG, "temp_directory", str(tmp_path / "room"))
    with intake.open_evidence([dumps]) as opened:
        diagnosis = Runner(Pack(), opened).run("watchdog_timeout")
        ((spilled,),) = opened.connection.table_function("duckdb_temporary_files").aggregate("sum(size)").fetchall()
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("rank_not_joined", [jobs.culprit_of(8)])
    assert diagnosis.coverage.records > 8 * 39_000
    assert spilled > 10 << 20, "it did not fit, and the disk took the rest"


def test_neither_memory_nor_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dumps = jobs.write(tmp_path / "dumps", ranks=8, entries=2_000)
    monkeypatch.setitem(evidence._CONFIG, "memory_limit", "4MB")
    monkeypatch.setitem(evidence._CONFIG, "temp_directory", str(tmp_path / "room"))
    monkeypatch.setitem(evidence._CONFIG, "max_temp_directory_size", "1MB")
    with pytest.raises(NoRoom, match="needs more room than there is") as error:
        intake.open_evidence([dumps])
    assert "TMPDIR" in str(error.value.next)
