"""Text in columns of a terminal: a wide character (Chinese, Japanese, Korean, emoji) takes two."""

from __future__ import annotations

import re
import textwrap
from unicodedata import combining, east_asian_width

# No line begins with what closes, and none ends with what opens.
_CLOSING = "，。、；：？！）】》」』”’％…,.;:?!)]}%"
_OPENING = "（【《「『“‘([{"


def columns(text: str) -> int:
    """How many columns the text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def padded(text: str, width: int) -> str:
    """The text with blanks behind it, at least `width` columns."""
    return text + " " * max(0, width - columns(text))


def plain(text: str) -> str:
    """Text of a file or a process, harmless to a terminal: what is neither printable nor a line end becomes a space.

    The name of a function, a path, a line of a log may hold escape sequences, or turn the direction of writing.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, all of them `plain`; a longer word keeps a line of its own. Never empty."""
    text = plain(text)
    if text.isascii():
        return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
    lines = [""]
    for piece in _pieces(text):
        if columns(lines[-1] + piece.rstrip()) <= width or not lines[-1].strip():
            lines[-1] += piece
        else:
            lines[-1] = lines[-1].rstrip()
            lines.append(piece.lstrip())
    return [line.strip() for line in lines if line.strip()] or [""]


def _pieces(text: str) -> list[str]:
    """What may not be taken apart: words with the blanks behind them, and single wide characters with punctuation."""
    pieces: list[str] = []
    for word in re.findall(r"\S+\s*", " ".join(text.split())):
        fresh = True
        for character in word:
            wide = east_asian_width(character) in "WF"
            joins = not wide and not fresh and not _is_wide(pieces[-1][-1])
            closes = character in _CLOSING and not fresh
            opened = not fresh and pieces[-1][-1] in _OPENING
            if joins or closes or opened or character.isspace():
                pieces[-1] += character
            else:
                pieces.append(character)
            fresh = False
    return pieces


def _is_wide(character: str) -> bool:
    return east_asian_width(character) in "WF"
