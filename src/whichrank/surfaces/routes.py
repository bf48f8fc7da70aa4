"""The skills that fit a text, for a person."""

from __future__ import annotations

from whichrank.engine.routing import Routing
from whichrank.surfaces.columns import wrapped

_INDENT = "  "


def routes(routing: Routing, width: int = 80) -> str:
    """The lines, without a newline at their end; where nothing fits, what was looked at."""
    if not routing.matches:
        lines = ["no skill fits these words", *_row("searched", routing.searched, width)]
        return "\n".join([*lines, *_row("next", routing.next, width)])
    blocks = []
    for match in routing.matches:
        lines = wrapped(f"{match.skill}: {match.question}", width)
        lines += _row("matched", ", ".join(match.matched), width)
        blocks.append("\n".join([*lines, *_row("run", match.command, width)]))
    return "\n\n".join(blocks)


def _row(label: str, text: str, width: int) -> list[str]:
    parts = wrapped(text, width - 12)
    return [f"{_INDENT}{label if number == 0 else '':<10}{part}" for number, part in enumerate(parts)]
