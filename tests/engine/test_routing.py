"""Words -> skill: the table of phrases, and what holds for any text."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from whichrank.engine.manifest import Entry, Pack
from whichrank.engine.routing import LONGEST, route
from whichrank.engine.tokens import Text, stem

PHRASES: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "phrases.yaml").read_text(encoding="utf-8"))
PACK = Pack()


@pytest.mark.parametrize(("skill", "text"), [(s, t) for s, texts in PHRASES.items() for t in texts])
def test_the_first_skill(skill: str, text: str) -> None:
    found = [match.skill for match in route(text, PACK).matches]
    assert found[:1] == ([] if skill == "none" else [skill])


def test_the_table_is_large_and_a_third_of_it_matches_nothing() -> None:
    total = sum(map(len, PHRASES.values()))
    assert total >= 60
    assert len(PHRASES["none"]) * 3 >= total


@pytest.mark.parametrize("skill", PACK.manifest.skills, ids=lambda entry: entry.id)
def test_every_skill_answers_to_its_name_and_its_question(skill: Entry) -> None:
    question = PACK.skill(skill.id).question
    for text in (skill.id, skill.folder, skill.id.replace("_", " ").upper(), question):
        assert route(text, PACK).matches[0].skill == skill.id, text


@pytest.mark.parametrize("skill", PACK.manifest.skills, ids=lambda entry: entry.id)
def test_every_keyword_of_more_than_one_word_is_enough(skill: Entry) -> None:
    for words in PACK.skill(skill.id).keywords.values():
        for word in words:
            assert skill.id in [match.skill for match in route(word, PACK).matches], word


def test_words_begin_and_end_at_boundaries() -> None:
    assert not route("install a stallion, timeouts_x are untimeoutable", PACK).matches
    assert route("TIMEOUTS", PACK).matches
    assert route("time-outs of the flightrecorder", PACK).matches[0].skill == "watchdog_timeout"


def test_an_empty_answer_says_what_was_searched() -> None:
    routing = route("how do I install it", PACK).as_dict()
    assert routing["matches"] == []
    assert all(entry.id in routing["searched"] for entry in PACK.manifest.skills)
    assert routing["next"] == "whichrank skills"


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (("collective", "collectives"), True),
        (("time", "timed", "timing"), True),
        (("stop", "stopped", "stopping"), True),
        (("string", "str"), False),
        (("process", "processes"), True),
    ],
)
def test_stems(words: tuple[str, ...], same: bool) -> None:
    assert (len({stem(word) for word in words}) == 1) is same


def test_a_name_is_taken_apart_at_its_capitals() -> None:
    assert Text.of("ProcessGroupNCCL.cpp").spelt.keys() == {"process", "group", "nccl", "cpp"}


@given(st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    scores = [match.score for match in route(text, PACK).matches]
    assert scores == sorted(scores, reverse=True)


def test_a_pasted_log_is_looked_at_in_part() -> None:
    assert not route("x " * LONGEST + "NCCL watchdog timeout", PACK).matches
