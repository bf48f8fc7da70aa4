"""Changes to a folder of dumps, made-up or recorded, that must not move the verdict (or only make it less certain).

Every change reads the folder `source`, writes the folder `target` and returns it; files that are no dumps are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.jobs.dump_folder import entries_of, rank_of, read, rewrite, with_entries
from tests.jobs.layouts import Entry, Payload, in_version, json_entry, json_status

# ---- nothing is lost


def shift_clock(source: Path, target: Path, ranks: Iterable[int] = (1,), seconds: float = 300) -> Path:
    """The clocks of some ranks' hosts are ahead."""
    shifted = set(ranks)

    def later(entry: Entry) -> Entry:
        times = {k: v for k, v in entry.items() if k.startswith("time_") and v}
        return entry | {k: v + int(seconds * (1e6 if k.endswith("_us") else 1e9)) for k, v in times.items()}

    def change(rank: int, payload: Payload) -> Payload:
        return with_entries(payload, [later(e) for e in entries_of(payload)]) if rank in shifted else payload

    return rewrite(source, target, change)


def renumber_pg_ids(source: Path, target: Path) -> Path:
    """Every process had made a different number of groups before, so that no two ranks share a pg_id."""

    def change(rank: int, payload: Payload) -> Payload:
        step = 10 * (rank + 1)
        entries = [e | {"pg_id": e["pg_id"] + step} for e in entries_of(payload)]
        if isinstance(payload, list):
            return entries
        top: dict[str, Any] = {}
        if "pg_status" in payload:
            top["pg_status"] = {str(int(pg) + step): status for pg, status in payload["pg_status"].items()}
        if payload["version"] == "1.4":
            top["pg_config"] = {pg + step: ranks for pg, ranks in payload["pg_config"].items()}
        return with_entries(payload, entries, **top) if "entries" in payload else payload | top

    return rewrite(source, target, change)


def rename_files(source: Path, target: Path) -> Path:
    """Other names, which sort in the opposite order of ranks."""
    copied = rewrite(source, target, lambda _, payload: payload)
    for path in sorted(p for p in copied.rglob("*") if p.is_file()):
        rank = rank_of(path)
        if rank is not None and read(path) is not None:
            path.rename(path.with_name(f"node{9999 - rank}_nccl_trace_rank_{rank}"))
    return copied


# ---- evidence is taken away


def to_json(source: Path, target: Path) -> Path:
    """As JSON, which has no frames."""

    def change(_: int, payload: Payload) -> Payload:
        entries = [json_entry(e) for e in entries_of(payload)]
        if isinstance(payload, list):
            return entries
        plain = {k: v for k, v in payload.items() if k != "entries"} | {"nccl_comm_state": {}}
        if "pg_status" in payload:
            plain["pg_status"] = json_status(payload["pg_status"])
        return plain | ({"entries": entries} if entries else {})

    return rewrite(source, target, change, to_json=True)


def only_active(source: Path, target: Path) -> Path:
    """Only entries whose completion was not seen, as onlyActive dumps them; gloo dumps stay as they are."""

    def change(_: int, payload: Payload) -> Payload:
        left = [e for e in entries_of(payload) if e["state"] != "completed"]
        return with_entries(payload, left) if left or not isinstance(payload, dict) or "entries" in payload else payload

    return rewrite(source, target, change)


def remove_frames(source: Path, target: Path) -> Path:
    """Without stacks."""

    def change(_: int, payload: Payload) -> Payload:
        bare = [{k: v for k, v in e.items() if k != "frames"} for e in entries_of(payload)]
        return with_entries(payload, bare) if bare else payload

    return rewrite(source, target, change)


def empty_pg_config(source: Path, target: Path) -> Path:
    """Without the members of groups."""

    def change(_: int, payload: Payload) -> Payload:
        return payload if isinstance(payload, list) else payload | {"pg_config": {}}

    return rewrite(source, target, change)


