"""The layouts of Flight Recorder dumps, version by version.

A dump is a plain object: a dict, or for PyTorch 2.2 a bare list of entries. Names, order and types of fields are those
PyTorch writes. An entry is made in the newest layout; what older ones lack is taken away here.
"""

from __future__ import annotations

import json
import pickle
from typing import Any

Payload = Any
Entry = dict[str, Any]
NOT_BEFORE = {
    "2.9": ("thread_name", "thread_id"),
    "2.4": ("timeout_ms",),
    "2.1": ("p2p_seq_id", "process_group", "input_dtypes", "output_dtypes", "is_p2p"),
    "1.4": ("record_id", "op_id", "time_discovered_started_ns", "time_discovered_completed_ns", "duration_ms"),
}
"""Version -> fields of an entry that came with it."""
TIMES = ("time_discovered_started_ns", "time_discovered_completed_ns")


def is_at_least(version: str, other: str) -> bool:
    """Compare version strings part by part as numbers ("2.10" is newer than "2.9"); a list is older than all."""
    left, right = ([int(x) for x in v.split(".")] if v != "list" else [0] for v in (version, other))
    return left >= right


def in_version(entry: Entry, version: str, mixed_seq: int) -> Entry:
    """An entry of the newest layout in that of `version`; before 2.1 one `seq_id` counted collectives and transfers."""
    gone = {key for since, keys in NOT_BEFORE.items() if not is_at_least(version, since) for key in keys}
    names = {} if is_at_least(version, "2.1") else {"collective_seq_id": "seq_id"}
    values = dict(entry) if is_at_least(version, "2.1") else entry | {"collective_seq_id": mixed_seq}
    if version == "list":
        names["time_created_ns"] = "time_created_us"
        values["time_created_ns"] //= 1000
    return {names.get(key, key): value for key, value in values.items() if key not in gone}


def json_entry(entry: Entry) -> Entry:
    """JSON has no frames, lists for tuples, and 0 for times that are not known."""
    plain = {key: value for key, value in entry.items() if key != "frames"}
    if "process_group" in plain:
        plain["process_group"] = list(plain["process_group"])
    return plain | {key: plain[key] or 0 for key in TIMES if key in plain}


def json_status(status: dict[str, dict[str, int]]) -> dict[str, dict[str, str]]:
    """JSON writes the numbers of pg_status as strings."""
    return {pg: {key: str(value) for key, value in numbers.items()} for pg, numbers in status.items()}


def encode(payload: Payload, as_json: bool = False) -> bytes:
    """Bytes of a dump as PyTorch writes them: pickle protocol 2, or compact JSON with sorted keys."""
    if as_json:
        return json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()
    return pickle.dumps(payload, protocol=2)
