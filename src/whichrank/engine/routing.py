"""Words -> skill. What `whichrank ask` and agents call; the manifest's words are the only source.

    routing = route("NCCL watchdog 超时")     # a question, keywords, a line of a log; English and Chinese
    routing.matches[0].skill                  # "watchdog_timeout"; matches is [] where nothing fits
    routing.as_dict()                         # the same as plain data, for JSON

Each word of the text counts once, with what it is worth to the skill at best: 1 in a keyword that stands in the text
as a whole, SCATTERED where the words of the keyword stand apart in it, nothing where one of them is missing. A word
of tags, question or description is worth PROSE, divided by the number of skills that say it. A skill fits that has
collected ENOUGH, or less from a text that is about little else. The keywords of the pack (in the root manifest) are
the words of the field, as `training`, `job`: they speak neither for nor against a skill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from whichrank.engine.manifest import Pack, Skill
from whichrank.engine.tokens import Text, pieces, size, stems

ENOUGH = 2.0  # a keyword of two words, in a text of any length
MOST = 0.55  # else: what was collected, times the share of the text's words that were known
SCATTERED = 0.6
PROSE = 0.3
LONGEST = 20_000  # characters that are looked at


@dataclass(frozen=True, slots=True)
class Match:
    """A skill that fits. score: higher is better, within one routing. matched: the words found, as the pack says them.

    command: what to type, with PATH for the evidence.
    """

    skill: str
    category: str
    question: str
    score: float
    matched: list[str]
    command: str


@dataclass(frozen=True, slots=True)
class Routing:
    """The answer. matches: best first. searched: what was looked at, in words. next: a command."""

    text: str
    matches: list[Match]
    searched: str
    next: str

    def as_dict(self) -> dict[str, Any]:
        """Plain data: text, matches (skill, category, question, score, matched, command), searched, next."""
        return asdict(self)


def route(text: str, pack: Pack | None = None, *, limit: int = 5) -> Routing:
    """The skills that answer `text`, best first, at most `limit`; of equals the manifest's first.

    Reads the manifest and nothing else: no evidence, no database. Raises BrokenPack.
    """
    pack = pack or Pack()
    skills = list(pack.skills())
    asked = Text.of(text[:LONGEST])
    neutral = {stem for words in pack.manifest.keywords.values() for word in words for stem in _parts(word)}
    prose = {skill.id: _prose(skill) for skill in skills}
    shared = Counter(word for words in prose.values() for word in words)
    matches = [m for skill in skills if (m := _match(asked, skill, prose[skill.id], shared, neutral))]
    matches.sort(key=lambda match: -match.score)  # stable
    return Routing(
        text=text,
        matches=matches[:limit],
        searched="keywords (English and Chinese), tags, questions and descriptions of "
        + ", ".join(skill.id for skill in skills),
        next=matches[0].command if matches else "whichrank skills",
    )


def _match(asked: Text, skill: Skill, prose: set[str], shared: Counter[str], neutral: set[str]) -> Match | None:
    worth: dict[str, float] = {}
    matched: dict[str, None] = {}
    for value, keyword, words in sorted(_found(asked, skill), key=lambda found: -found[0]):
        matched |= {} if words.keys() <= worth.keys() else {keyword: None}
        worth |= {word: value for word, value in words.items() if value > worth.get(word, 0.0)}
    for word in sorted((asked.spelt.keys() & prose) - worth.keys() - neutral):
        worth[word] = PROSE / shared[word]
        matched[asked.spelt[word]] = None
    score = sum(worth.values())
    if score < ENOUGH and score * asked.share(worth, neutral) < MOST:
        return None
    command = f"whichrank diagnose PATH --skill {skill.id}"
    return Match(skill.id, skill.category, skill.question, round(score, 2), list(matched), command)


def _found(asked: Text, skill: Skill) -> Iterator[tuple[float, str, dict[str, float]]]:
    """The keywords that stand in the text: all that each is worth, itself, and by word of the text."""
    for keyword in (skill.id, *(word for words in skill.keywords.values() for word in words)):
        if words := _worth(asked, stems(keyword)):
            yield sum(words.values()), keyword, words


def _worth(asked: Text, keyword: list[str]) -> dict[str, float]:
    """Word of the text -> its worth by this keyword; {} where the keyword is not in the text."""
    if span := asked.together(keyword):
        return dict.fromkeys(span, sum(map(size, keyword)) / len(span))
    parts = [piece for word in keyword for piece in pieces(word)]
    spans = [asked.together([part]) for part in parts]
    if len(parts) < 2 or not all(spans):
        return {}
    found = zip(parts, spans, strict=True)
    return {word: SCATTERED * size(part) / len(span) for part, span in found for word in span}


def _prose(skill: Skill) -> set[str]:
    return set(Text.of(" ".join((*skill.tags, skill.question, skill.description))).spelt)


def _parts(word: str) -> list[str]:
    return [part for stem in stems(word) for part in ([stem] if stem.isascii() else stem)]
