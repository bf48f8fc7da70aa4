"""What a process says of itself in the store: who it is, that it lives, and what its recorder holds."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from whichrank.collectors import flight_recorder_live as recorder
from whichrank.store import live


class Answerer:
    """Writes the files of one process. Raises OSError where the store cannot be written to."""

    def __init__(self, store: Path, job_id: str) -> None:
        self.store = store
        self.job_id = job_id
        self.answered: set[str] = set()
        self.described: dict[str, Any] = {}
        self._started_ns = time.time_ns()
        self._missed: list[str] = []  # answers that could not be written, to be told with the next one
        self._lock = threading.Lock()

    # ---- who we are --------------------------------------------------------------------------------------------------
    def beat(self) -> None:
        """Say who we are when that has changed, else touch the file."""
        who = self._who("running")
        if who == self.described and (path := live.node_path(self.store, self.job_id, who["rank"])).exists():
            os.utime(path)
        else:
            self._describe(who)

    def describe(self, state: str) -> None:
        """Say who we are, and how we end. It is the last word."""
        self._describe(self._who(state))

    def _who(self, state: str) -> dict[str, Any]:
        return recorder.identity() | {"job_id": self.job_id, "started_ns": self._started_ns, "state": state}

    def _describe(self, who: dict[str, Any]) -> None:
        if who["rank"] is not None:
            path = live.node_path(self.store, self.job_id, who["rank"])
            live.write_whole(path, json.dumps(who).encode(), sync=False)
            self.described = who

    # ---- answers -----------------------------------------------------------------------------------------------------
    def answer(self, request: live.Request, end: dict[str, Any] | None = None) -> None:
        """First without stacks, because that is quick; the bytes are on the disk before anything else happens.

        end: why this process ends (`why`, `raised_in`); it says more than an answer given before.
        """
        with self._lock:
            if request.snapshot_id in self.answered and end is None:
                return
            self.answered.add(request.snapshot_id)
            try:
                found = self._write_answer(request, end, stacks=False)
            except OSError as error:
                self._missed.append(f"{request.snapshot_id}: {error}")
                raise
        if found and request.stacks and end is None:
            self._write_answer(request, end, stacks=True)

    def _write_answer(self, request: live.Request, end: dict[str, Any] | None, *, stacks: bool) -> bool:
        head, body = recorder.answer(stacks=stacks)
        if head["rank"] is None:
            return False
        head |= {"job_id": self.job_id, "snapshot_id": request.snapshot_id, "reason": request.reason} | (end or {})
        head["notes"] += self._notes(head["rank"], end)
        path = live.answer_path(self.store, request.snapshot_id, head["rank"], stacks=stacks)
        live.write_whole(path, live.join(head, body))
        self._missed.clear()
        return bool(head["parts"])

    def _notes(self, rank: int, end: dict[str, Any] | None) -> list[dict[str, str]]:
        notes = [{"kind": "answer_lost", "message": f"rank {rank} could not write {text}"} for text in self._missed]
        if end:
            notes.append({"kind": "exception", "message": f"rank {rank} ended with {end['why']}"})
        return notes
