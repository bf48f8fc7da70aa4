"""probing -t TARGET whichrank: probing runs the console script `probing-whichrank`, with PROBING_ENDPOINT set."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import click

from whichrank import __version__
from whichrank.errors import EXIT_NOTHING_FOUND, UsageError
from whichrank.surfaces import cli

_USAGE = "probing -t PID whichrank diagnose"
_PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def _reading(command: Callable[..., int]) -> Callable[..., int]:
    """The options that say how the job is read."""
    for option in (
        click.option(
            "--timeout",
            "timeout_s",
            type=click.IntRange(1, 3600),
            default=60,
            show_default=True,
            metavar="SECONDS",
            help="For a process that does not answer.",
        ),
        click.option("--signal", "signals", is_flag=True, help="Stacks by SIGUSR2, also of one that holds the GIL."),
        click.option("--alone", is_flag=True, help="Ask only this process, not the others of its job."),
        click.option(
            "--into", metavar="STORE", type=click.Path(path_type=Path), help="Default: a new temporary folder."
        ),
    ):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="probing-whichrank")
def group() -> None:
    """Which rank hangs, asked through the probes of a running job: probing -t PID whichrank diagnose

    The process and the others of its job (probes on this host, and those in its cluster.nodes) are asked for their
    Flight Recorder. Nothing has to be installed in the job, and nothing stays in it.
    """


@group.command(context_settings=_PASS_ON, short_help="Read the job and say which rank is to blame.")
@_reading
@click.argument("rest", metavar="[OPTIONS OF whichrank diagnose]", nargs=-1, type=click.UNPROCESSED)
def diagnose(rest: tuple[str, ...], into: Path | None, alone: bool, signals: bool, timeout_s: int) -> int:
    """Read the job and say which rank is to blame; what follows is for `whichrank diagnose`, for example --json."""
    if "--help" in rest or "-h" in rest:
        return cli.run(["diagnose", "--help"])
    return cli.run(["diagnose", *rest, "--", str(_read(into, alone, signals, timeout_s))])


@group.command(context_settings=_PASS_ON, short_help="Read the job and run one read-only SQL statement.")
@_reading
@click.argument("rest", metavar="SQL [OPTIONS OF whichrank query]", nargs=-1, type=click.UNPROCESSED, required=True)
def query(rest: tuple[str, ...], into: Path | None, alone: bool, signals: bool, timeout_s: int) -> int:
    """Read the job and run one read-only SQL statement; what follows is for `whichrank query`."""
    if "--help" in rest or "-h" in rest:
        return cli.run(["query", "--help"])
    return cli.run(["query", str(_read(into, alone, signals, timeout_s)), *rest])


@group.command(short_help="Read the job into a store.")
@_reading
def collect(into: Path | None, alone: bool, signals: bool, timeout_s: int) -> int:
    """Read the job into a store, for whichrank diagnose, query and snapshots side by side."""
    if into is None:
        raise click.UsageError("Missing option '--into'.", click.get_current_context())
    _read(into, alone, signals, timeout_s)
    return EXIT_NOTHING_FOUND


def _read(into: Path | None, alone: bool, signals: bool, timeout_s: int) -> Path:
    """The store with what the job answered. Raises UsageError, NoEvidence, StoreNotWritten."""
    from whichrank.collectors.probing_endpoint import VARIABLE
    from whichrank.engine.probing import collect_from

    target = os.environ.get(VARIABLE, "")
    if not target:
        there = shutil.which("probing") or find_spec("probing")
        raise UsageError(
            "no process is named",
            looked_for=f"{VARIABLE}, which `probing -t PID whichrank` sets",
            next=_USAGE if there else f"pip install probing==0.2.4, then {_USAGE}",
        )
    store = into or Path(tempfile.mkdtemp(prefix="whichrank-probing-"))
    try:
        done: dict[str, Any] = collect_from(target, store, alone=alone, signals=signals, timeout_s=timeout_s)
    except BaseException:
        if into is None:
            shutil.rmtree(store, ignore_errors=True)
        raise
    ranks = ", ".join(map(str, done["ranks"]))
    click.echo(f"whichrank: read {done['records']:,} records of ranks {ranks} -> {store}", err=True)
    for message in done["notes"]:
        click.echo(f"  {message}", err=True)
    return store


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Errors of the user are printed, never raised."""
    return cli.run(arguments, group, "probing-whichrank")


def main() -> NoReturn:
    """The console script."""
    sys.exit(run(sys.argv[1:]))
