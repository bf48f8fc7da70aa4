"""Old snapshots go when they are asked to; the newest ones stay."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from whichrank.store import live
from whichrank.store.shards import RAW, shards
from whichrank.tables import DUMP


def keep_newest(store: Path, keep: int) -> list[str]:
    """Remove all but the newest `keep` snapshots: shards, answers, requests. Returns the ids that went.

    The dump shards go first: a snapshot without them is not read by anybody.
    """
    found = shards(store)
    ids = sorted({*live.snapshot_ids(store), *(path.stem for path in found.get(DUMP.name, []))})
    gone = ids[:-keep]
    for table in (DUMP.name, *(name for name in found if name != DUMP.name)):
        for path in found.get(table, []):
            if any(path.stem == i or path.stem.startswith(f"{i}-") for i in gone):
                path.unlink(missing_ok=True)
    for snapshot_id in gone:
        shutil.rmtree(store / live.ANSWERS / snapshot_id, ignore_errors=True)
        shutil.rmtree(store / RAW / snapshot_id, ignore_errors=True)
        with suppress(OSError):
            (store / live.REQUESTS / f"{snapshot_id}.json").unlink(missing_ok=True)
    return gone