def to_version_1_4(source: Path, target: Path) -> Path:
    """In the layout of PyTorch 2.3: no group names, one seq_id for both kinds, no inner entries of collectives."""

    def change(_: int, payload: Payload) -> Payload:
        if isinstance(payload, list) or payload["version"] == "1.4":
            return payload
        closed = {(e["pg_id"], e["collective_seq_id"]) for e in entries_of(payload) if _closes_collective(e)}
        kept = [e for e in entries_of(payload) if not _is_inner(e, closed)]
        names = {e["process_group"][0]: e["pg_id"] for e in kept}
        members = {
            names[n]: _ranks(g["ranks"]) for n, g in payload["pg_config"].items() if n in names and g["ranks"] != "[]"
        }
        old = [in_version(e, "1.4", e["collective_seq_id"] + e["p2p_seq_id"]) for e in kept]
        return {"version": "1.4", "pg_config": members, "entries": old}

    return rewrite(source, target, change, to_json=False)


def drop_rank(source: Path, target: Path, rank: int) -> Path:
    """The file of one rank is missing."""
    return rewrite(source, target, lambda of, payload: None if of == rank else payload)


def unnotice(source: Path, target: Path, rank: int) -> Path:
    """The recorder of one rank had not seen yet that its newest finished operation is finished."""

    def change(of: int, payload: Payload) -> Payload:
        done = [i for i, e in enumerate(entries_of(payload)) if e["state"] == "completed"]
        if of != rank or not done:
            return payload
        entries = list(entries_of(payload))
        entry = entries[done[-1]]
        unseen: Entry = {"state": "scheduled", "retired": False}
        if "time_discovered_completed_ns" in entry:
            unseen["time_discovered_completed_ns"] = None
        entries[done[-1]] = {k: v for k, v in (entry | unseen).items() if k != "duration_ms"}
        return with_entries(payload, entries, **_one_less_completed(payload, entry))

    return rewrite(source, target, change)


def _one_less_completed(payload: Payload, entry: Entry) -> dict[str, Any]:
    """pg_status as it was before `entry` had been seen to finish."""
    if isinstance(payload, list) or str(entry["pg_id"]) not in payload.get("pg_status", {}):
        return {}
    before = [
        e["p2p_seq_id"] if e["is_p2p"] else e["collective_seq_id"]
        for e in entries_of(payload)
        if e["pg_id"] == entry["pg_id"] and e["state"] == "completed" and e is not entry
    ]
    key = str(entry["pg_id"])
    status = payload["pg_status"][key] | {"last_completed_collective": before[-1] if before else -1}
    return {"pg_status": payload["pg_status"] | {key: status}}


def _closes_collective(entry: Entry) -> bool:
    return str(entry["profiling_name"]).endswith("coalesced") and not entry["input_sizes"]


def _is_inner(entry: Entry, closed: set[tuple[int, int]]) -> bool:
    """An operation inside a coalesced collective (transfers in a batch were always recorded)."""
    inside = (entry["pg_id"], entry["collective_seq_id"]) in closed
    return inside and not entry["is_p2p"] and entry["state"] != "completed" and not _closes_collective(entry)


def _ranks(text: str) -> list[int]:
    """The members in a string like "[0, 1]"."""
    return [int(r) for r in text.strip("[]").split(",") if r.strip()]


@dataclass(frozen=True)
class Transform:
    """A change without further choices. `loses`: what evidence goes, "" where the verdict must stay the same."""

    name: str
    apply: Callable[[Path, Path], Path]
    loses: str = ""


TRANSFORMS = (
    Transform("shift_clock", shift_clock),
    Transform("renumber_pg_ids", renumber_pg_ids),
    Transform("rename_files", rename_files),
    Transform("to_json", to_json, "stacks"),
    Transform("remove_frames", remove_frames, "stacks"),
    Transform("only_active", only_active, "finished operations"),
    Transform("empty_pg_config", empty_pg_config, "members"),
    Transform("to_version_1_4", to_version_1_4, "names of groups, dtypes, timeouts, pg_status"),
)
