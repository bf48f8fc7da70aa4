"""Process groups: counters by number, members by name, tied through the entries."""

from __future__ import annotations

from typing import Any

import pytest

from tests.collectors.dumps import convert, entry, groups, kinds, notes, payload, rows
from whichrank.collectors.flight_recorder_lookups import ranks_of


def counters(enqueued: int = 5, started: int = -1, completed: int = 4) -> dict[str, int]:
    return {
        "last_enqueued_collective": enqueued,
        "last_started_collective": started,
        "last_completed_collective": completed,
    }


def config(**members: str) -> dict[str, dict[str, str]]:
    return {name: {"name": name, "desc": f"d{name}", "ranks": ranks} for name, ranks in members.items()}


def shown(dump: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(g["pg_id"], g["pg_name"], g["pg_desc"], g["ranks"], g["last_enqueued_collective"]) for g in groups(dump)]


def test_both_sides_are_tied_by_an_entry() -> None:
    dump = payload(
        [entry(pg_id=3, process_group=("tp", "dtp"))],
        pg_config=config(tp="[0, 1]"),
        pg_status={"3": counters()},
    )
    assert shown(dump) == [(3, "tp", "dtp", [0, 1], 5)]
    (group,) = groups(dump)
    assert (group["ranks_recorded"], group["last_started_collective"]) == (True, None)


def test_what_no_entry_ties_stands_alone() -> None:
    dump = payload([], pg_config=config(tp="[0, 1]"), pg_status={"3": counters()})
    assert shown(dump) == [(3, None, None, None, 5), (None, "tp", "dtp", [0, 1], None)]


def test_an_entry_alone_makes_a_group_known() -> None:
    assert shown(payload([entry()], pg_config={}, pg_status={})) == [(0, "0", "default_pg", None, None)]


def test_of_several_groups_of_one_name_the_newest_has_the_members() -> None:
    calls = [entry(pg_id=i, process_group=("tp", "dtp")) for i in (7, 2, 5)]
    dump = payload(calls, pg_config=config(tp="[0, 1]"), pg_status={})
    assert [(pg_id, ranks) for pg_id, _, _, ranks, _ in shown(dump)] == [(2, None), (5, None), (7, [0, 1])]
    assert [g["ranks_recorded"] for g in groups(dump)] == [None, None, True]


def test_the_description_says_which_of_them_it_is() -> None:
    """torch keeps one group per name and description; the pickle has room for one description only."""
    calls = [entry(pg_id=2, process_group=("tp", "dtp")), entry(pg_id=7, process_group=("tp", "another"))]
    dump = payload(calls, pg_config=config(tp="[0, 1]"), pg_status={})
    assert shown(dump) == [(2, "tp", "dtp", [0, 1], None), (7, "tp", "another", None, None)]


def test_gloo_writes_an_empty_group_after_new_group() -> None:
    dump = payload(pg_config={"": {"name": "", "desc": "", "ranks": "[]"}}, pg_status={"0": counters()})
    assert shown(dump) == [(0, "0", "default_pg", None, 5)]
    assert kinds(convert(dump)) == []


def test_gloo_with_only_the_default_group_says_its_members_without_a_name() -> None:
    dump = payload(pg_config={"": {"name": "", "desc": "", "ranks": "[0, 1]"}}, pg_status={"0": counters()})
    assert shown(dump) == [(0, "0", "default_pg", None, 5), (None, None, None, [0, 1], None)]


def test_equal_lists_of_ranks_are_one_row() -> None:
    dump = payload([], pg_config=config(a="[0, 1]", b="[0,1]", c="[1, 0]"), pg_status={})
    assert sorted(r["ranks"] for r in rows(convert(dump), "torch_nccl_ranks")) == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    "ranks",
    ["", "0, 1", "[0, 1", "[0.5]", "[-1]", '["0"]', "{}", "[true]", "__import__('os')", [0, "1"], 3, f"[{1 << 70}]",
     "[" * 100_000, "[null]", "\ud800"],
)  # fmt: skip
def test_members_that_cannot_be_read_are_noted(ranks: object) -> None:
    dump = payload(pg_config={"0": {"name": "0", "desc": "d", "ranks": ranks}, "1": config(x="[5]")["x"]})
    (note,) = notes(convert(dump))
    assert (note["kind"], note["severity"], note["count"]) == ("malformed_pg_config", "warning", 1)
    assert [g["ranks"] for g in groups(dump)] == [None, [5]]


@pytest.mark.parametrize(
    "status", [{"x": counters()}, {"0": None}, {"0": {"last_enqueued_collective": 1 << 70}}, [1], 5]
)
def test_counters_that_cannot_be_read_are_noted(status: object) -> None:
    dump = payload(pg_status=status)
    assert kinds(convert(dump)) == ["malformed_pg_status"]
    assert shown(dump) == [(0, "0", "default_pg", [0, 1, 2, 3], None)]


@pytest.mark.parametrize("broken", [5, [1], "x"])
def test_a_config_of_another_type_is_noted(broken: object) -> None:
    assert kinds(convert(payload(pg_config=broken))) == ["malformed_pg_config"]


def test_a_world_of_thousands_is_parsed_once() -> None:
    world = str(list(range(4_096)))
    ranks_of.cache_clear()
    for _ in range(5):
        convert(payload(pg_config=config(world=world)))
    assert ranks_of.cache_info().misses == 1
