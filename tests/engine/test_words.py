"""Ranks, durations and places in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import TemplateError

from whichrank.engine.words import numbers, ranks_text, render, seconds_text


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        (None, "unknown ranks"),
        ([], "no rank"),
        ([2], "rank 2"),
        ([3, 1, 0], "ranks 0, 1, 3"),
        ([0, 1, 2], "ranks 0-2"),
        ([*range(15), 16], "ranks 0-14, 16"),
        ([*range(0, 200, 2)], "ranks 0, 2, 4, 6, 8, 10, 12, 14 (+92)"),
        ([7, 7], "rank 7"),
    ],
)
def test_ranks(ranks: list[int] | None, text: str) -> None:
    assert ranks_text(ranks) == text


@given(st.sets(st.integers(0, 300), max_size=60))
def test_every_rank_is_shown_or_counted(ranks: set[int]) -> None:
    shown, _, rest = numbers(sorted(ranks)).partition(" (+")
    count = int(rest.rstrip(")")) if rest else 0
    for piece in filter(None, shown.split(", ")):
        first, _, last = piece.partition("-")
        count += int(last or first) - int(first) + 1
        assert set(range(int(first), int(last or first) + 1)) <= ranks
    assert count == len(ranks)
    assert len(shown) < 80


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "an unknown time"), (0.44, "0.4 s"), (12.3, "12 s"), (119.0, "119 s"), (600, "10 min"), (9000, "2.5 h")],
)
def test_seconds(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ 'dp'|at(12) }}, {{ 'dp'|at(none) }}", "dp #12, dp"),
        ("{{ one|agree('has', 'have') }} {{ two|agree('has', 'have') }}", "has have"),
        ("{{ nothing }}", "unknown"),
        ("{% if two %}\n  a\n{% endif %}\n b", "a b"),
        ("no braces", "no braces"),
    ],
)
def test_templates(template: str, text: str) -> None:
    assert render(template, {"one": [1], "two": [1, 2], "nothing": None}) == text


@pytest.mark.parametrize("template", ["{{ nope }}", "{{ one", "{{ one.__class__.__base__ }}", "{{ one|nope }}"])
def test_broken_templates(template: str) -> None:
    with pytest.raises(TemplateError):
        render(template, {"one": [1]})
