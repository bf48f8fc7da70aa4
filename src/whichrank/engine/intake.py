"""PATHs of a command line -> Evidence: what kind each one is, by content, and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whichrank.batch import Batch
from whichrank.errors import NoEvidence, UsageError
from whichrank.store.evidence import COMPACTED, Evidence
from whichrank.tables import DUMP, FLIGHT_RECORD, NOTE, by_name

Progress = Callable[[int, int], None]
LOOKED_FOR = "Flight Recorder dumps (pickle or JSON, one per rank), or a store (folders <table>/rank=<n>/*.parquet)"
WHERE_DUMPS_ARE = (
    "look where TORCH_FR_DUMP_TEMP_FILE (or TORCH_NCCL_DEBUG_INFO_TEMP_FILE) pointed; "
    "else on each host in ~/.cache/torch/ (torch 2.8 and later) or /tmp/ (before), files *_trace_rank_<n>. "
    "Then: whichrank diagnose FOLDER"
)


@dataclass(slots=True)
class Sources:
    """What the paths are. stores: folders of shards or global.duckdb files; dumps: files and folders of dumps."""

    stores: list[Path] = field(default_factory=list)
    dumps: list[Path] = field(default_factory=list)


def discover(paths: Sequence[Path]) -> Sources:
    """Sort paths by kind, without reading them. Raises NoEvidence for a path that is missing or an empty folder."""
    if not paths:
        raise NoEvidence("no path was given", looked_for=LOOKED_FOR, next="whichrank diagnose ./dumps")
    sources = Sources()
    for path in paths:
        if not path.exists():
            raise NoEvidence(f"{path} does not exist", looked_for=LOOKED_FOR, next=WHERE_DUMPS_ARE)
        (sources.stores if is_store(path) else sources.dumps).append(path)
        if path.is_dir() and not any(path.iterdir()):
            raise NoEvidence(f"{path} is empty", looked_for=LOOKED_FOR, next=WHERE_DUMPS_ARE)
    return sources


def is_store(path: Path) -> bool:
    """A folder with a folder per table (or global.duckdb) in it, or a .duckdb file."""
    if path.is_file():
        return path.suffix == ".duckdb"
    return (path / COMPACTED).is_file() or any(by_name(child.name) and child.is_dir() for child in path.iterdir())


def batches(sources: Sources, on_progress: Progress | None = None) -> Iterator[Batch]:
    """The rows of all dumps, read by the collectors."""
    if sources.dumps:
        from whichrank.collectors.flight_recorder_dump import read

        yield from read(sources.dumps, on_progress=on_progress)


def open_evidence(paths: Sequence[Path], *, on_progress: Progress | None = None, comments: bool = False) -> Evidence:
    """Read and open the paths. Raises NoEvidence when there is nothing in them that can be diagnosed."""
    sources = discover(paths)
    evidence = Evidence(batches(sources, on_progress), stores=sources.stores, comments=comments, lazy=True)
    evidence.load([DUMP.full_name])
    if not evidence.count(DUMP.full_name):
        evidence.show([NOTE.full_name])
        notes = evidence.connection.table(f"global.{NOTE.full_name}").project("message").limit(3).fetchall()
        evidence.close()
        raise _nothing_read(paths, [row[0] for row in notes])
    return evidence


def collect(paths: Sequence[Path], store: Path, on_progress: Progress | None = None) -> dict[str, Any]:
    """Write the dumps at the paths into a store.

    Returns ranks (list), records (count), kept (raw files that could not be converted), notes (messages). Raises
    NoEvidence when nothing could be read, UsageError when a path is a store itself, StoreNotWritten.
    """
    from whichrank.store.shards import write

    sources = discover(paths)
    if sources.stores:
        raise UsageError(f"{sources.stores[0]} is a store already", next=f"whichrank diagnose {sources.stores[0]}")
    ranks: set[int] = set()
    records = 0
    messages: list[str] = []
    kept: set[str] = set()
    for batch in batches(sources, on_progress):
        write(store, batch)
        notes = batch.tables[NOTE.name].to_pylist() if NOTE.name in batch.tables else []
        kept |= _keep(store, batch.snapshot_id, notes)
        messages += [note["message"] for note in notes]
        records += batch.tables[FLIGHT_RECORD.name].num_rows if FLIGHT_RECORD.name in batch.tables else 0
        ranks |= {batch.rank} if batch.rank is not None and DUMP.name in batch.tables else set()
    if not ranks:
        raise _nothing_read(paths, messages)
    return {"ranks": sorted(ranks), "records": records, "kept": sorted(kept), "notes": messages}


def _keep(store: Path, snapshot_id: str, notes: Sequence[Mapping[str, Any]]) -> set[str]:
    """Copy the files that were not, or not wholly, converted, so that a later version can read them."""
    from whichrank.store.shards import keep_raw

    doubtful = {n["source"] for n in notes if n["severity"] != "info" and n["source"] and n["kind"] != "unreadable"}
    files = sorted(path for source in doubtful if (path := Path(source)).is_file())
    return {str(keep_raw(store, snapshot_id, path)) for path in files}


def _nothing_read(paths: Sequence[Path], messages: Sequence[str]) -> NoEvidence:
    named = ", ".join(str(path) for path in paths)
    said = "; ".join(messages[:3])
    return NoEvidence(
        f"nothing in {named} could be read as evidence" + (f": {said}" if said else ""),
        looked_for=LOOKED_FOR,
        next=WHERE_DUMPS_ARE,
    )
