"""What a dump says of process groups: members by name (`pg_config`), counters by number (`pg_status`).

The two are tied only through the entries, which carry both. What stays untied is a row of its own: a number without a
name, or a name without a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whichrank.batch import note
from whichrank.collectors.flight_recorder_lookups import Ranks, content_id, ranks_of

COUNTERS = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
_INT64 = 1 << 63

Group = tuple[str | None, str | None]


@dataclass(slots=True)
class GroupRows:
    """rows: torch_nccl_pg_status without who and when. ranks: the lists of members they refer to."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    ranks: list[Ranks] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class _Config:
    desc: str | None
    ranks: Ranks | None


def group_rows(config: object, status: object, tied: Mapping[int, Group]) -> GroupRows:
    """Full outer join of counters and members. tied: pg_id -> (name, description), from the entries."""
    out = GroupRows()
    counters = _counters(status, out)
    by_name, by_id = _members(config, out)
    owner = _owners(by_name, tied)
    for pg_id in sorted({*counters, *tied, *by_id}):
        name, desc = tied.get(pg_id, (None, None))
        known = by_id.get(pg_id)
        if known is None and name is not None and owner.get(name) == pg_id:
            known = by_name[name]
        out.rows.append(_row(pg_id, name, desc, known) | counters.get(pg_id, {}))
    for name in sorted(by_name.keys() - owner.keys()):
        known = by_name[name]
        if name or known.ranks:  # gloo writes an empty group: nothing is said by that
            out.rows.append(_row(None, name or None, None, known))
    out.ranks = [c.ranks for c in (*by_name.values(), *by_id.values()) if c.ranks]
    return out


def _row(pg_id: int | None, name: str | None, desc: str | None, known: _Config | None) -> dict[str, Any]:
    ranks = known.ranks if known else None
    return {
        "pg_id": pg_id,
        "pg_name": name,
        "pg_desc": desc or (known.desc if known else None),
        "ranks_id": ranks.ranks_id if ranks else None,
        "ranks_recorded": True if ranks else None,
    }


def _owners(by_name: Mapping[str, _Config], tied: Mapping[int, Group]) -> dict[str, int]:
    """Name -> the pg_id whose members `pg_config` holds under it.

    `pg_config` has room for one group of a name: the newest of one description. Two groups of one process are never
    the same group, so the others must not get these members.
    """
    owner: dict[str, tuple[bool, int]] = {}
    for pg_id, (name, desc) in tied.items():
        if name is not None and name in by_name:
            mine = (desc == by_name[name].desc, pg_id)
            owner[name] = max(owner.get(name, mine), mine)
    return {name: pg_id for name, (_, pg_id) in owner.items()}


def _counters(status: object, out: GroupRows) -> dict[int, dict[str, int | None]]:
    """pg_id -> its counters; -1 is none. JSON writes the numbers as texts."""
    if status is None:
        return {}
    if not isinstance(status, dict):
        out.notes.append(note("malformed_pg_status", f"pg_status is no dict but {type(status).__name__}"))
        return {}
    counters = {}
    wrong = 0
    for key, value in status.items():
        try:
            counters[_number(key)] = {name: _counter(value.get(name)) for name in COUNTERS}
        except (TypeError, ValueError, AttributeError):
            wrong += 1
    if wrong:
        text = f"{wrong} of {len(status)} groups in pg_status have unusable counters"
        out.notes.append(note("malformed_pg_status", text, count=wrong))
    return counters


def _number(value: object) -> int:
    """A whole number, also as text; ValueError or TypeError where it is none or has more than 64 bits."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError("not a number")
    number = int(value) if isinstance(value, int) or len(value) < 32 else _INT64
    if not -_INT64 <= number < _INT64:
        raise ValueError("more than 64 bits")
    return number


def _counter(value: object) -> int | None:
    if value is None:
        return None
    number = _number(value)
    return number if number >= 0 else None


def _members(config: object, out: GroupRows) -> tuple[dict[str, _Config], dict[int, _Config]]:
    """Members by name, and by pg_id (FR 1.4)."""
    by_name: dict[str, _Config] = {}
    by_id: dict[int, _Config] = {}
    if config is None:
        return by_name, by_id
    if not isinstance(config, dict):
        out.notes.append(note("malformed_pg_config", f"pg_config is no dict but {type(config).__name__}"))
        return by_name, by_id
    wrong = 0
    for key, value in config.items():
        try:
            if isinstance(value, dict):
                by_name[_text(key)] = _Config(_text(value.get("desc") or "") or None, _ranks(value.get("ranks")))
            else:
                by_id[_number(key)] = _Config(None, _ranks(value))
        except (TypeError, ValueError, RecursionError):
            wrong += 1
    if wrong:
        text = f"{wrong} of {len(config)} groups in pg_config have unusable members"
        out.notes.append(note("malformed_pg_config", text, count=wrong))
    return by_name, by_id


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a name")
    return value.encode("utf-8", "replace").decode()


def _ranks(value: object) -> Ranks | None:
    """Members, or None where the dump does not say (gloo writes `[]`)."""
    if value is None:
        return None
    if isinstance(value, str):
        ranks = ranks_of(value)
    else:
        if not isinstance(value, (list, tuple)) or not all(type(r) is int and 0 <= r < _INT64 for r in value):
            raise TypeError("not a list of ranks")
        ranks = Ranks(content_id(list(value)), tuple(value))
    return ranks if ranks.ranks else None
