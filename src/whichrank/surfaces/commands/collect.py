"""whichrank collect: dumps -> shards of a store."""

from __future__ import annotations

import json
from pathlib import Path

import click

from whichrank.surfaces.terminal import progress


@click.command(short_help="Turn dumps into shards of a store.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--into", "store", metavar="STORE", required=True, type=click.Path(path_type=Path), help="Folder to add to."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(paths: tuple[Path, ...], store: Path, as_json: bool) -> int:
    """Turn dumps into shards of a store, a folder that many ranks and hosts may add to at the same time.

    Collecting the same dumps twice changes nothing.
    """
    from whichrank.engine.intake import collect

    with progress("collecting") as step:
        done = collect(paths, store, on_progress=step)
    if as_json:
        click.echo(json.dumps(done, indent=2))
    else:
        found = [f"{len(done['ranks'])} ranks, {done['records']:,} records"] if done["ranks"] else []
        found += [f"{count:,} rows of {table}" for table, count in done["rows"].items()]
        click.echo(f"{', '.join(found)} -> {store}")
        for message in done["notes"]:
            click.echo(f"  {message}")
        if done["kept"]:
            click.echo(f"  {len(done['kept'])} raw files kept in {store / 'raw'}")
    return 0
