"""Asking, waiting, and what becomes of the answers, without any process: answers are written by hand."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from tests.collectors.test_flight_recorder_answer import GROUPS, dump, entry
from whichrank.engine.intake import open_evidence
from whichrank.engine.retention import keep_newest
from whichrank.engine.snapshot import convert_all, take
from whichrank.errors import NoEvidence
from whichrank.store import live
from whichrank.store.shards import shards

JOB = "job/0"


def node(store: Path, rank: int, **said: object) -> None:
    who = {"job_id": JOB, "world_size": 3, "host": "elsewhere", "pid": 1, "rank": rank, "state": "running"}
    live.write_whole(live.node_path(store, JOB, rank), json.dumps(who | said).encode())


def answer(store: Path, request: live.Request, rank: int) -> None:
    body = dump(entry(1), entry(2, retired=False))
    head = {"rank": rank, "job_id": JOB, "snapshot_ns": 5, "groups": GROUPS, "parts": [len(body)], "notes": []}
    for stacks in (False, True):
        path = live.answer_path(store, request.snapshot_id, rank, stacks=stacks)
        live.write_whole(path, live.join(head, body))


def answering(store: Path, ranks: list[int], stop: threading.Event) -> threading.Thread:
    """Ranks that answer whatever is asked."""

    def loop() -> None:
        done: set[str] = set()
        while not stop.wait(0.01):
            for request in live.requests(store):
                if request.snapshot_id not in done:
                    done.add(request.snapshot_id)
                    for rank in ranks:
                        answer(store, request, rank)

    thread = threading.Thread(target=loop)
    thread.start()
    return thread


def states(store: Path) -> dict[int, str]:
    with open_evidence([store]) as evidence:
        evidence.show(["cluster.nodes"])
        rows = evidence.connection.table("global.cluster.nodes")
        newest = max(row[0] for row in rows.project("snapshot_id").fetchall())
        return dict(rows.filter(f"snapshot_id = '{newest}'").project("rank, state").fetchall())


def test_who_answers_and_who_does_not(tmp_path: Path) -> None:
    node(tmp_path, 0)
    node(tmp_path, 1, state="failed")
    stop = threading.Event()
    thread = answering(tmp_path, [0], stop)
    try:
        taken = take(tmp_path, 0.5)
    finally:
        stop.set()
        thread.join()
    assert taken.states == {0: "answered", 1: "failed", 2: "never_seen"}
    assert (taken.answered, taken.silent) == ([0], [1, 2])
    assert states(tmp_path) == taken.states


def test_a_dead_process_of_this_host_is_known(tmp_path: Path) -> None:
    import socket
    import subprocess
    import sys

    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    node(tmp_path, 0)
    node(tmp_path, 1, host=socket.gethostname(), pid=process.pid)
    node(tmp_path, 2, host=socket.gethostname(), pid=os.getpid())
    stop = threading.Event()
    thread = answering(tmp_path, [0], stop)
    try:
        taken = take(tmp_path, 1.0)
    finally:
        stop.set()
        thread.join()
    assert taken.states == {0: "answered", 1: "dead", 2: "silent"}


def test_nobody_watches(tmp_path: Path) -> None:
    with pytest.raises(NoEvidence, match="no running job"):
        take(tmp_path, 0.1)


def test_nobody_answers(tmp_path: Path) -> None:
    node(tmp_path, 0)
    with pytest.raises(NoEvidence, match="rank 0 silent"):
        take(tmp_path, 0.1)


def test_all_are_gone_and_left_something(tmp_path: Path) -> None:
    for rank in range(3):
        node(tmp_path, rank, state="failed")
    left = live.ask_once(tmp_path, "exception", JOB, 60.0)
    answer(tmp_path, left, 0)
    taken = take(tmp_path, 5.0)
    assert taken.snapshot_id == left.snapshot_id
    assert taken.states == {0: "answered", 1: "failed", 2: "failed"}


def test_readers_may_convert_at_the_same_time_and_twice(tmp_path: Path) -> None:
    node(tmp_path, 0, world_size=1)
    live.ask(tmp_path, request := live.new_request(JOB, "asked"))
    answer(tmp_path, request, 0)
    threads = [threading.Thread(target=convert_all, args=(tmp_path,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    before = {path: path.stat().st_mtime_ns for paths in shards(tmp_path).values() for path in paths}
    convert_all(tmp_path)
    assert before == {path: path.stat().st_mtime_ns for paths in shards(tmp_path).values() for path in paths}
    with open_evidence([tmp_path]) as evidence:
        assert evidence.count("python.torch_nccl_flight_record") == 2


def test_a_snapshot_that_is_still_being_answered_is_not_read(tmp_path: Path) -> None:
    node(tmp_path, 0)
    live.ask(tmp_path, first := live.new_request(JOB, "asked"))
    answer(tmp_path, first, 0)
    live.close(tmp_path, first.snapshot_id, {0: "answered"})
    live.ask(tmp_path, second := live.new_request(JOB, "asked"))
    answer(tmp_path, second, 0)
    assert convert_all(tmp_path) == [first.snapshot_id]


def test_an_answer_that_cannot_be_read_is_a_note(tmp_path: Path) -> None:
    node(tmp_path, 0)
    live.ask(tmp_path, request := live.new_request(JOB, "asked"))
    answer(tmp_path, request, 0)
    live.write_whole(live.answer_path(tmp_path, request.snapshot_id, 1), b"no json")
    live.close(tmp_path, request.snapshot_id, {0: "answered", 1: "answered"})
    with open_evidence([tmp_path]) as evidence:
        evidence.show(["python.collection_note"])
        notes = evidence.connection.table("global.python.collection_note").project("rank, kind").fetchall()
    assert notes == [(1, "unreadable")]


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    node(tmp_path, 0, world_size=1)
    ids = []
    for _ in range(3):
        live.ask(tmp_path, request := live.new_request(JOB, "asked"))
        answer(tmp_path, request, 0)
        ids.append(request.snapshot_id)
    convert_all(tmp_path)
    ids.sort()
    assert keep_newest(tmp_path, 2) == ids[:1]
    assert live.snapshot_ids(tmp_path) == ids[1:]
    assert {path.stem for path in shards(tmp_path)["torch_nccl_dump"]} == set(ids[1:])
    assert keep_newest(tmp_path, 2) == []
