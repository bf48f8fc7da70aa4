"""whichrank tables: what can be queried, with columns, units and meaning."""

from __future__ import annotations

import json
from typing import Any

import click


@click.command(short_help="Print what a statement can name, with columns, units and meaning.")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str | None, as_json: bool) -> None:
    """Print what a statement can name, with columns, units and meaning.

    NAME: of one, for its columns (torch_nccl_flight_record, facts.entry, statements.collective_alignment).
    """
    from whichrank.engine.manifest import Pack
    from whichrank.engine.reference import describe, relations
    from whichrank.surfaces.grid import grid

    library = Pack().library
    if name is None:
        found = relations(library)
        if as_json:
            click.echo(json.dumps(found, indent=2, ensure_ascii=False))
            return
        click.echo(
            grid(["name", "one row is", "what"], [[r["name"], r["grain"], r["doc"]] for r in found], 80), nl=False
        )
        click.echo("\nEvery table is there twice: as named for this host, and as global.<name> for every rank.")
        return
    relation: dict[str, Any] = describe(library, name)
    if as_json:
        click.echo(json.dumps(relation, indent=2, ensure_ascii=False))
        return
    click.echo(f"{relation['name']}: {relation['doc']}\nOne row: {relation['grain']}.")
    for p in relation["parameters"]:
        click.echo(f"Parameter {p['name']} ({p['type']}, default {p['default']}): {p['doc']}")
    click.echo()
    rows = [[c["name"], c["type"] or "", c["unit"] or "", c["doc"]] for c in relation["columns"]]
    click.echo(grid(["column", "type", "unit", "what"], rows, 120), nl=False)
