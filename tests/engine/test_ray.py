"""A Ray cluster gives the same rows and the same verdict as one process, and survives what a cluster does."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.builder import Job
from tests.jobs.stories import STORIES
from whichrank.batch import Batch
from whichrank.collectors import flight_recorder_dump, flight_recorder_rank
from whichrank.engine import intake, ray_worker
from whichrank.engine.compaction import compact
from whichrank.engine.manifest import Pack
from whichrank.engine.ray_cluster import ClusterUnavailable, RayCluster
from whichrank.engine.runner import Runner, diagnose
from whichrank.errors import UsageError
from whichrank.store.shards import shards
from whichrank.tables import FLIGHT_RECORD

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("default:::ray.*"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


TOLD = (
    "absent_in_small_group_holds_up_all",
    "receive_left_out_of_a_batch",
)


@pytest.fixture(scope="module")
def ray(leaky: None) -> Iterator[Any]:
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield ray
    ray.shutdown()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Eight ranks of which rank 5 stops; with sends and receives, in batches as well."""
    job = Job(8, ahead=2).grid(tp=2, dp=4)
    for step in range(4):
        if step == 3:
            job.stop(5)
        job.all_reduce("tp", [64, 128]).all_gather("dp", 8192).all_reduce(shape=[1])
    return job.write(tmp_path / "dumps")


def test_rows_and_verdict_are_those_of_one_process(ray: Any, tmp_path: Path) -> None:
    """What the facts of single ranks hold is the same, row by row."""
    pack = Pack()
    per_rank = [id for id in pack.library.ids() if pack.library.get(id).per]
    assert len(per_rank) >= 4
    for name in TOLD:
        dumps = STORIES[name].write(tmp_path / name)
        seen = []
        for cluster in (None, RayCluster("auto", keep=True)):
            reading = intake.begin([dumps], cluster=cluster)
            with intake.open_evidence(reading) as evidence:
                if cluster:
                    cluster.take_stock(evidence)
                    assert evidence.held(FLIGHT_RECORD) is None, "entries stay where they are"
                runner = Runner(pack, evidence, "dumps", cluster)
                told = runner.run("watchdog_timeout").as_dict()
                told["ran"] = [(ran["name"], ran["rows"]) for ran in told["ran"]]
                rows = {f: sorted(map(repr, evidence.connection.table(f).fetchall())) for f in per_rank}
                seen.append((told, rows))
        assert seen[0] == seen[1], name


def test_a_store_is_read_on_the_cluster_too(ray: Any, job: Path, tmp_path: Path) -> None:
    with RayCluster("auto") as cluster:
        done = intake.collect([job], tmp_path / "store", cluster=cluster)
    assert done == intake.collect([job], tmp_path / "alone")
    assert content(tmp_path / "store") == content(tmp_path / "alone"), "the shards are the same, byte by byte"
    with RayCluster("auto", keep=True) as cluster:
        spread = diagnose([tmp_path / "store"], cluster=cluster)
    assert (spread.category, spread.culprit_ranks) == ("rank_not_joined", [5])
    assert spread.coverage == diagnose([tmp_path / "store"]).coverage
    compact(tmp_path / "store")
    with RayCluster("auto", keep=True) as cluster, pytest.raises(UsageError, match="is compacted"):
        diagnose([tmp_path / "store"], cluster=cluster)


def content(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for paths in shards(store).values() for path in paths}


def die_over_rank_2(task: dict[str, Any]) -> list[Batch]:
    """Stands in for a dump that takes its process along."""
    if any(rank == 2 for rank, _ in task["ranks"]):
        os._exit(9)
    return flight_recorder_rank.read_task(task)


def test_a_poisoned_dump_costs_one_rank(ray: Any, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_recorder_dump, "_TARGET", f"{__name__}:die_over_rank_2")
    with RayCluster("auto", keep=True) as cluster:
        diagnosis = diagnose([job], cluster=cluster)
    assert diagnosis.coverage.ranks_seen == [0, 1, 3, 4, 5, 6, 7]
    assert any("killed" in gap.says and gap.ranks == [2] for gap in diagnosis.gaps)


def die_once(task: dict[str, Any]) -> list[Batch]:
    """Stands in for a node that is lost: the first process that reads rank 2 dies."""
    for rank, paths in task["ranks"]:
        flag = Path(paths[0]).parent / ".died"
        if rank == 2 and not flag.exists():
            flag.touch()
            os._exit(9)
    return flight_recorder_rank.read_task(task)


def test_a_lost_worker_costs_nothing(ray: Any, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_recorder_dump, "_TARGET", f"{__name__}:die_once")
    with RayCluster("auto", keep=True) as cluster:
        diagnosis = diagnose([job], cluster=cluster)
    assert (job / ".died").exists()
    assert diagnosis.coverage.ranks_seen == list(range(8))
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("rank_not_joined", [5])


def test_a_file_that_a_node_does_not_see_is_read_here(ray: Any, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ray_worker.convert("", {"ranks": [[0, ["dump_0"]]]}, "/nowhere", False) == (None, None)
    monkeypatch.setattr(ray_worker, "convert", see_nothing)
    with RayCluster("auto", keep=True) as cluster:
        diagnosis = diagnose([job], cluster=cluster)
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("rank_not_joined", [5])
    assert diagnosis.coverage == diagnose([job]).coverage


def see_nothing(*_: object) -> tuple[None, None]:
    """Stands in for a node without the shared folder."""
    return None, None


def test_entries_are_fetched_where_something_else_reads_them(ray: Any, job: Path, tmp_path: Path) -> None:
    with RayCluster("auto", keep=True) as cluster, intake.open_evidence(intake.begin([job], cluster=cluster)) as e:
        cluster.take_stock(e)
        count = e.count("python.torch_nccl_flight_record")
        assert count == diagnose([job]).coverage.records
        e.show()
        e.add(cluster.entries())
        assert e.count("python.torch_nccl_flight_record") == count
        assert e.connection.table("global.python.torch_nccl_flight_record").count("*").fetchall() == [(count,)]


def test_no_cluster_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # bound, but nobody listens
        monkeypatch.setattr("ray.is_initialized", lambda: False)
        with pytest.raises(ClusterUnavailable, match="no Ray cluster at") as error:
            RayCluster(f"127.0.0.1:{port}")
    assert "--ray local" in str(error.value.next)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterUnavailable, match="Ray is not installed") as error:
        RayCluster("auto")
    assert error.value.next == 'pip install "whichrank[ray]"'


def test_another_version_on_the_cluster_is_refused(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whichrank.engine.ray_cluster.__version__", "99.0")
    with pytest.raises(ClusterUnavailable, match=r"this is whichrank 99\.0, on the cluster it is"):
        RayCluster("auto")
