"""whichrank snapshot: ask every rank of a running job for its recorder."""

from __future__ import annotations

import json
from pathlib import Path

import click

from whichrank.surfaces.terminal import progress


@click.command(short_help="Ask every rank of a running job for its recorder.")
@click.argument("store", metavar="STORE", type=click.Path(path_type=Path))
@click.option(
    "--wait", "wait_s", metavar="SECONDS", default=30.0, show_default=True, help="For ranks that do not answer."
)
@click.option("--job", "job_id", metavar="ID", help="Of several in one store; default: the one heard of last.")
@click.option("--keep", metavar="N", type=click.IntRange(1), help="Remove all but the newest N snapshots of the store.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(store: Path, wait_s: float, job_id: str | None, keep: int | None, as_json: bool) -> int:
    """Ask every rank of a running job for its recorder, and show who answers.

    STORE: the folder the job writes to (WHICHRANK_STORE). A rank that does not answer is evidence, too.
    """
    from whichrank.engine.retention import keep_newest
    from whichrank.engine.snapshot import take

    with progress("waiting for ranks") as step:
        taken = take(store, wait_s, job_id=job_id, on_progress=step)
    removed = keep_newest(store, keep) if keep else []
    if as_json:
        said = {"snapshot_id": taken.snapshot_id, "job_id": taken.job_id, "answered": taken.answered}
        silent = {str(rank): taken.states[rank] for rank in taken.silent}
        click.echo(
            json.dumps(said | {"silent": silent, "removed": removed, "seconds": round(taken.seconds, 3)}, indent=2)
        )
        return 0
    click.echo(f"{len(taken.answered)} of {len(taken.states)} ranks of {taken.job_id} answered: {taken.snapshot_id}")
    for rank in taken.silent:
        click.echo(f"  rank {rank} did not: {taken.states[rank]} ({taken.hosts.get(rank) or 'host unknown'})")
    if removed:
        click.echo(f"  {len(removed)} older snapshots removed")
    click.echo(f"next: whichrank diagnose {store}")
    return 0
