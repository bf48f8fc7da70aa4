"""Whatever goes wrong in the collector, training goes on: one warning, and a note where a note can be written."""

from __future__ import annotations

import pickle
import shutil
import signal
import time
from pathlib import Path

from tests.live.running import wait_until
from tests.live.watched import watched
from whichrank.store import live
from whichrank.suspicion import overdue


def test_without_a_store_one_warning(tmp_path: Path) -> None:
    with watched(tmp_path) as job:
        job.do("import os; os.environ.pop('WHICHRANK_STORE', None); whichrank.watch()")
        code, out, complaint = job.finish()
    assert (code, out) == (0, "trained\n")
    assert complaint.count("whichrank:") == 1
    assert "WHICHRANK_STORE" in complaint


def test_an_unwritable_store_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file is where the folder should be")
    with watched(tmp_path) as job:
        job.do(f"whichrank.watch({str(job.store)!r}); import time; time.sleep(2.5)")
        code, out, complaint = job.finish()
    assert (code, out) == (0, "trained\n")
    assert complaint.count("whichrank:") == 1
    assert "training goes on" in complaint


def test_a_store_that_vanishes_and_comes_back_is_answered_again(tmp_path: Path) -> None:
    with watched(tmp_path, recorder=True) as job:
        job.watch()
        job.answer(job.ask())
        shutil.rmtree(job.store)
        job.store.write_text("gone")
        job.do("import time; time.sleep(6.0)")  # a heartbeat fails
        job.store.unlink()
        job.answer(job.ask())
        code, _, complaint = job.finish()
    assert code == 0
    assert complaint.count("whichrank:") <= 1


def test_a_full_disk_costs_the_answer_and_leaves_a_note_in_the_next(tmp_path: Path) -> None:
    with watched(tmp_path, recorder=True) as job:
        job.watch()
        job.do("import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (0, r.RLIM_INFINITY))")  # no file may grow
        lost = job.ask()
        job.do("import time; time.sleep(2.0)")
        assert not live.answer_path(job.store, lost, 0).exists()
        assert not list((job.store / live.ANSWERS).rglob("*.fr")), "nothing half-written has a name"
        job.do("r.setrlimit(r.RLIMIT_FSIZE, (r.RLIM_INFINITY, r.RLIM_INFINITY))")
        head = job.answer(job.ask())
        code, _, complaint = job.finish()
    assert [n["kind"] for n in head["notes"]] == ["answer_lost"]
    assert lost in head["notes"][0]["message"]
    assert code == 0
    assert complaint.count("whichrank:") == 1


def test_torch_without_a_recorder_is_told_in_a_note(tmp_path: Path) -> None:
    with watched(tmp_path) as job:
        job.do("import types; sys.modules['torch._C._distributed_c10d'] = types.ModuleType('bare')")
        job.watch()
        head = job.answer(job.ask())
        code, _, complaint = job.finish()
    (note,) = head["notes"]
    assert note["kind"] == "no_recorder"
    assert "TORCH_FR_BUFFER_SIZE" in note["message"]
    assert (code, complaint) == (0, "")


def test_a_recorder_that_is_off_is_told_in_a_note(tmp_path: Path) -> None:
    with watched(tmp_path, recorder=True) as job:
        job.do("import os; os.environ['TORCH_FR_BUFFER_SIZE'] = '0'")
        job.watch()
        (note,) = job.answer(job.ask())["notes"]
    assert note["kind"] == "recorder_off"


def test_a_recorder_that_raises_is_an_answer_all_the_same(tmp_path: Path) -> None:
    with watched(tmp_path, recorder=True) as job:
        job.do("def broken(*a, **k): raise ZeroDivisionError('ring')")
        job.do("Recorder._dump_fr_trace = broken")
        job.watch()
        (note,) = job.answer(job.ask())["notes"]
        assert job.finish()[0] == 0
    assert note["kind"] == "recorder_failed"


def test_forked_children_are_nobody(tmp_path: Path) -> None:
    with watched(tmp_path, recorder=True) as job:
        job.watch()
        job.do("import os; child = os.fork() or os._exit(0)")
        job.do("child = os.fork() or sys.exit(0)")  # runs what is registered for the end
        job.do("import time; child = os.fork() or time.sleep(100)")
        job.do("import signal; os.kill(child, signal.SIGTERM); ended = os.waitpid(child, 0)[1]")
        job.do("assert ended == signal.SIGTERM, ended")
        head = job.answer(job.ask())
        (node,) = live.nodes(job.store)
        assert len(live.snapshot_ids(job.store)) == 1, "no child has left one"
        assert node["state"] == "running"
        assert job.finish()[0] == 0
    assert head["pid"] == job.process.pid


