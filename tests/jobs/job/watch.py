"""A thread in every worker that says how far its rank is, and dumps the recorder when it is asked to.

It talks to the one who records through files in one folder: `status_<rank>.json` (written again and again), and
`dump` (made by the other side: dump now).
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import threading
import time
from pathlib import Path
from typing import Any

RECORDER: Any = importlib.import_module("torch._C._distributed_c10d")
POLL_S = 0.1


class Watch(threading.Thread):
    """Watches the recorder of this process; `done` is set by the training script when it has nothing more to do."""

    def __init__(self, folder: Path, rank: int) -> None:
        super().__init__(name="watch", daemon=True)
        self.folder, self.rank = folder, rank
        self.done = threading.Event()

    def run(self) -> None:
        """Report until asked to dump, then dump once."""
        while not (self.folder / "dump").exists():
            self._write(f"status_{self.rank}.json", json.dumps(self._status()).encode())
            time.sleep(POLL_S)
        (self.folder / "evidence").mkdir(exist_ok=True)
        self._write(f"evidence/comm_lib_trace_rank_{self.rank}", RECORDER._dump_fr_trace())

    def _status(self) -> dict[str, Any]:
        """Process id, entries so far, age in seconds of the oldest open one (null: none), and whether all is done."""
        entries = pickle.loads(RECORDER._dump_fr_trace(includeStackTraces=False)).get("entries", [])
        opened = [entry["time_created_ns"] for entry in entries if not entry["retired"]]
        age = time.time() - min(opened) / 1e9 if opened else None
        return {"pid": os.getpid(), "entries": len(entries), "open_for_s": age, "done": self.done.is_set()}

    def _write(self, name: str, data: bytes) -> None:
        """Whole or not at all: the other side may read at any time."""
        part = self.folder / f"{name}.part"
        part.write_bytes(data)
        part.rename(self.folder / name)
