"""`python.*` is this host's rows, `global.python.*` everybody's; `use_global: false` makes skills look at the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.jobs.builder import Job
from whichrank.collectors.flight_recorder_dump import read
from whichrank.engine.compaction import compact
from whichrank.engine.manifest import Pack
from whichrank.engine.runner import Runner
from whichrank.store.evidence import Evidence
from whichrank.store.shards import write

HOSTS = {0: "here", 1: "here", 2: "there", 3: "there"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Four ranks on two hosts; rank 2, on the other one, stops after two calls."""
    dumps = Job(4).all_reduce().all_reduce().stop(2).all_reduce().write(tmp_path / "dumps")
    for batch in read([dumps]):
        for name, rows in batch.tables.items():
            if "host" in rows.schema.names and batch.rank is not None:
                host = pa.array([HOSTS[batch.rank]] * rows.num_rows, pa.string())
                index = rows.schema.get_field_index("host")
                batch.tables[name] = rows.set_column(index, rows.schema.field(index), host)
        write(tmp_path / "store", batch)
    return tmp_path / "store"


def _run(store: Path, skill: str, use_global: bool) -> tuple[Any, list[int]]:
    with Evidence(stores=[store], host="here", lazy=True) as evidence:
        found = Runner(Pack(), evidence).run(skill, {"use_global": use_global})
        return found.coverage.ranks_seen, found.culprit_ranks


@pytest.mark.parametrize("compacted", [False, True])
def test_rows_of_this_host_and_of_all(store: Path, compacted: bool) -> None:
    if compacted:
        compact(store)
    with Evidence(stores=[store], host="here") as evidence:
        run = evidence.connection.execute
        for table in ("torch_nccl_dump", "torch_nccl_flight_record"):
            ours = run(f"SELECT DISTINCT rank, host FROM python.{table} ORDER BY rank").fetchall()
            assert ours == [(0, "here"), (1, "here")]
            every = run(f"SELECT DISTINCT _rank, _host FROM global.python.{table} ORDER BY 1").fetchall()
            assert every == sorted(HOSTS.items())


def test_the_verdict_of_all_and_of_this_host(store: Path) -> None:
    assert _run(store, "watchdog_timeout", True) == ([0, 1, 2, 3], [2])
    seen, named = _run(store, "watchdog_timeout", False)
    assert seen == [0, 1]
    assert not {0, 1}.intersection(named), "who is here and waits is not to blame"


@pytest.mark.parametrize("skill", [skill.id for skill in Pack().skills()])
def test_every_skill_takes_use_global(store: Path, skill: str) -> None:
    for use_global in (True, False):
        _run(store, skill, use_global)