def test_the_interpreter_may_end_in_the_middle_of_a_dump(tmp_path: Path) -> None:
    with watched(tmp_path, recorder=True) as job:
        job.do("fake.delay_s = 1.0")
        job.watch()
        job.ask()
        code, out, complaint = job.finish()
    assert (code, out, complaint) == (0, "trained\n", "")
    assert live.nodes(job.store)[0]["state"] == "exited"


def test_an_exception_that_ends_the_job_is_left_behind_and_shown_as_ever(tmp_path: Path) -> None:
    with watched(tmp_path, recorder=True) as job:
        job.watch()
        job.tell("raise ValueError('a bad batch')")
        code, _, complaint = job.finish()
    assert code == 1
    assert complaint.endswith("ValueError: a bad batch\n")
    assert job.left()["why"] == "ValueError: a bad batch"
    assert live.nodes(job.store)[0]["state"] == "failed"


def test_sigterm_in_a_c_call_is_answered_and_ends_the_process(tmp_path: Path) -> None:
    with watched(tmp_path, recorder=True) as job:
        job.watch()
        job.tell("import ctypes; print('in', flush=True) or ctypes.CDLL(None).sleep(600)")
        assert job.process.stdout
        assert job.process.stdout.readline() == "in\n"
        job.process.terminate()
        code = job.process.wait(60)
    assert code == -signal.SIGTERM
    assert job.left()["why"] == "SIGTERM"
    assert live.nodes(job.store)[0]["state"] == "terminated"


def test_a_handler_of_the_job_stays_in_charge(tmp_path: Path) -> None:
    with watched(tmp_path, recorder=True) as job:
        job.do("import signal; signal.signal(signal.SIGTERM, lambda *a: sys.exit(7))")
        job.watch()
        job.process.terminate()
        assert job.process.wait(60) == 7
    assert not live.snapshot_ids(job.store)


def test_a_handler_that_comes_later_stays_in_charge_too(tmp_path: Path) -> None:
    with watched(tmp_path, recorder=True) as job:
        job.watch()
        job.do("import signal; signal.signal(signal.SIGTERM, lambda *a: sys.exit(7))")
        job.process.terminate()
        assert job.process.wait(60) == 7


def test_every_so_many_seconds_if_asked(tmp_path: Path) -> None:
    with watched(tmp_path, recorder=True) as job:
        job.watch(every_s=0.3)
        wait_until(lambda: len(live.snapshot_ids(job.store)) >= 3, "three snapshots")
        assert {request.reason for request in live.requests(job.store)} == {"interval"}


def test_an_operation_that_is_unfinished_for_too_long_is_suspicious_once(tmp_path: Path) -> None:
    entry = "{'pg_id': 0, 'record_id': 7, 'retired': %s, 'state': 'scheduled', 'time_created_ns': %s}"
    with watched(tmp_path, recorder=True) as job:
        job.do(f"fake.entries = [{entry % (True, 1)}, {entry % (False, 'time.time_ns()')}]")
        job.watch(suspect_after_s=1.0)
        wait_until(lambda: live.snapshot_ids(job.store), "a suspicion")
        job.do("time.sleep(3.0)")
        assert [request.reason for request in live.requests(job.store)] == ["suspicion"]


def test_parts_of_coalesced_calls_which_never_finish_are_not_suspicious() -> None:
    def entry(number: int, *, done: bool, **more: int) -> dict[str, object]:
        state = "completed" if done else "scheduled"
        return {"pg_id": 0, "record_id": number, "retired": done, "state": state, "time_created_ns": number, **more}

    def names(*entries: dict[str, object]) -> list[str]:
        return list(overdue(pickle.dumps({"entries": list(entries)}), None))

    part, closing = entry(1, done=False), entry(2, done=True)
    assert names(part, closing) == []
    assert names(part, closing, entry(3, done=False)) == ["0:3:3"]
    assert names(part) == ["0:1:1"]
    assert names(part, closing | {"pg_id": 1}) == ["0:1:1"]
    fresh = {"time_created_ns": time.time_ns()}
    assert names(part | fresh) == []
    assert names(entry(1, done=False, timeout_ms=1)) == ["0:1:1"]
