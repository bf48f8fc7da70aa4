"""Changes that must not move the verdict; where evidence is removed it may only become less certain."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.jobs.dump_folder import rank_of, read
from tests.jobs.metamorphic import TRANSFORMS, Transform, drop_rank, unnotice
from tests.jobs.stories import STORIES
from tests.jobs.story import Truth
from tests.verdict import FIXTURES, as_certain, at_most_less_certain, case, cases, truth_of, verdict_of

# pg_ids that count the groups of the job are themselves the evidence there
NUMBERS_TELL = {"order_of_groups_never_used"}
# That those who wait added a call (L5) is told by the places in the program alone; without stacks V4 names who is idle.
ONLY_STACKS_TELL = {"added_call_on_two_of_eight": ("rank_not_joined", [0, 2, 3, 5, 6, 7])}


def _stories() -> list[str]:
    """A small set of stories that together exercise every rule and every category, found greedily."""
    left = {tag for story in STORIES.values() for tag in (*story.rules, story.truth.category)}
    chosen: list[str] = []
    while left:
        name = max(sorted(STORIES), key=lambda n: len(left & {*STORIES[n].rules, STORIES[n].truth.category}))
        chosen.append(name)
        left -= {*STORIES[name].rules, STORIES[name].truth.category}
    return chosen


@cache
def _fixture_truth(name: str) -> Truth:
    return truth_of(case(name)["truth"])


def _subjects() -> list[str]:
    dumps = [name for name in cases() if not name.startswith("log_")]
    return [*dumps, *(f"story:{name}" for name in _stories())]


def _place(subject: str, folder: Path) -> tuple[Path, Truth]:
    """Where the dumps of a subject are, and the truth about them."""
    if subject.startswith("story:"):
        story = STORIES[subject.removeprefix("story:")]
        return story.write(folder / "dumps"), story.truth
    return FIXTURES / subject / "evidence", _fixture_truth(subject)


def _innocents(source: Path, truth: Truth) -> list[int]:
    ranks = {
        rank for path in source.rglob("*") if path.is_file() and read(path) and (rank := rank_of(path)) is not None
    }
    return sorted(ranks - {rank for some in (truth.culprit_ranks, *truth.also_culprits) for rank in some})


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: t.name)
@pytest.mark.parametrize("subject", _subjects())
def test_transform(subject: str, transform: Transform, tmp_path: Path) -> None:
    if transform.name == "renumber_pg_ids" and subject.removeprefix("story:") in NUMBERS_TELL:
        return
    source, truth = _place(subject, tmp_path)
    verdict = verdict_of(transform.apply(source, tmp_path / "changed"))
    if transform.loses and verdict == ONLY_STACKS_TELL.get(subject.removeprefix("story:")):
        return
    held = at_most_less_certain(verdict, truth) if transform.loses else as_certain(verdict, truth)
    assert held, (verdict, truth)


@pytest.mark.parametrize("subject", _subjects())
def test_dropping_an_innocent_rank_accuses_nobody_who_is_seen(subject: str, tmp_path: Path) -> None:
    source, truth = _place(subject, tmp_path)
    for rank in _innocents(source, truth)[:1]:
        verdict = verdict_of(drop_rank(source, tmp_path / "changed", rank))
        assert at_most_less_certain(verdict, truth, [rank]), (verdict, truth)


@pytest.mark.parametrize("subject", _subjects())
def test_one_unnoticed_operation_of_an_innocent_rank_is_nothing(subject: str, tmp_path: Path) -> None:
    source, truth = _place(subject, tmp_path)
    for rank in _innocents(source, truth)[-1:]:
        verdict = verdict_of(unnotice(source, tmp_path / "changed", rank))
        assert as_certain(verdict, truth) or verdict == ("insufficient_evidence", []), (verdict, truth)
