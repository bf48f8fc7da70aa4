"""A text as the words that routing compares: English stems, and Chinese characters.

`ProcessGroupNCCL`, `all_reduce` and `flight-recorder` are several words; `allreduce`, `all reduce` and `ALLREDUCE` say
the same. Chinese has no spaces: its words are found as parts of the text, and counted by character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LONGEST_PHRASE = 5  # words that may be written as one
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(rf"[A-Za-z]+|\d+|[{_CHINESE}]+")
_VOWEL = re.compile("[aeiouy]")
# Words that carry a sentence and are not what it is about.
_STOP_WORDS = """
a about after again ago all almost already also always am an and any anyone anything are aren as at be because been
before being but by can cannot could day days did didn do does doesn doing don done down each else even ever every
everything for from get gets getting go goes going gone got had has have having he help her here him his hour hours
how if in into is isn it its itself just keep keeps let like ll look make makes many may maybe me might minute minutes
more most much must my near need needs no not nothing now of off ok on once one only or other others our out over own
per please re really same say says second seconds see seem seems she should show since so some somebody someone
something still such tell than that the their them then there these they thing this those through to together too up
us ve very want was wasn way we week weeks well went were what when where which while who whose why will with without
won would yes yet you your i s t
"""
_STOP = frozenset(_STOP_WORDS.split())
_STOP_CHINESE = re.compile(
    "为什么|怎么办|怎么样|怎么|什么|如何|请问|帮我|帮忙|哪个|哪些|哪里|哪张|是否|可以|能否|一下|一个|一直|突然|现在|已经|所有|"
    "我们|我的|[的了吗呢吧啊在是有我你他它们这那哪请把被和与或就都也很会要想给让从到对着里个]"
)


def stems(text: str) -> list[str]:
    """Its words in order: lower case, without the endings of plural, past and -ing; runs of Chinese as they are."""
    parts = _WORD.findall(_CAMEL.sub(" ", text))
    return [stem(part.lower()) if part.isascii() else part for part in parts]


def stem(word: str) -> str:
    """Collectives -> collectiv, timed -> tim, stopped -> stop. For comparing, not for reading."""
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= 3 and _VOWEL.search(root) and not root.endswith("e"):
            doubled = root[-1] == root[-2] and root[-1] not in "lsz"
            word = root[:-1] if doubled else root
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


@dataclass(frozen=True, slots=True)
class Text:
    """spelt: the words that count (stems, Chinese characters), without stop words and numbers -> as they were written.

    joined: up to LONGEST_PHRASE stems in a row, written as one -> these stems. chinese: all Chinese of it in a row.
    """

    spelt: dict[str, str]
    joined: dict[str, tuple[str, ...]]
    chinese: str

    @classmethod
    def of(cls, text: str) -> Text:
        """Take a text apart."""
        written = _WORD.findall(_CAMEL.sub(" ", text))
        order = [stem(word.lower()) for word in written if word.isascii()]
        spelt = {
            stem(word.lower()): word.lower()
            for word in reversed(written)
            if word.isascii() and not word.isdigit() and len(word) > 1 and word.lower() not in _STOP
        }
        chinese = "".join(word for word in written if not word.isascii())
        spelt |= {character: character for character in _STOP_CHINESE.sub("", chinese)}
        joined = {
            "".join(order[i : i + n]): tuple(order[i : i + n])
            for n in range(min(LONGEST_PHRASE, len(order)), 0, -1)
            for i in range(len(order) - n + 1)
        }
        return cls(spelt, joined, chinese)

    def together(self, phrase: Sequence[str]) -> tuple[str, ...]:
        """The words of this text that say the phrase (stems), () where it does not. Spaces do not matter."""
        one = "".join(phrase)
        if one.isascii():
            return self.joined.get(one, ())
        return tuple(one) if one in self.chinese else ()

    def share(self, known: Iterable[str], neutral: Iterable[str]) -> float:
        """The share of its words that are known, 0 to 1; neutral ones are left out."""
        counted = self.spelt.keys() - set(neutral)
        whole = sum(map(size, counted))
        return sum(map(size, counted & set(known))) / whole if whole else 1.0


def size(word: str) -> float:
    """A word is one; so are two Chinese characters. Words that are about nothing are nothing: `timed out` is one."""
    if word.isascii():
        return 0.0 if word in _STOP or word.isdigit() else 1.0
    return len(word) / 2


def pieces(word: str) -> list[str]:
    """Chinese of four characters or more is several words, as most have two."""
    if word.isascii() or len(word) < 4 or len(word) % 2:
        return [word]
    return [word[i : i + 2] for i in range(0, len(word), 2)]
