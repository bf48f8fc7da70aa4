"""Work in the order of who needs whom."""

from __future__ import annotations

from threading import Barrier, Event

import pytest

from whichrank.engine.side_by_side import side_by_side


def test_nothing_starts_before_what_it_needs() -> None:
    done: list[str] = []

    def work(name: str) -> str:
        assert set(needs[name]) <= set(done)
        done.append(name)
        return name.upper()

    needs = {"d": ["b", "c"], "b": ["a"], "c": ["a"], "a": [], "e": []}
    assert side_by_side(needs, work, lambda: None) == {name: name.upper() for name in needs}
    assert sorted(done) == sorted(needs)
    assert side_by_side({}, work, lambda: None) == {}


def test_what_does_not_need_each_other_runs_at_the_same_time() -> None:
    meeting = Barrier(2, timeout=60)  # broken, and an error, where the second waits for the first to end
    side_by_side({"a": [], "b": []}, lambda name: meeting.wait(), lambda: None)


def test_the_longest_path_goes_first() -> None:
    order: list[str] = []
    side_by_side({"a": [], "z": [], "long": [], "after": ["long"], "end": ["after"]}, order.append, lambda: None)
    assert order[0] == "long"


def test_a_failure_stops_the_rest() -> None:
    stopped = Event()

    def work(name: str) -> None:
        if name == "bad":
            raise ValueError("no")
        assert stopped.wait(60)

    with pytest.raises(ValueError, match="no"):
        side_by_side({"bad": [], "long": [], "never": ["bad"]}, work, stopped.set)
