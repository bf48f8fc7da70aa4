"""Reads and rewrites folders of dumps, made-up or recorded, without executing anything that a pickle may ask for."""

from __future__ import annotations

import io
import json
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.jobs.layouts import Entry, Payload, encode

Change = Callable[[int, Payload], Payload]
"""(global rank, dump) -> changed dump; None leaves the file out."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"a dump is plain data, but this one names {module}.{name}")


def rank_of(path: Path) -> int | None:
    """The global rank a file name ends in (before a suffix), None if it ends in none."""
    match = re.search(r"(\d+)(\.\w*)?$", path.name)
    return int(match[1]) if match else None


def read(path: Path) -> tuple[Payload, bool] | None:
    """A dump and whether it was JSON; None for a file that is no whole dump."""
    data = path.read_bytes()
    for load, is_json in ((json.loads, True), (lambda b: _PlainUnpickler(io.BytesIO(b)).load(), False)):
        try:
            payload = load(data)
        except (ValueError, pickle.UnpicklingError, EOFError, KeyError, IndexError, UnicodeDecodeError):
            continue
        if isinstance(payload, list) or (isinstance(payload, dict) and "version" in payload):
            return payload, is_json
    return None


def entries_of(payload: Payload) -> list[Entry]:
    """The entries of a dump of any version."""
    found: list[Entry] = payload if isinstance(payload, list) else payload.get("entries", [])
    return found


def with_entries(payload: Payload, entries: list[Entry], **top: Any) -> Payload:
    """The dump with other entries (and other top-level values)."""
    return entries if isinstance(payload, list) else payload | {"entries": entries} | top


def rewrite(source: Path, target: Path, change: Change, to_json: bool | None = None) -> Path:
    """Write `target` with every dump changed; None from `change` drops the file."""
    for path in sorted(p for p in source.rglob("*") if p.is_file()):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        dump, rank = read(path), rank_of(path)
        if dump is None or rank is None:
            shutil.copyfile(path, place)
            continue
        payload, was_json = dump
        changed = change(rank, payload)
        if changed is not None:
            place.write_bytes(encode(changed, was_json if to_json is None else to_json))
    return target
