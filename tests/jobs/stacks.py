"""Stacks of made-up ranks, written down as `py-spy dump --json` does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

C10D = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
MAIN = ("<module> /srv/train.py:90", "train /srv/train.py:40")
"""The outermost frames of every rank."""
REDUCE = (*MAIN, "backward /srv/train.py:60", f"all_reduce {C10D}:3157")
BARRIER = (*MAIN, "end /srv/train.py:80", f"barrier {C10D}:5100")
LOADING = (
    *MAIN,
    "__next__ /opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py:741",
    "_try_get_data /opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py:1284",
    "get /usr/lib/python3.11/queue.py:180",
    "wait /usr/lib/python3.11/threading.py:331",
)
STEPPING = (*MAIN, "step /srv/train.py:70")


def thread(
    frames: Sequence[str], *, name: str | None = "MainThread", pid: int = 100, os_id: int | None = None, **more: Any
) -> dict[str, Any]:
    """One thread. frames: outermost first, as `function file:line`."""
    told = []
    for frame in reversed(frames):
        func, _, place = frame.partition(" ")
        file, _, line = place.rpartition(":")
        told.append({"name": func, "filename": file, "module": None, "line": int(line), "locals": None})
    head = {"pid": pid, "thread_id": 1, "thread_name": name, "os_thread_id": os_id or pid, "active": False}
    return {**head, "owns_gil": False, "frames": told, "process_info": None, **more}


def write(folder: Path, ranks: Mapping[int, Sequence[str]], *later: Mapping[int, Sequence[str]]) -> Path:
    """A file per rank; `later` are further looks at the same ranks, in the same file."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, frames in ranks.items():
        looks = [frames, *(look[rank] for look in later if rank in look)]
        text = "\n".join(json.dumps([thread(look, pid=100 + rank)]) for look in looks)
        (folder / f"stack_rank_{rank}.json").write_text(text)
    return folder
