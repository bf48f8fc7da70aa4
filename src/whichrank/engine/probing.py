"""probing -t TARGET whichrank: the recorders of a job with probes in it, asked from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whichrank.errors import NoEvidence, UsageError
from whichrank.tables import DUMP, FLIGHT_RECORD, NOTE


def collect_from(
    target: str, store: Path, *, alone: bool = False, signals: bool = False, timeout_s: float = 60.0
) -> dict[str, Any]:
    """Ask the process and its job, and write what they answer. The keys are those of intake.collect.

    target: what PROBING_ENDPOINT holds. alone, signals: see the collector. Raises UsageError, NoEvidence where nobody
    answers, StoreNotWritten.
    """
    from whichrank.collectors.probing import NoRank, read
    from whichrank.collectors.probing_endpoint import NoProbe, endpoint
    from whichrank.store.shards import write_whole

    try:
        door = endpoint(target)
    except ValueError as error:
        raise UsageError(str(error), looked_for="what -t of probing takes", next="probing list") from None
    ranks: list[int] = []
    records = 0
    notes: list[str] = []
    try:
        for batch in write_whole(store, read(door, alone=alone, signals=signals, timeout_s=timeout_s)):
            if NOTE.name in batch.tables:
                notes += [row["message"] for row in batch.tables[NOTE.name].to_pylist()]
            if DUMP.name in batch.tables and batch.rank is not None:
                ranks.append(batch.rank)
                records += batch.tables[FLIGHT_RECORD.name].num_rows if FLIGHT_RECORD.name in batch.tables else 0
    except NoProbe as error:
        raise NoEvidence(str(error), looked_for="a process with a probe of probing 0.2.4", next=error.next) from None
    except NoRank as error:
        raise NoEvidence(str(error), next="give the process of a rank; torchrun itself is none: probing list") from None
    if not ranks:
        raise NoEvidence(f"no recorder behind {target}: {'; '.join(notes[:3])}", looked_for="a Flight Recorder")
    return {"ranks": sorted(ranks), "records": records, "rows": {}, "kept": [], "notes": notes}
