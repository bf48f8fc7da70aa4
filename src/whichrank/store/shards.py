"""Shards: the rows of one rank and one snapshot, a Parquet file per table.

    STORE/<table>/rank=<n>/<snapshot_id>.parquet     n is `none` for what belongs to no rank
    STORE/raw/<snapshot_id>/<name>                   files that could not be converted, as they were

Every rank and host writes on its own, at the same time, without a lock: a file appears whole or not at all, and writing
the same batch twice changes nothing.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from whichrank.batch import Batch
from whichrank.errors import UsageError, WhichrankError
from whichrank.tables import DUMP, LOOKUPS, NOTE, Table, by_name

if TYPE_CHECKING:
    import pyarrow as pa

RAW = "raw"
# Measured on 2,000 entries: zstd over delta-encoded integers takes 10 kB, snappy 12 kB, in the same time; without the
# delta encoding, which nearly everything that counts up profits from, it is 50 kB and takes twice as long.
_COMPRESSION = "zstd"
_SNAPSHOT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")


class StoreNotWritten(WhichrankError):
    """A store that cannot be written to: a full disk, missing rights, a file where a folder should be."""


def write(store: Path, batch: Batch) -> list[Path]:
    """Write the tables of a batch that have rows; returns their files.

    Raises StoreNotWritten; what was written before stays, and is whole. UsageError: the snapshot_id is no file name.
    """
    written = []
    for table in sorted(map(_table, batch.tables), key=_when):
        rows = batch.tables[table.name]
        if rows.num_rows:
            path = shard_path(store, table, batch.rank, _stem(batch, table, rows))
            with _new_file(store, path) as file:
                _write_parquet(table, rows, file)
            written.append(path)
    return written


def write_whole(store: Path, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Write batches as they come, and hand them on. Nobody reads half a snapshot: what makes it visible, the rows of
    torch_nccl_dump, is written last, in one file for all ranks.

    Raises StoreNotWritten, UsageError.
    """
    dumps: dict[str, list[pa.Table]] = {}
    for batch in batches:
        rest = dict(batch.tables)
        if (heads := rest.pop(DUMP.name, None)) is not None:
            dumps.setdefault(batch.snapshot_id, []).append(heads)
        write(store, Batch(batch.snapshot_id, batch.rank, rest))
        yield batch
    for snapshot_id, parts in dumps.items():
        import pyarrow as pa

        write(store, Batch(snapshot_id, None, {DUMP.name: pa.concat_tables(parts)}))


def shard_path(store: Path, table: Table, rank: int | None, stem: str) -> Path:
    """Where the rows of a rank and snapshot are. stem: the snapshot_id; notes have their content's hash behind it."""
    return store / table.name / f"rank={'none' if rank is None else rank}" / f"{stem}.parquet"


def keep_raw(store: Path, snapshot_id: str, path: Path) -> Path:
    """Copy a file that could not be converted into the store; returns the copy. Raises StoreNotWritten, UsageError."""
    try:
        with path.open("rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
            name = path.name.lstrip(".") or "file"
            for candidate in (name, f"{digest[:12]}-{name}"):  # two nodes may have written the same name
                copy = store / RAW / _file_name(snapshot_id) / candidate
                if not copy.exists() or _digest(copy) == digest:
                    break
            source.seek(0)
            with _new_file(store, copy) as target:
                shutil.copyfileobj(source, target, 1 << 20)
    except OSError as error:
        raise StoreNotWritten(f"{path} cannot be kept in {store}: {error.strerror or error}") from None
    return copy


def shards(store: Path) -> dict[str, list[Path]]:
    """Table name -> its shards, sorted; without the temporary files of writers that are at work, or were killed."""
    found: dict[str, list[Path]] = {}
    for path in sorted(store.glob("*/rank=*/*.parquet")):
        name = path.parent.parent.name
        if by_name(name) and not path.name.startswith("."):
            found.setdefault(name, []).append(path)
    return found


def _table(name: str) -> Table:
    table = by_name(name)
    assert table is not None, f"a collector made rows of an unknown table {name}"
    return table


def _when(table: Table) -> int:
    """Order of writing: a reader must neither meet an entry without its stack nor a dump without its entries."""
    return 0 if table.key else 2 if table is DUMP else 1


def _stem(batch: Batch, table: Table, rows: pa.Table) -> str:
    """The file name. Notes come from several collectors and hosts, who must not overwrite each other's."""
    if table is not NOTE:
        return _file_name(batch.snapshot_id)
    content = hashlib.blake2b(repr(rows.to_pylist()).encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"{_file_name(batch.snapshot_id)}-{content}"


def _file_name(snapshot_id: str) -> str:
    if not _SNAPSHOT_ID.fullmatch(snapshot_id):
        raise UsageError(
            f"the snapshot id {snapshot_id!r} cannot be the name of a file",
            looked_for="letters, digits, and . _ + - after the first of them",
        )
    return snapshot_id


def _write_parquet(table: Table, rows: pa.Table, file: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Hashes are the integers that have nothing in common with their neighbours.
    hashes = {lookup.key for lookup in LOOKUPS.values()}
    counts = [f.name for f in rows.schema if f.type == pa.int64() and f.name not in hashes]
    pq.write_table(
        rows,
        file,
        compression=_COMPRESSION,
        use_dictionary=[name for name in rows.schema.names if name not in counts],
        column_encoding=dict.fromkeys(counts, "DELTA_BINARY_PACKED"),
        store_schema=False,  # the docs of the columns are in whichrank.tables; here they would be a third of the file
    )


@contextmanager
def _new_file(store: Path, path: Path) -> Iterator[IO[bytes]]:
    """A file to be written that takes the place of `path` when it is complete and on the disk."""
    # Beside its place, because a rename is atomic only there; neither by its first letter nor by its end a shard.
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        new_folders = _make_folders(path.parent)
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        for folder in (path.parent, *new_folders):
            _sync_folder(folder)
    except OSError as error:
        raise not_written(store, error) from None


def _make_folders(folder: Path) -> list[Path]:
    """Make the folder; returns the folders that got a new one in them."""
    missing = [p for p in (folder, *folder.parents) if not p.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return [p.parent for p in missing]


def _sync_folder(folder: Path) -> None:
    """Make a new name last. Some file systems cannot sync folders; they have other ways, or none."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def not_written(store: Path, error: OSError) -> StoreNotWritten:
    """What to tell a person about an error of the file system."""
    what = f"the store {store} cannot be written to: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreNotWritten(what, next="make room, then collect again: what was written is whole and stays")
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return StoreNotWritten(what, looked_for="a folder, or a name for a new one")
    return StoreNotWritten(what, next=f"ls -ld {store}")
