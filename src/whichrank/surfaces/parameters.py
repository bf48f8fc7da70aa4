"""Options that several commands have: `--param NAME=VALUE`, `--lang`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from whichrank.engine.words import LANGUAGES


def name_and_value(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """The pairs of a repeated option; a usage error for what is no pair."""
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.BadParameter(f"{name!r} is not of the form NAME=VALUE", context, parameter)
    return {name: value for name, _, value in pairs}


def language(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--lang`, for every command that prints findings; it hands over `language`."""
    return click.option(
        "--lang",
        "language",
        type=click.Choice(LANGUAGES),
        help="Language in which findings say what they say; default: that of LANG.",
    )(function)
