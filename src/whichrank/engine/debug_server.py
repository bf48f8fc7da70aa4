"""whichrank collect --debug-server: the recorders of a running job, asked from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whichrank.errors import NoEvidence
from whichrank.tables import DUMP, FLIGHT_RECORD, NOTE


def collect_from(url: str, store: Path) -> dict[str, Any]:
    """Ask the debug server at `url` and write what its ranks answer. The keys are those of intake.collect.

    Raises NoEvidence where nobody answers, StoreNotWritten.
    """
    from whichrank.collectors.flight_recorder_debug_server import NoDebugServer, read
    from whichrank.store.shards import write_whole

    ranks: list[int] = []
    records = 0
    notes: list[str] = []
    try:
        for batch in write_whole(store, read(url)):
            if NOTE.name in batch.tables:
                notes += [row["message"] for row in batch.tables[NOTE.name].to_pylist()]
            if DUMP.name in batch.tables and batch.rank is not None:
                ranks.append(batch.rank)
                records += batch.tables[FLIGHT_RECORD.name].num_rows if FLIGHT_RECORD.name in batch.tables else 0
    except NoDebugServer as error:
        raise NoEvidence(
            str(error),
            looked_for="the address of torch.distributed.debug on rank 0, such as http://host:25999",
            next="torch.distributed.debug.start_debug_server() in the job, then try again",
        ) from None
    if not ranks:
        raise NoEvidence(f"no rank behind {url} gave its recorder: {'; '.join(notes[:3])}")
    return {"ranks": sorted(ranks), "records": records, "rows": {}, "kept": [], "notes": notes}
