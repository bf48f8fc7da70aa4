"""PATHs of a command line -> Evidence: what kind each one is, by content, and who reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichrank.batch import Batch
from whichrank.engine.witnesses import WITNESSES, Progress, Witness, claimed
from whichrank.errors import NoEvidence, UsageError
from whichrank.store import live
from whichrank.store.ddl import COMPACTED
from whichrank.tables import DUMP, FLIGHT_RECORD, NOTE, by_name

if TYPE_CHECKING:
    from whichrank.engine.ray_cluster import RayCluster
    from whichrank.store.evidence import Evidence

LOOKED_FOR = ", ".join(
    (
        "Flight Recorder dumps (pickle or JSON, one per rank)",
        *(witness.what for witness in WITNESSES),
        "or a store (folders <table>/rank=<n>/*.parquet)",
    )
)
EVIDENCE = (DUMP.full_name, *(table for witness in WITNESSES for table in witness.tables))
WHERE_DUMPS_ARE = (
    "look where TORCH_FR_DUMP_TEMP_FILE (or TORCH_NCCL_DEBUG_INFO_TEMP_FILE) pointed; "
    "else on each host in ~/.cache/torch/ (torch 2.8 and later) or /tmp/ (before), files *_trace_rank_<n>. "
    "Then: whichrank diagnose FOLDER"
)


@dataclass(slots=True)
class Sources:
    """What the paths are.

    stores: folders of shards or global.duckdb files; dumps: files and folders of dumps; others: files at these paths or
    in these folders that another collector reads.
    """

    stores: list[Path] = field(default_factory=list)
    dumps: list[Path] = field(default_factory=list)
    others: dict[Witness, list[Path]] = field(default_factory=dict)


def discover(paths: Sequence[Path]) -> Sources:
    """Sort paths by kind, by the first bytes of files. Raises NoEvidence where a path is missing or an empty folder."""
    if not paths:
        raise NoEvidence("no path was given", looked_for=LOOKED_FOR, next="whichrank diagnose ./dumps")
    sources = Sources()
    for path in paths:
        if not path.exists():
            raise NoEvidence(f"{path} does not exist", looked_for=LOOKED_FOR, next=WHERE_DUMPS_ARE)
        (sources.stores if is_store(path) else sources.dumps).append(path)
        if path.is_dir() and not any(path.iterdir()):
            raise NoEvidence(f"{path} is empty", looked_for=LOOKED_FOR, next=WHERE_DUMPS_ARE)
    sources.others = claimed(sources.dumps)
    return sources


def is_store(path: Path) -> bool:
    """A folder with a folder per table (or global.duckdb) in it, or a .duckdb file."""
    if path.is_file():
        return path.suffix == ".duckdb"
    if any((path / folder).is_dir() for folder in live.FOLDERS):
        return True
    return (path / COMPACTED).is_file() or any(by_name(child.name) and child.is_dir() for child in path.iterdir())


def batches(
    sources: Sources,
    on_progress: Progress | None = None,
    *,
    newest: bool = False,
    together: bool = False,
    cluster: RayCluster | None = None,
) -> Generator[Batch, None, None]:
    """The rows of all files, read by the collectors. The reading of dumps begins at once, where a process helps.

    together: ranks may share a batch.
    """
    others = {path for paths in sources.others.values() for path in paths}
    dumps: Iterator[Batch] = iter(())
    if paths := [path for path in sources.dumps if path not in others]:
        from whichrank.collectors.flight_recorder_dump import read

        who: dict[str, Any] = {"workers": cluster.workers, "run": cluster.run} if cluster else {}
        dumps = read(paths, apart_from=others, together=together, on_progress=on_progress, **who)
    return _rows(dumps, sources, on_progress, newest)


def _rows(
    dumps: Iterator[Batch], sources: Sources, on_progress: Progress | None, newest: bool
) -> Generator[Batch, None, None]:
    yield from dumps
    for witness, paths in sources.others.items():
        yield from witness.collector().read(paths, on_progress=on_progress)
    for store in sources.stores:
        if (store / live.ANSWERS).is_dir():
            yield from _answers(store, newest)


def _answers(store: Path, newest: bool) -> Iterator[Batch]:
    """What running processes answered becomes shards; where the store cannot be written to, rows in memory."""
    from whichrank.engine import snapshot
    from whichrank.store.shards import StoreNotWritten

    try:
        snapshot.convert_all(store, newest=newest)
    except StoreNotWritten:
        whole = [i for i in live.snapshot_ids(store) if live.complete(store, i)] or live.snapshot_ids(store)
        for snapshot_id in whole[-1:]:
            if not any(store.glob(f"{DUMP.name}/rank=*/{snapshot_id}.parquet")):
                yield from snapshot.batches(store, snapshot_id)


@dataclass(frozen=True, slots=True)
class Reading:
    """Paths whose reading has begun: files are found, workers read where they help. Closing `rows` ends them."""

    paths: Sequence[Path]
    sources: Sources
    rows: Generator[Batch, None, None]


def begin(
    paths: Sequence[Path],
    on_progress: Progress | None = None,
    *,
    newest: bool = False,
    cluster: RayCluster | None = None,
) -> Reading:
    """Begin to read the paths; `open_evidence` takes it from there. Raises NoEvidence like `discover`.

    newest: of what running processes answered, the newest snapshot is enough. cluster: who reads the dumps.
    """
    sources = discover(paths)
    return Reading(paths, sources, batches(sources, on_progress, newest=newest, together=True, cluster=cluster))


def open_evidence(
    paths: Sequence[Path] | Reading,
    *,
    on_progress: Progress | None = None,
    comments: bool = False,
    meanwhile: Callable[[], object] | None = None,
) -> Evidence:
    """Read and open the paths. Raises NoEvidence when there is nothing in them that can be diagnosed.

    meanwhile: called when the reading has begun, for what can be done beside it; what it raises ends the reading.
    """
    reading = paths if isinstance(paths, Reading) else begin(paths, on_progress)
    try:
        if meanwhile:
            meanwhile()
        from whichrank.store.evidence import Evidence

        evidence = Evidence(reading.rows, stores=reading.sources.stores, comments=comments, lazy=True)
    finally:
        reading.rows.close()
    evidence.load(EVIDENCE[:1])
    if not any(evidence.count(table) for table in EVIDENCE if table in evidence.present):
        evidence.show([NOTE.full_name])
        notes = evidence.connection.table(f"global.{NOTE.full_name}").project("message").limit(3).fetchall()
        evidence.close()
        raise _nothing_read(reading.paths, [row[0] for row in notes])
    return evidence


def collect(
    paths: Sequence[Path], store: Path, on_progress: Progress | None = None, cluster: RayCluster | None = None
) -> dict[str, Any]:
    """Write what is at the paths into a store. cluster: who reads the dumps.

    Returns ranks (list), records (count), rows (table -> count, of what is no dump), kept (raw files that could not be
    converted), notes (messages). Raises NoEvidence when nothing could be read, UsageError when a path is a store
    itself, StoreNotWritten.
    """
    from whichrank.store.shards import write_whole

    sources = discover(paths)
    if sources.stores:
        raise UsageError(f"{sources.stores[0]} is a store already", next=f"whichrank diagnose {sources.stores[0]}")
    ranks: set[int] = set()
    records = 0
    rows: Counter[str] = Counter()
    messages: list[str] = []
    kept: set[str] = set()
    others = [table for name in EVIDENCE[1:] if (table := by_name(name))]
    for batch in write_whole(store, batches(sources, on_progress, cluster=cluster)):
        notes = batch.tables[NOTE.name].to_pylist() if NOTE.name in batch.tables else []
        kept |= _keep(store, batch.snapshot_id, notes)
        messages += [note["message"] for note in notes]
        records += batch.tables[FLIGHT_RECORD.name].num_rows if FLIGHT_RECORD.name in batch.tables else 0
        ranks |= {batch.rank} if batch.rank is not None and DUMP.name in batch.tables else set()
        rows.update({t.full_name: batch.tables[t.name].num_rows for t in others if t.name in batch.tables})
    if not ranks and not rows.total():
        raise _nothing_read(paths, messages)
    return {"ranks": sorted(ranks), "records": records, "rows": dict(rows), "kept": sorted(kept), "notes": messages}


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
