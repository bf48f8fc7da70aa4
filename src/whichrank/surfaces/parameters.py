"""`--param NAME=VALUE`, for every command that has it."""

from __future__ import annotations

import click


def name_and_value(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """The pairs of a repeated option; a usage error for what is no pair."""
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.BadParameter(f"{name!r} is not of the form NAME=VALUE", context, parameter)
    return {name: value for name, _, value in pairs}
