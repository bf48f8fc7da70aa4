"""Logs beside dumps and in stores: each witness adds what the other cannot know."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

from tests.jobs.builder import Job
from tests.jobs.log import Log
from tests.verdict import diagnosis_of, pack, verdict_of
from whichrank.engine.intake import collect, open_evidence
from whichrank.engine.runner import Runner
from whichrank.surfaces.text import screen


def dumps(folder: Path, absent: int = 2) -> Path:
    """Four ranks; one stays away from the second of two reductions."""
    return Job(4).all_reduce().stop(absent).all_reduce().write(folder)


def timeouts(absent: int = 2) -> Log:
    log = Log()
    for rank in (r for r in range(4) if r != absent):
        log.times_out(rank, 2)
    return log.signalled(absent, 1, 1, by=0)


def test_a_log_that_agrees_changes_nothing(tmp_path: Path) -> None:
    alone = diagnosis_of(dumps(tmp_path / "dumps"))
    both = diagnosis_of(tmp_path / "dumps", timeouts().write(tmp_path / "job.log"))
    assert (both.category, both.culprit_ranks, both.verdict) == (alone.category, alone.culprit_ranks, alone.verdict)
    assert [f.category for f in both.findings if f.root] == ["rank_not_joined"]
    assert both.gaps == alone.gaps


def test_a_log_says_why_a_rank_stayed_away(tmp_path: Path) -> None:
    log = timeouts().c10(
        2, "[PG ID 0 PG GUID 0 Rank 2] Could not acquire GIL within 300 ms on exit, possible GIL induced hang"
    )
    (dumps(tmp_path / "job") / "node0.log").write_text(log.text())
    diagnosis = diagnosis_of(tmp_path / "job")
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("rank_not_joined", [2])
    shows = dict(diagnosis.findings[0].shows)
    assert "Could not acquire GIL" in shows["in the log"]
    assert "job/node0.log:8" in shows["in the log"]
    assert "all_reduce" in shows["last on rank 2"]


def test_who_died_by_the_log_leads_and_the_dumps_agree(tmp_path: Path) -> None:
    log = Log().raises(2, "FileNotFoundError: [Errno 2] No such file or directory: 'shard-7.bin'")
    for rank in (0, 1, 3):
        log.times_out(rank, 2)
    diagnosis = diagnosis_of(dumps(tmp_path / "dumps"), log.write(tmp_path / "job.log"))
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("rank_died", [2])
    assert [(f.category, f.root, f.ranks) for f in diagnosis.findings] == [
        ("rank_died", True, [2]),
        ("rank_not_joined", False, [2]),
    ]
    assert "shard-7.bin" in screen(diagnosis).replace("\n", "").replace("  ", "")


def test_numbers_of_a_log_do_not_overrule_dumps(tmp_path: Path) -> None:
    """The log of one host says that rank 1 is behind, which was so when it was printed; the dumps know better."""
    log = Log().times_out(0, 2).signalled(1, 1, 1, by=0)
    assert verdict_of(dumps(tmp_path / "dumps"), log.write(tmp_path / "job.log")) == ("rank_not_joined", [2])


def test_a_log_settles_what_dumps_cannot(tmp_path: Path) -> None:
    """No dump of rank 2 and too few of the others; the log tells that its device failed."""
    folder = dumps(tmp_path / "dumps")
    for path in [path for path in folder.iterdir() if path.name.endswith(("_1", "_2", "_3"))]:
        path.unlink()
    log = Log().c10(2, "[PG ID 0 PG GUID 0 Rank 2] Process group watchdog thread terminated with exception: CUDA error: "
                    "uncorrectable ECC error encountered").times_out(0, 2)  # fmt: skip
    assert verdict_of(folder)[0] != "device_error"
    assert verdict_of(folder, log.write(tmp_path / "job.log")) == ("device_error", [2])


def test_healthy_dumps_and_a_healthy_log(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("epoch 1\n")
    diagnosis = diagnosis_of(Job(2).all_reduce().write(tmp_path / "dumps"), tmp_path / "job.log")
    assert (diagnosis.category, diagnosis.findings) == (None, [])


def test_logs_in_a_store(tmp_path: Path) -> None:
    done = collect([timeouts().write(tmp_path / "job.log"), dumps(tmp_path / "dumps")], tmp_path / "store")
    assert done["ranks"] == [0, 1, 2, 3]
    assert done["rows"]["python.torch_nccl_watchdog_log"] == 8
    assert verdict_of(tmp_path / "store") == ("rank_not_joined", [2])
    collect([timeouts(1).write(tmp_path / "later.log")], tmp_path / "logs")
    assert verdict_of(tmp_path / "logs") == ("rank_not_joined", [1])


def test_nothing_of_logs_is_run_without_logs(tmp_path: Path) -> None:
    diagnosis = diagnosis_of(dumps(tmp_path / "dumps"))
    assert not [ran.name for ran in diagnosis.ran if "log_" in ran.name]


def test_a_log_of_nccl2_says_what_it_cannot_show(tmp_path: Path) -> None:
    log = Log().c10(3, "[TC][rank=3][name=default_pg] Operation timed out after 600012 ms", "WorkNCCL.cpp:170")
    diagnosis = diagnosis_of(log.write(tmp_path / "job.log"))
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("insufficient_evidence", [])
    gap = next(gap for gap in diagnosis.gaps if gap.kind == "nccl2_log")
    assert "neither sequence number nor operation" in gap.says
    assert "TORCH_FR_BUFFER_SIZE" in gap.says


def test_where_a_log_lacks_ranks_it_says_which(tmp_path: Path) -> None:
    log = (
        Log()
        .times_out(0, 7, "_ALLGATHER_BASE", (4, 16))
        .times_out(1, 7, "_ALLGATHER_BASE", (4, 16))
        .signalled(2, 7, 6, by=9)
    )
    gaps = {gap.kind: gap.ranks for gap in diagnosis_of(log.write(tmp_path / "job.log")).gaps}
    assert gaps == {"log_silent": [3], "log_elsewhere": [9], "no_dumps": []}


def test_every_word_fits_80_columns(tmp_path: Path) -> None:
    """Every check of logs, said: no template is broken, nothing is wider than the terminal."""
    from tests.test_logs import CASES

    for name in ("out of memory", "illegal memory access", "connection closed", "desync report: never joined", "another size",
                 "two ranks out of step", "all joined", "silent member", "fingerprints: dtype", "Xid without a rank",
                 "restarted", "watchdog thread stuck", "sends and receives"):  # fmt: skip
        with open_evidence([CASES[name][0].write(tmp_path / "job.log")]) as evidence:
            diagnosis = Runner(pack(), evidence, "job.log").run("watchdog_timeout")
        text = screen(diagnosis)
        assert not [gap for gap in diagnosis.gaps if gap.kind == "broken_words"], name
        assert "unknown" not in text, text
        assert all(len(line) <= 80 or line.strip().startswith("whichrank ") for line in text.splitlines()), text
