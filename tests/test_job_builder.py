"""The builder of made-up jobs: what it plays is what a job does, and what it writes is what PyTorch writes."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.builder import Job, recv_from, send_to
from tests.jobs.case_file import FIXTURES
from tests.jobs.dump_folder import entries_of, read
from tests.jobs.fixtures import BUILT
from tests.jobs.metamorphic import TRANSFORMS, Transform, drop_rank, unnotice
from tests.jobs.plausible import unrecordable
from tests.jobs.record import check
from tests.jobs.recorded_cases import RECORDED
from tests.jobs.recording import VERSIONS
from tests.jobs.stories import LIVE_STORIES, STORIES
from tests.jobs.story import CATEGORIES

ENTRY_FIELDS = {
    "list": "frames pg_id seq_id profiling_name time_created_us input_sizes output_sizes state retired",
    "1.4": "frames record_id pg_id seq_id op_id profiling_name time_created_ns input_sizes output_sizes state "
    "time_discovered_started_ns time_discovered_completed_ns retired",
    "2.1": "frames record_id pg_id process_group collective_seq_id p2p_seq_id op_id profiling_name time_created_ns "
    "input_sizes input_dtypes output_sizes output_dtypes state time_discovered_started_ns "
    "time_discovered_completed_ns retired is_p2p",
    "2.4": "frames record_id pg_id process_group collective_seq_id p2p_seq_id op_id profiling_name time_created_ns "
    "input_sizes input_dtypes output_sizes output_dtypes state time_discovered_started_ns "
    "time_discovered_completed_ns retired timeout_ms is_p2p",
    "2.9": "frames record_id pg_id process_group thread_name thread_id collective_seq_id p2p_seq_id op_id "
    "profiling_name time_created_ns input_sizes input_dtypes output_sizes output_dtypes state "
    "time_discovered_started_ns time_discovered_completed_ns retired timeout_ms is_p2p",
}
ENTRY_FIELDS["2.10"] = ENTRY_FIELDS["2.9"]
TOP_LEVEL = {
    "1.4": "version pg_config entries",
    "2.1": "version pg_config entries",
    "2.4": "version pg_config pg_status entries",
    "2.9": "version pg_config nccl_version pg_status entries",
    "2.10": "version pg_config comm_lib_version pg_status entries",
}


def healthy(**how: Any) -> Job:
    job = Job(4, **how).grid(tp=2, dp=2)
    for _ in range(3):
        job.all_reduce("tp").all_gather("dp").reduce_scatter("dp").all_to_all("tp").barrier()
        job.broadcast(root=1).transfer(0, 1, "tp")
    return job


def shown(job: Job, rank: int, *fields: str) -> list[tuple[Any, ...]]:
    return [tuple(entry[f] for f in fields) for entry in job.payloads()[rank]["entries"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_fields_are_those_of_the_version(version: str) -> None:
    payload = Job(2, version=version).all_reduce().payloads()[0]
    entries = payload if version == "list" else payload["entries"]
    assert list(entries[0]) == ENTRY_FIELDS[version].split()
    if version != "list":
        assert list(payload) == TOP_LEVEL[version].split()


@pytest.mark.parametrize("lib", ["nccl", "gloo", "nccl2", "torchcomms"])
def test_a_healthy_job_is_complete(lib: str) -> None:
    for payload in healthy(lib=lib).payloads().values():
        assert payload["entries"]
        assert all(entry["retired"] for entry in payload["entries"])
        states = {entry["state"] for entry in payload["entries"]}
        assert states == ({"scheduled"} if lib == "gloo" else {"completed"})


def test_the_same_plan_gives_the_same_bytes() -> None:
    job = healthy(ahead=3).stop(2).all_reduce()
    assert job.files() == job.files() == healthy(ahead=3).stop(2).all_reduce().files()


def test_a_stopped_rank_leaves_its_peers_open() -> None:
    job = Job(4).grid(tp=2, dp=2).all_reduce().stop(2).all_reduce("tp").all_reduce("dp")
    assert shown(job, 2, "state") == [("completed",)]
    assert shown(job, 3, "collective_seq_id", "state") == [(1, "completed"), (1, "scheduled")]
    assert shown(job, 1, "process_group", "state")[1:] == [(("1", "tp"), "completed"), (("4", "dp"), "scheduled")]
    status = job.payloads()[3]["pg_status"]["1"]
    assert (status["last_enqueued_collective"], status["last_completed_collective"]) == (1, -1)


def test_a_host_runs_ahead_only_as_far_as_it_may() -> None:
    job = Job(2, ahead=3).all_reduce().stop(1)
    for _ in range(5):
        job.all_reduce()
    assert shown(job, 0, "state") == [("completed",), ("scheduled",), ("scheduled",), ("scheduled",)]


def test_a_stuck_device_finishes_for_its_peers_and_holds_what_comes_after() -> None:
    job = Job(3, ahead=2).all_reduce().all_reduce().stuck_on(1).all_reduce()
    assert [state for (state,) in shown(job, 0, "state")] == ["completed", "completed", "scheduled"]
    assert [state for (state,) in shown(job, 1, "state")] == ["completed", "scheduled", "scheduled"]


def test_mismatches_never_finish_unless_forced() -> None:
    job = Job(3).all_reduce().all_reduce().but(1, shape=[7]).all_reduce()
    assert [shown(job, r, "state")[-1] for r in range(3)] == [("scheduled",)] * 3
    forced = Job(3).all_reduce().all_reduce().but(1, shape=[7]).finishes_anyway().all_reduce()
    assert shown(forced, 1, "state") == [("completed",)] * 3


def test_uneven_all_to_all_needs_equal_totals() -> None:
    even = Job(2).all_to_all(sends={0: 3, 1: 5}, receives={0: 4, 1: 4})
    assert shown(even, 0, "state") == [("completed",)]
    odd = Job(2).all_to_all(sends={0: 3, 1: 5}, receives={0: 4, 1: 5})
    assert shown(odd, 0, "state") == [("scheduled",)]


def test_a_broadcast_needs_only_its_root() -> None:
    job = Job(3).stop(2).broadcast(root=0).stop(0, 1)
    assert [shown(job, r, "state") for r in (0, 1)] == [[("completed",)]] * 2
    reduced = Job(3).stop(2).reduce(root=0)
    assert [shown(reduced, r, "state") for r in (0, 1)] == [[("scheduled",)], [("completed",)]]


def test_batches_of_transfers_are_recorded_with_their_closer() -> None:
    job = Job(2).all_reduce().batch(0, send_to(1), recv_from(1)).batch(1, send_to(0), recv_from(0)).all_reduce()
    fields = ("profiling_name", "collective_seq_id", "p2p_seq_id", "op_id", "state", "is_p2p")
    assert shown(job, 0, *fields)[1:] == [
        ("nccl:send 0->1", 1, 1, 2, "scheduled", True),
        ("nccl:recv 0<-1", 1, 1, 3, "scheduled", True),
        ("nccl:coalesced", 1, 1, 3, "completed", False),
        ("nccl:all_reduce", 2, 1, 4, "completed", False),
    ]


def test_transfers_wait_for_their_partner_in_order() -> None:
    job = Job(4).group("pp", [1, 3]).transfer(1, 3, "pp").send(1, 3, "pp").all_reduce()
    assert shown(job, 1, "profiling_name", "state")[1:] == [("nccl:send 0->1", "scheduled")]
    assert shown(job, 3, "profiling_name", "p2p_seq_id")[:1] == [("nccl:recv 1<-0", 1)]


def test_coalesced_collectives_share_a_sequence_number() -> None:
    job = Job(2).all_gather_uneven([3, 5]).all_reduce()
    assert shown(job, 0, "profiling_name", "collective_seq_id", "state") == [
        ("nccl:_broadcast_oop", 1, "scheduled"),
        ("nccl:_broadcast_oop", 1, "scheduled"),
        ("nccl:ALLGATHER_coalesced", 1, "completed"),
        ("nccl:all_reduce", 2, "completed"),
    ]
    assert len(job.version("2.4").payloads()[0]["entries"]) == 2


def test_gloo_tells_only_by_retired_and_does_not_record_transfers() -> None:
    job = Job(3, lib="gloo").group("tp", [0, 1]).all_reduce().transfer(0, 1, "tp").barrier("tp").stop(2).all_reduce()
    fields = ("profiling_name", "op_id", "collective_seq_id", "state", "retired", "input_sizes")
    assert shown(job, 0, *fields) == [
        ("gloo:all_reduce", 1, 1, "scheduled", True, [[1024]]),
        ("gloo:barrier", 2, 1, "scheduled", True, []),
        ("gloo:all_reduce", 2, 2, "scheduled", False, [[1024]]),
    ]
    assert job.payloads()[0]["pg_config"] == {"": {"name": "", "desc": "", "ranks": "[]"}}


def test_torchcomms_counts_over_the_whole_process() -> None:
    job = Job(2, lib="torchcomms").group("tp", [0, 1]).all_reduce().all_reduce("tp").all_gather()
    assert shown(job, 0, "collective_seq_id", "profiling_name") == [
        (0, "nccl:all_reduce"),
        (1, "nccl:all_reduce"),
        (2, "nccl:all_gather_single"),
    ]
    assert job.payloads()[0]["pg_config"]["1"]["ranks"] == "[0,1]"
    assert job.payloads()[0]["pg_status"] == {}


def test_json_quirks(tmp_path: Path) -> None:
    job = Job(2).all_reduce().stop(1).all_reduce().as_json()
    dump = json.loads((job.write(tmp_path) / "comm_lib_trace_rank_0").read_bytes())
    assert "frames" not in dump["entries"][0]
    assert dump["entries"][1]["time_discovered_completed_ns"] == 0
    assert dump["pg_status"]["0"]["last_enqueued_collective"] == "2"
    assert dump["entries"][0]["process_group"] == ["0", "default_pg"]
    assert "entries" not in Job(2).as_json().payloads()[0]


def test_an_older_snapshot_shows_less(tmp_path: Path) -> None:
    job = Job(2, ahead=2).all_reduce().dumped_here(1).all_reduce().all_reduce()
    assert shown(job, 1, "state") == [("scheduled",)]
    assert shown(job, 0, "state") == [("completed",)] * 3
    unnoticed = Job(2).all_reduce().all_reduce().unnoticed(1)
    assert shown(unnoticed, 1, "state", "retired") == [("completed", True), ("scheduled", False)]
    assert unnoticed.payloads()[1]["pg_status"]["0"]["last_completed_collective"] == 1


def test_rings_resets_and_active_dumps_keep_the_numbers() -> None:
    job = Job(2).records_before(100).already(50)
    for _ in range(5):
        job.all_reduce()
    job.stop(1).all_reduce()
    assert shown(job.ring(2), 0, "record_id", "collective_seq_id") == [(104, 55), (105, 56)]
    assert shown(job.only_active(), 0, "record_id", "collective_seq_id") == [(105, 56)]
    reset = Job(2).all_reduce().recorder_reset(1).all_reduce()
    assert shown(reset, 1, "record_id", "collective_seq_id") == [(0, 2)]


def test_files_are_written_under_the_names_asked_for(tmp_path: Path) -> None:
    job = Job(3).all_reduce().no_file(1).truncated(2).extra_file("job.log", "started\n")
    job.file_names("nccl_trace_rank_node01_{rank}").write(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "job.log",
        "nccl_trace_rank_node01_0",
        "nccl_trace_rank_node01_2",
    ]
    assert pickle.loads((tmp_path / "nccl_trace_rank_node01_0").read_bytes())["version"] == "2.10"
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads((tmp_path / "nccl_trace_rank_node01_2").read_bytes())


# ---- stories


def test_stories_cover_every_rule_and_category() -> None:
    told = [*STORIES.values(), *LIVE_STORIES.values()]
    rules = {f"{letter}{n}" for letter, last in (("P", 10), ("L", 8), ("V", 10)) for n in range(1, last + 1)}
    assert set().union(*(s.rules for s in told)) == rules
    assert all(s.rules for s in told)
    assert {s.truth.category for s in told} == set(CATEGORIES)
    assert sum(s.truth.category == "no_fault" for s in told) >= 40


@pytest.mark.parametrize("name", STORIES)
def test_what_is_open_agrees_with_the_truth(name: str) -> None:
    story, job = STORIES[name], STORIES[name].build()
    assert set(story.truth.culprit_ranks) <= set(job.world)
    still_open = any(o.done_ns is None for ops in job.play().issued.values() for o in ops)
    if story.truth.category == "no_fault":
        assert not still_open
    elif name not in ("size_mismatch_that_finished", "size_of_a_gather_that_finished", "dtype_mismatch_that_finished"):
        assert still_open or name == "odd_entry_without_a_shift"


@pytest.mark.parametrize("name", [*STORIES, *LIVE_STORIES])
def test_a_real_recorder_could_hold_it(name: str) -> None:
    assert unrecordable((STORIES | LIVE_STORIES)[name].build()) == []


def changed(transform: Transform, tmp_path: Path, job: Job) -> dict[str, Any]:
    """The dumps of a job after a change, by file name."""
    target = transform.apply(job.write(tmp_path / "source"), tmp_path / "target")
    return {path.name: dump[0] for path in target.iterdir() if (dump := read(path)) is not None}


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: t.name)
@pytest.mark.parametrize("name", ["healthy_three_dimensions", "healthy_gloo", "stuck_one_of_four", "absent_in_json"])
def test_changes_keep_every_dump_readable(transform: Transform, name: str, tmp_path: Path) -> None:
    job = STORIES[name].build()
    dumps = changed(transform, tmp_path, job)
    assert len(dumps) == len(job.world)
    still_open = sum(e["state"] != "completed" for p in job.payloads().values() for e in entries_of(p))
    kept = sum(e["state"] != "completed" for p in dumps.values() for e in entries_of(p))
    assert kept == still_open


def test_changing_to_1_4_gives_what_the_builder_writes(tmp_path: Path) -> None:
    job = healthy()
    transform = next(t for t in TRANSFORMS if t.name == "to_version_1_4")
    dumps = changed(transform, tmp_path, job)
    assert dumps == {f"comm_lib_trace_rank_{r}": p for r, p in job.version("1.4").payloads().items()}


def test_changes_of_one_rank(tmp_path: Path) -> None:
    source = Job(3).all_reduce().all_reduce().write(tmp_path / "source")
    assert len(list(drop_rank(source, tmp_path / "dropped", 1).iterdir())) == 2
    unseen = read(unnotice(source, tmp_path / "unseen", 1) / "comm_lib_trace_rank_1")
    assert unseen is not None
    assert unseen[0] == Job(3).all_reduce().all_reduce().unnoticed(1).payloads()[1]


# ---- fixtures


@pytest.mark.parametrize("name", BUILT)
def test_built_fixtures_are_what_their_stories_give(name: str) -> None:
    evidence = FIXTURES / name / "evidence"
    assert {path.name: path.read_bytes() for path in evidence.iterdir()} == BUILT[name][1].build().files()


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_fixtures_show_what_they_are_meant_to(name: str) -> None:
    check(RECORDED[name], FIXTURES / name / "evidence")
    assert sum(path.stat().st_size for path in (FIXTURES / name / "evidence").iterdir()) < 200_000
