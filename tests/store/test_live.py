"""Requests, heartbeats and answers in the store."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from whichrank.store import live

JOB = "job/0"


def answer(store: Path, request: live.Request, rank: int, *, stacks: bool = True) -> None:
    for with_stacks in (False, True) if stacks else (False,):
        path = live.answer_path(store, request.snapshot_id, rank, stacks=with_stacks)
        live.write_whole(path, live.join({"rank": rank}, b""))


def node(store: Path, rank: int, job: str = JOB) -> None:
    live.write_whole(live.node_path(store, job, rank), f'{{"job_id": "{job}", "world_size": 2}}'.encode())


def test_what_many_ranks_notice_is_one_request(tmp_path: Path) -> None:
    got: list[live.Request] = []
    threads = [
        threading.Thread(target=lambda: got.append(live.ask_once(tmp_path, "suspicion", JOB, 60.0))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 16
    assert {request.snapshot_id for request in got} == {request.snapshot_id for request in live.requests(tmp_path)}
    assert len(live.requests(tmp_path)) == 1


def test_the_next_event_is_another_request(tmp_path: Path) -> None:
    first = live.ask_once(tmp_path, "suspicion", JOB, 60.0)
    time.sleep(0.01)
    assert live.ask_once(tmp_path, "suspicion", JOB, 0.001) != first
    assert live.ask_once(tmp_path, "suspicion", "another", 60.0).job_id == "another"


def test_requests_sort_by_time_and_name_their_job(tmp_path: Path) -> None:
    ids = []
    for _ in range(3):
        request = live.new_request(JOB, "asked")
        live.ask(tmp_path, request)
        ids.append(request.snapshot_id)
        time.sleep(0.002)
    assert ids == sorted(ids) == [request.snapshot_id for request in live.requests(tmp_path)]
    assert all(live.job_key(JOB) in id for id in ids)


def test_what_is_no_request_is_left_out(tmp_path: Path) -> None:
    live.ask(tmp_path, request := live.new_request(JOB, "asked"))
    for name, text in {"a.json": "{", "b.json": "[]", "c.json": '{"snapshot_id": 1}', ".d.json": "x"}.items():
        (tmp_path / live.REQUESTS / name).write_text(text)
    assert live.requests(tmp_path) == [request]


def test_complete_when_all_have_answered(tmp_path: Path) -> None:
    live.ask(tmp_path, request := live.new_request(JOB, "asked"))
    node(tmp_path, 0)
    node(tmp_path, 1)
    answer(tmp_path, request, 0)
    assert not live.complete(tmp_path, request.snapshot_id)
    answer(tmp_path, request, 1, stacks=False)
    assert not live.complete(tmp_path, request.snapshot_id), "stacks come later"
    answer(tmp_path, request, 1)
    assert live.complete(tmp_path, request.snapshot_id)


def test_complete_when_closed_or_quiet(tmp_path: Path) -> None:
    live.ask(tmp_path, request := live.new_request(JOB, "asked"))
    node(tmp_path, 1)
    answer(tmp_path, request, 0)
    assert not live.complete(tmp_path, request.snapshot_id)
    past = time.time() - live.STALE_S - 1
    folder = tmp_path / live.ANSWERS / request.snapshot_id
    for path in (folder, *folder.iterdir()):
        os.utime(path, (past, past))
    assert live.complete(tmp_path, request.snapshot_id)

    live.ask(tmp_path, other := live.new_request(JOB, "asked"))
    answer(tmp_path, other, 0)
    live.close(tmp_path, other.snapshot_id, {0: "answered", 1: "dead"})
    assert live.complete(tmp_path, other.snapshot_id)
    assert live.closing_states(tmp_path, other.snapshot_id) == {0: "answered", 1: "dead"}


def test_the_newest_job_is_the_one_heard_of_last(tmp_path: Path) -> None:
    node(tmp_path, 0, "old")
    node(tmp_path, 0, "new")
    os.utime(live.node_path(tmp_path, "old", 0), (1, 1))
    assert live.newest_job(tmp_path) == "new"
    assert [n["job_id"] for n in live.nodes(tmp_path)] == ["new", "old"]


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    live.write_whole(tmp_path / "x", b"1")
    live.write_whole(tmp_path / "x", b"2")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == b"2"
