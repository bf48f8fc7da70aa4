"""An error for a person (stderr) or a machine (a JSON object on stdout)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from whichrank.surfaces.columns import plain, wrapped
from whichrank.surfaces.terminal import colour_of, width_of

if TYPE_CHECKING:
    from whichrank.engine.manifest import Pack


def complain(error: Mapping[str, str | None], as_json: bool) -> None:
    """Print what happened, what was looked for, what to type next. error: `WhichrankError.as_dict()`."""
    if as_json:
        click.echo(json.dumps(error, indent=2, ensure_ascii=False))
        return
    colour = colour_of(sys.stderr)
    click.echo(text(error, width_of(sys.stderr), colour), err=True, color=colour)


def left_out(pack: Pack) -> None:
    """Say on stderr which skills of other people were left out, and why."""
    for note in pack.notes():
        click.echo("\n".join(wrapped(f"note: {note}", width_of(sys.stderr))), err=True)


def text(error: Mapping[str, str | None], width: int = 80, colour: bool = False) -> str:
    """The lines for a person. What DuckDB drew (a caret below a column) keeps its lines."""
    what = plain(str(error["error"]))
    lines = what.splitlines() if "\n" in what else wrapped(what, width - 11)
    shown = ["whichrank: " + lines[0], *(f"           {line}" for line in lines[1:])]
    if colour:
        shown[0] = click.style(shown[0], bold=True)
    for label, key in (("looked for", "looked_for"), ("next", "next")):
        if value := error.get(key):
            for number, line in enumerate(wrapped(value, width - 14)):
                shown.append(f"  {label if number == 0 else '':<12}{line}")
    return "\n".join(line.rstrip() for line in shown)
