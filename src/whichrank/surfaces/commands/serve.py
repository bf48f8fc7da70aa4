"""whichrank serve: the tools of an agent, over MCP."""

from __future__ import annotations

from pathlib import Path

import click

from whichrank.errors import UsageError


@click.command(short_help="Serve the evidence to an agent (MCP, on stdin and stdout).")
@click.argument("store", metavar="STORE", type=click.Path(path_type=Path))
def command(store: Path) -> int:
    """Serve the evidence to an agent, over the Model Context Protocol on stdin and stdout.

    STORE: as for diagnose: a folder of dumps or logs, or a store. It is read anew at every call, so it may still grow.

    Answers are cut at 200 rows or 50,000 characters; the limits of `whichrank query` hold here too.
    """
    try:
        from whichrank.surfaces.mcp_server import make
    except ImportError as error:
        if not (error.name or "").startswith("mcp"):
            raise
        raise UsageError("the MCP server needs the extra agent", next='pip install "whichrank[agent]"') from None
    if not store.exists():
        click.echo(f"whichrank: {store} does not exist yet; calls will say so until it does", err=True)
    make(store.absolute()).run("stdio")
    return 0
