"""whichrank collect: dumps -> shards of a store."""

from __future__ import annotations

import json
from pathlib import Path

import click

from whichrank.errors import UsageError
from whichrank.surfaces.cluster import joined
from whichrank.surfaces.columns import plain
from whichrank.surfaces.terminal import progress


@click.command(short_help="Turn dumps into shards of a store.")
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--into", "store", metavar="STORE", type=click.Path(path_type=Path), help="Folder to add to.")
@click.option("--debug-server", "url", metavar="URL", help="Ask a running job: torch.distributed.debug on its rank 0.")
@click.option("--pipe", metavar="STEM", type=click.Path(path_type=Path), help="Ask NCCL ranks here: STEM<rank>.pipe.")
@click.option("--dumps", metavar="STEM", type=click.Path(path_type=Path), help="With --pipe: they dump to STEM<rank>.")
@click.option("--ray", metavar="ADDRESS", help="Convert dumps on a Ray cluster: auto, local, or its address.")
@click.option("--stacks", is_flag=True, help="Look where the ranks of this host stand (py-spy, /proc).")
@click.option("--pid", "pids", metavar="PID", multiple=True, type=int, help="With --stacks: these processes only.")
@click.option(
    "--samples", metavar="N", default=3, show_default=True, type=click.IntRange(1, 100), help="Looks of --stacks."
)
@click.option(
    "--every",
    "every_s",
    metavar="SECONDS",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.0),
    help="Between looks.",
)
@click.option(
    "--compact",
    "compacted",
    metavar="STORE",
    type=click.Path(path_type=Path),
    help="Put the shards of a store into one file, STORE/global.duckdb.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    paths: tuple[Path, ...],
    store: Path | None,
    url: str | None,
    pipe: Path | None,
    dumps: Path | None,
    ray: str | None,
    stacks: bool,
    pids: tuple[int, ...],
    samples: int,
    every_s: float,
    compacted: Path | None,
    as_json: bool,
) -> int:
    """Turn dumps into shards of a store, a folder that many ranks and hosts may add to at the same time.

    Collecting the same dumps twice changes nothing.

    --pipe and --dumps are the job's TORCH_NCCL_DEBUG_INFO_PIPE_FILE and TORCH_FR_DUMP_TEMP_FILE: every rank of this
    host that has such a pipe is asked to dump.

    --stacks looks at every process here that is a rank, several times, to tell who moves. It needs the extra `host` and
    the right to read them (same user, or root; in containers SYS_PTRACE); it never stops them.

    --compact STORE makes a store of many shards fast to read. It may run while ranks write and people read; shards are
    removed by a later --compact, when the file has held them for ten minutes.
    """
    if compacted is not None:
        if paths or store is not None or url or pipe or stacks:
            raise UsageError(
                "--compact takes a store and nothing else", next=f"whichrank collect --compact {compacted}"
            )
        return _compact(compacted, as_json)
    if ray and not paths:
        raise UsageError("--ray converts dumps at paths", next=f"whichrank collect DUMPS --into STORE --ray {ray}")
    _one_source(paths, url, pipe, dumps, stacks, pids)
    if store is None:
        raise click.UsageError("Missing option '--into'.", click.get_current_context())
    if url:
        from whichrank.engine.debug_server import collect_from

        done = collect_from(url, store)
    elif stacks:
        from whichrank.engine.stacks import collect_stacks

        with progress("looking at ranks") as step:
            done = collect_stacks(store, pids, samples=samples, every_s=every_s, on_progress=step)
    elif pipe is not None and dumps is not None:
        from whichrank.engine.dump_pipe import collect_through_pipes

        with progress("waiting for dumps") as step:
            done = collect_through_pipes(pipe, dumps, store, on_progress=step)
    else:
        from whichrank.engine.intake import collect

        with joined(ray) as cluster, progress("collecting") as step:
            done = collect(paths, store, on_progress=step, cluster=cluster)
    if as_json:
        click.echo(json.dumps(done, indent=2))
    else:
        found = [f"{len(done['ranks'])} ranks, {done['records']:,} records"] if done["ranks"] else []
        found += [f"{count:,} rows of {table}" for table, count in done["rows"].items()]
        click.echo(f"{', '.join(found)} -> {store}")
        for message in done["notes"]:
            click.echo(f"  {plain(message)}")
        if done["kept"]:
            click.echo(f"  {len(done['kept'])} raw files kept in {store / 'raw'}")
    return 0


def _one_source(
    paths: tuple[Path, ...],
    url: str | None,
    pipe: Path | None,
    dumps: Path | None,
    stacks: bool,
    pids: tuple[int, ...],
) -> None:
    """Exactly one thing to collect. Raises UsageError."""
    sources = sum((bool(paths), url is not None, pipe is not None, stacks))
    if (pipe is None) != (dumps is None) or sources > 1:
        raise UsageError(
            "collect takes paths, or --debug-server, or --stacks, or --pipe with --dumps",
            next="whichrank collect --help",
        )
    if pids and not stacks:
        raise UsageError("--pid goes with --stacks", next="whichrank collect --stacks --pid PID --into STORE")
    if not paths and not url and pipe is None and not stacks:
        raise click.UsageError("Missing argument 'PATH...'.", click.get_current_context())


def _compact(store: Path, as_json: bool) -> int:
    from whichrank.engine.compaction import compact

    done = compact(store)
    if as_json:
        said = {"path": str(done.path), "added": done.added, "removed": done.removed, "unreadable": done.unreadable}
        click.echo(json.dumps(said | {"without_facts": done.without_facts}, indent=2))
        return 0
    click.echo(f"{done.added:,} shards added, {done.removed:,} removed -> {done.path}")
    for path in done.unreadable:
        click.echo(f"  {path} cannot be read; it stays where it is")
    if done.without_facts:
        click.echo(f"  the file holds the rows without facts: {done.without_facts}")
    return 0
