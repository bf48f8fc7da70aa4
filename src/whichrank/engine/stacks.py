"""whichrank collect --stacks: where the ranks of this host stand, looked at from outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from whichrank.batch import Batch
from whichrank.errors import NoEvidence, UsageError
from whichrank.tables import BACKTRACE, CPU, KMSG, NOTE

Progress = Callable[[int, int], None]


def collect_stacks(
    store: Path,
    pids: Sequence[int] = (),
    *,
    samples: int = 3,
    every_s: float = 1.0,
    native: bool = False,
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """Look at the ranks of this host and write what is seen. The keys are those of intake.collect.

    pids: the processes to look at; default: every one whose variables name a rank. Raises NoEvidence, UsageError (the
    extra `host` is not installed), StoreNotWritten.
    """
    try:
        from whichrank.collectors.backtrace_live import NoRanks, read
    except ImportError as error:
        raise UsageError(f"collect --stacks needs {error.name}", next="pip install 'whichrank[host]'") from None
    from whichrank.collectors.kernel_log import read_device
    from whichrank.store.shards import write_whole

    def batches() -> Iterator[Batch]:
        yield from read(pids or None, samples=samples, every_s=every_s, native=native, on_progress=on_progress)
        yield from read_device()

    ranks: set[int] = set()
    rows: Counter[str] = Counter()
    notes: list[str] = []
    try:
        for batch in write_whole(store, batches()):
            if NOTE.name in batch.tables:
                notes += [note["message"] for note in batch.tables[NOTE.name].to_pylist()]
            if BACKTRACE.name in batch.tables and batch.tables[BACKTRACE.name].num_rows and batch.rank is not None:
                ranks.add(batch.rank)
            rows.update(
                {t.full_name: batch.tables[t.name].num_rows for t in (BACKTRACE, CPU, KMSG) if t.name in batch.tables}
            )
    except NoRanks as error:
        raise NoEvidence(
            str(error),
            looked_for="Python processes with RANK (torchrun) or SLURM_PROCID in their variables",
            next=f"whichrank collect --stacks --pid PID --into {store}",
        ) from None
    return {"ranks": sorted(ranks), "records": 0, "rows": dict(rows), "kept": [], "notes": notes}
