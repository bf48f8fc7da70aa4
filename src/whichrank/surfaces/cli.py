"""The command line: a group of lazily imported commands, exit codes, and errors without tracebacks.

Exit codes: 0 nothing found, 1 findings, 2 could not diagnose, 64 wrong call, 130 interrupted, 141 reader gone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from whichrank import __version__
from whichrank.errors import EXIT_NOTHING_FOUND, EXIT_USAGE, WhichrankError
from whichrank.surfaces.complaint import complain

EXIT_INTERRUPTED = 130
EXIT_READER_GONE = 141
# In the order of --help. The module of a command has its name and holds a click command `command`.
COMMANDS = ("diagnose", "snapshot", "collect", "query", "tables", "skills", "ask", "serve")


class _Lazy(click.Group):
    """Imports the module of a command when its name is typed, or its line of --help is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"whichrank.surfaces.commands.{cmd_name}").command
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="whichrank")
def cli() -> None:
    """Which rank hung the training job, at which collective, and why.

    Start with: whichrank diagnose FOLDER_WITH_DUMPS
    """


def run(arguments: Sequence[str], group: click.Group = cli, name: str = "whichrank") -> int:
    """Run one command line and return its exit code. Errors of the user are printed, never raised."""
    as_json = "--json" in arguments
    try:
        code = group.main(list(arguments), prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except WhichrankError as error:
        complain(error.as_dict(), as_json)
        return error.exit_code
    except click.ClickException as error:
        return _usage(error, as_json)
    except (KeyboardInterrupt, click.Abort):
        click.echo("whichrank: stopped", err=True)
        return EXIT_INTERRUPTED
    except (BrokenPipeError, SystemExit):  # without standalone_mode, click exits for one reason only: a broken pipe
        # The interpreter flushes once more on its way out; give it something that takes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_READER_GONE
    return code if isinstance(code, int) else EXIT_NOTHING_FOUND


def _usage(error: click.ClickException, as_json: bool) -> int:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return EXIT_USAGE
    command = context.command_path if context else "whichrank"
    complain({"error": error.format_message(), "looked_for": None, "next": f"{command} --help"}, as_json)
    return EXIT_USAGE


def main() -> NoReturn:
    """The console script."""
    sys.exit(run(sys.argv[1:]))
