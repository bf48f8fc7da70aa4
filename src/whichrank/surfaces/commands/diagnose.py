"""whichrank diagnose: read the evidence, run a skill, print the verdict."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from whichrank.errors import UsageError
from whichrank.surfaces.cluster import joined
from whichrank.surfaces.parameters import language, name_and_value
from whichrank.surfaces.terminal import colour_of, progress, width_of


@click.command(short_help="Say which rank is to blame for a hang, and why.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--skill", metavar="ID", default="watchdog_timeout", show_default=True, help="See: whichrank skills.")
@click.option(
    "--param", "parameters", metavar="NAME=VALUE", multiple=True, callback=name_and_value, help="Of the skill."
)
@click.option("--snapshot", "ask", is_flag=True, help="PATH is the store of a running job: ask its ranks first.")
@click.option(
    "--wait",
    "wait_s",
    metavar="SECONDS",
    default=2.5,
    show_default=True,
    help="For ranks that do not answer --snapshot.",
)
@click.option("--ray", metavar="ADDRESS", help="Read dumps on a Ray cluster: auto, local, or its address.")
@click.option("--local", is_flag=True, help="Look only at what this host collected.")
@click.option("--chain", is_flag=True, help="Also run the next step of the verdict, and that of the next.")
@language
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object; its keys never change meaning.")
@click.option("--all", "everything", is_flag=True, help="Also show consequences, meanings and every gap.")
@click.option("--sql", "as_sql", is_flag=True, help="Print every statement that was run, for any DuckDB client.")
def command(
    paths: tuple[Path, ...],
    skill: str,
    parameters: dict[str, Any],
    ask: bool,
    wait_s: float,
    ray: str | None,
    local: bool,
    chain: bool,
    language: str | None,
    as_json: bool,
    everything: bool,
    as_sql: bool,
) -> int:
    """Say which rank is to blame for a hang, and why.

    PATH: Flight Recorder dumps (files, or folders with one per rank; pickle or JSON), or a store.

    Exit code: 0 nothing found, 1 findings, 2 could not diagnose, 64 wrong call.
    """
    if local:
        if "use_global" in parameters:
            raise UsageError("--local and --param use_global say the same", next="leave one of them out")
        parameters = {**parameters, "use_global": False}
    if ask:
        _ask(paths, wait_s)
    how = Output(as_json, everything, as_sql, language)
    return answer(paths, skill, parameters, how, ray=ray, chain=chain)


@dataclass(frozen=True, slots=True)
class Output:
    """What to print. language: None is that of the environment."""

    as_json: bool = False
    everything: bool = False
    as_sql: bool = False
    language: str | None = None


def answer(
    paths: tuple[Path, ...],
    skill: str,
    parameters: dict[str, Any],
    how: Output,
    *,
    ray: str | None = None,
    chain: bool = False,
) -> int:
    """Run the skill, print its diagnosis and, with chain, those that follow; the exit code of the first."""
    started = perf_counter()
    from whichrank.engine import intake

    with joined(ray, keep=True) as cluster, progress("reading evidence") as step:
        reading = intake.begin(paths, on_progress=step, newest=True, cluster=cluster)
        from whichrank.engine import runner  # the slow part of a start, while the dumps are being read
        from whichrank.engine.chain import Step
        from whichrank.engine.language import language_of

        spoken = how.language or language_of()
        if chain:
            steps = runner.diagnose_chain(reading, skill, parameters, cluster=cluster, language=spoken)
        else:
            found = runner.diagnose(reading, skill, parameters, cluster=cluster, language=spoken)
            steps = [Step(skill, parameters, found)]
    first = steps[0].diagnosis
    if how.as_json:
        data = first.as_dict(sql=how.as_sql)
        data |= {"chain": [done.as_dict(sql=how.as_sql) for done in steps]} if chain else {}
        click.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))
    elif how.as_sql:
        click.echo("\n".join(done.diagnosis.script() for done in steps), nl=False)
    else:
        from whichrank.surfaces.text import path_of, screen

        colour, width = colour_of(sys.stdout), width_of(sys.stdout)
        click.echo(path_of(steps, width) + "\n", color=colour) if chain else None
        for number, done in enumerate(steps, 1):
            seconds = perf_counter() - started if number == len(steps) else None
            text = screen(done.diagnosis, everything=how.everything, width=width, colour=colour, seconds=seconds)
            click.echo(text + "\n" * (number < len(steps)), color=colour)
    return first.exit_code


def _ask(paths: tuple[Path, ...], wait_s: float) -> None:
    from whichrank.engine.snapshot import take

    if len(paths) != 1:
        raise UsageError("--snapshot asks the job of one store", next="whichrank diagnose STORE --snapshot")
    with progress("waiting for ranks") as step:
        take(paths[0], wait_s, stacks_s=1.0, on_progress=step)
