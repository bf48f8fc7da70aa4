"""whichrank query: one guarded statement on the evidence."""

from __future__ import annotations

from pathlib import Path

import click

from whichrank.surfaces.parameters import name_and_value
from whichrank.surfaces.terminal import progress

FORMATS = ("table", "json", "jsonl", "csv")


@click.command(short_help="Run one read-only SQL statement on the evidence.")
@click.argument("path", metavar="PATH", type=click.Path(path_type=Path))
@click.argument("sql", metavar="SQL")
@click.option(
    "--param",
    "parameters",
    metavar="NAME=VALUE",
    multiple=True,
    callback=name_and_value,
    help="Of what is named in SQL.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def command(path: Path, sql: str, parameters: dict[str, str], as_json: bool, form: str) -> int:
    """Run one read-only SQL statement on the evidence.

    PATH: as for diagnose. SQL may name python.*, global.python.*, facts.*, checks.* and statements.*, for example
    "FROM statements.collective_alignment"; see: whichrank tables.

    The answer is cut at 200 rows or 50,000 characters, the statement stops after 30 s; WHICHRANK_SQL_ROWS,
    WHICHRANK_SQL_CHARACTERS, WHICHRANK_SQL_SECONDS and WHICHRANK_SQL_MEMORY_MIB set other limits.
    """
    from whichrank.engine.inquiry import guard_for
    from whichrank.engine.intake import open_evidence
    from whichrank.engine.manifest import Pack
    from whichrank.errors import EXIT_CANNOT_DIAGNOSE, QueryFailed
    from whichrank.store.confine import confine_memory, hard_stop
    from whichrank.store.guard import Limits
    from whichrank.surfaces.complaint import complain
    from whichrank.surfaces.grid import answer_text

    form = "json" if as_json else form
    limits = Limits.from_environment()
    with progress("reading evidence") as step:
        evidence = open_evidence([path], on_progress=step, comments=True)
    with evidence:
        guard = guard_for(evidence, Pack(), sql, limits, parameters)
        confine_memory(limits.memory_mib)
        late = QueryFailed(f"stopped after {limits.seconds:g} s", next="filter by rank or group first, then join")
        with hard_stop(limits.seconds, lambda: complain(late.as_dict(), form == "json"), EXIT_CANNOT_DIAGNOSE):
            answer = guard.run(sql)
    click.echo(answer_text(answer, form), nl=False)
    if answer.hint and form != "json":
        click.echo(f"whichrank: {answer.hint}", err=True)
    return 0
