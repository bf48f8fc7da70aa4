"""whichrank ask: from words to a skill, and with --run to its verdict."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import click

from whichrank.errors import EXIT_CANNOT_DIAGNOSE, EXIT_NOTHING_FOUND, UsageError, WhichrankError
from whichrank.surfaces.parameters import language, name_and_value

_LINE = re.compile(r"-[^=\s]*\s")


class _Text(click.Command):
    """Takes `- [0] Timeout at collective: ALLREDUCE, #31`, a line of a log, for a text, and not for an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        lines = [argument for argument in args if _LINE.match(argument)]
        if lines:
            args = [*(argument for argument in args if argument not in lines), "--", *lines]
        return super().parse_args(ctx, args)


@click.command(cls=_Text, short_help="Find the skill for a question or a line of a log.")
@click.argument("words", metavar="TEXT...", nargs=-1, required=True)
@click.option("--run", "paths", metavar="PATH", multiple=True, type=click.Path(path_type=Path), help="Run it on this.")
@click.option(
    "--param", "parameters", metavar="NAME=VALUE", multiple=True, callback=name_and_value, help="Of the skill."
)
@language
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --run that of diagnose.")
def command(
    words: tuple[str, ...], paths: tuple[Path, ...], parameters: dict[str, Any], language: str | None, as_json: bool
) -> int:
    """Find the skill for a question, keywords, or a line of a log; in English or Chinese.

    --run PATH runs the first on evidence: dumps, logs, a store. May be given several times.

    Exit code: 0 a skill fits, 2 none does, 64 wrong call; with --run those of diagnose.
    """
    from whichrank.engine.manifest import Pack
    from whichrank.engine.routing import route
    from whichrank.surfaces.complaint import left_out

    pack = Pack()
    routing = route(" ".join(words), pack)
    left_out(pack)
    if parameters and not paths:
        raise UsageError("--param is for --run", next="whichrank ask TEXT --run PATH --param NAME=VALUE")
    if paths:
        if not routing.matches:
            raise WhichrankError("no skill fits these words", looked_for=routing.searched, next=routing.next)
        from whichrank.surfaces.commands.diagnose import Output, answer

        return answer(paths, routing.matches[0].skill, parameters, Output(as_json, language=language))
    if as_json:
        click.echo(json.dumps(routing.as_dict(), indent=2, ensure_ascii=False))
    else:
        from whichrank.surfaces.routes import routes
        from whichrank.surfaces.terminal import width_of

        click.echo(routes(routing, width_of(sys.stdout)))
    return EXIT_NOTHING_FOUND if routing.matches else EXIT_CANNOT_DIAGNOSE
