"""Records where real gloo jobs stand: `python -m tests.jobs.record_stacks [CASE ...]` (torch, psutil and py-spy).

Every case runs `job.stands` under torchrun and looks at its ranks as `whichrank collect --stacks` does, until they
stand where they are meant to. Paths of this machine's Python and its name are replaced; nothing else is touched.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.jobs.case_file import FIXTURES
from tests.jobs.record import JOB_HOME, NotRecorded, _job_in_place
from tests.jobs.story import Truth
from whichrank.batch import Batch, rows_to_arrow
from whichrank.collectors.backtrace_live import read
from whichrank.store.shards import write
from whichrank.tables import BACKTRACE, by_name

RANKS = 4
DEADLINE_S = 120.0
HOST = "node01"


@dataclass(frozen=True)
class StackCase:
    """`at`: rank -> function that must be in its main stack at the last look. `dumps`: the recorders are asked too."""

    name: str
    told: str
    truth: Truth
    at: dict[int, str]
    dumps: bool = False


_REDUCE = dict.fromkeys(range(RANKS), "all_reduce")
CASES = {
    case.name: case
    for case in (
        StackCase(
            "stacks_data_loader",
            "A data worker of rank 2 reads a sample that never comes; the others reduce the loss and wait.",
            Truth("rank_not_joined", (2,), "Rank 2 stands in DataLoader._next_data, and its recorder is idle."),
            _REDUCE | {2: "_next_data"},
            dumps=True,
        ),
        StackCase(
            "stacks_checkpoint",
            "Rank 0 writes a checkpoint to a file system that takes nothing more; the others reduce the loss and wait.",
            Truth("rank_not_joined", (0,), "Rank 0 stands in torch.save, the others in all_reduce."),
            _REDUCE | {0: "save"},
        ),
        StackCase(
            "stacks_gil_sleep",
            "Rank 3 calls a C library that sleeps and keeps the interpreter lock; the others wait in all_reduce.",
            Truth("rank_not_joined", (3,), "Rank 3 holds the interpreter lock at every look, asleep."),
            _REDUCE | {3: "at_fault"},
        ),
        StackCase(
            "stacks_rank_stopped",
            "Rank 1 was stopped by a signal (SIGSTOP); the others wait in all_reduce.",
            Truth("rank_not_joined", (1,), "The process of rank 1 is in state T."),
            {0: "all_reduce", 2: "all_reduce", 3: "all_reduce"},
        ),
        StackCase(
            "stacks_symmetric",
            "The storage stops answering, and every rank waits for the same batch.",
            Truth("insufficient_evidence", (), "All ranks stand in the data loader, at the same line."),
            dict.fromkeys(range(RANKS), "_next_data"),
        ),
        StackCase(
            "stacks_recv_circle",
            "Every rank receives from its neighbour, and none sends.",
            Truth("insufficient_evidence", (), "All ranks stand in recv, at the same line; nobody is the odd one."),
            dict.fromkeys(range(RANKS), "recv"),
        ),
        StackCase(
            "stacks_healthy",
            "A job that trains.",
            Truth("no_fault", (), "The stacks differ from look to look."),
            {},
        ),
    )
}


def main(names: Sequence[str]) -> int:
    """Record the named cases (all); 64 where a name is unknown."""
    unknown = [name for name in names if name not in CASES]
    if unknown:
        print(f"no such case: {' '.join(unknown)}; there are: {' '.join(CASES)}", file=sys.stderr)
        return 64
    for name in names or CASES:
        record(CASES[name], FIXTURES / name)
        print(f"recorded {name}")
    return 0


def record(case: StackCase, target: Path) -> None:
    """Run one case and write its fixture folder (expected outputs beside it stay)."""
    with tempfile.TemporaryDirectory() as scratch, _job_in_place():
        folder = Path(scratch)
        with _running(case, folder):
            batches = _looked_at(case, folder)
            if case.dumps:
                (folder / "dump").touch()
                _until(lambda: len(list(folder.glob("evidence/*_rank_?"))) == RANKS, f"{case.name}: no dumps")
        shutil.rmtree(target / "evidence", ignore_errors=True)
        if case.dumps:
            shutil.copytree(folder / "evidence", target / "evidence" / "dumps")
        store = target / "evidence" / "stacks" if case.dumps else target / "evidence"
        for batch in batches:
            write(store, _elsewhere(batch))
    truth = case.truth.as_json()
    why = truth.pop("why")
    said = {"name": case.name, "skill": "training_hang", "story": case.told, "made_by": "recorded"}
    said |= {"how": f"python -m tests.jobs.record_stacks {case.name}", "torch": importlib.metadata.version("torch")}
    text = yaml.safe_dump(said | {"ranks": RANKS, "truth": truth, "why": why}, sort_keys=False, width=110)
    (target / "case.yaml").write_text(text)


def _looked_at(case: StackCase, folder: Path) -> list[Batch]:
    """Looks until every rank stands where it is meant to."""
    _until(lambda: len(list(folder.glob("pid_?"))) == RANKS, f"{case.name}: not every rank began")
    pids = [int((folder / f"pid_{rank}").read_text()) for rank in range(RANKS)]
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        batches = list(read(pids, samples=3, every_s=0.7))
        if _as_meant(case, batches):
            return batches
    raise NotRecorded(f"{case.name}: the ranks did not come to stand where they were meant to")


def _as_meant(case: StackCase, batches: Sequence[Batch]) -> bool:
    rows = [row for b in batches if BACKTRACE.name in b.tables for row in b.tables[BACKTRACE.name].to_pylist()]
    main = [row for row in rows if row["is_main"]]
    if not case.at:
        return len({(row["rank"], row["sample"]) for row in main}) == 3 * RANKS and any(r["sample"] == 2 for r in main)
    seen = {(row["rank"], row["func"], row["sample"]) for row in main}
    return all((rank, func, sample) in seen for rank, func in case.at.items() for sample in range(3))


def _elsewhere(batch: Batch) -> Batch:
    """The batch without the paths and the name of this machine."""
    import socket

    places = {sys.prefix: "/opt/venv", sysconfig.get_paths()["stdlib"]: "/usr/lib/python3.11"}
    places |= {str(Path(p).parents[2]): "/opt/venv" for p in sys.path if p.endswith("site-packages")}

    def told(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        for here, there in sorted(places.items(), key=lambda place: -len(place[0])):
            value = value.replace(here, there)
        return value.replace(socket.gethostname(), HOST) if value.endswith(socket.gethostname()) else value

    tables = {}
    for name, rows in batch.tables.items():
        table = by_name(name)
        assert table is not None
        changed = [{k: told(v) for k, v in row.items()} for row in rows.to_pylist()]
        tables[name] = rows_to_arrow(table, changed)
    snapshot = told(batch.snapshot_id)
    return Batch(snapshot, batch.rank, tables)


@contextmanager
def _running(case: StackCase, folder: Path) -> Iterator[None]:
    settings = {"TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    with (folder / "job.log").open("wb") as log:
        torchrun = subprocess.Popen(
            [*command, "-m", "job.stands", case.name, str(folder)],
            cwd=JOB_HOME,
            env=os.environ | settings,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    except NotRecorded as reason:
        raise NotRecorded(f"{reason}\n{(folder / 'job.log').read_text()[-3000:]}") from None
    finally:
        for path in folder.glob("pid_?"):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(path.read_text()), signal.SIGKILL)
        torchrun.terminate()
        torchrun.wait(timeout=60)


def _until(condition: Any, otherwise: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise NotRecorded(otherwise)
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
