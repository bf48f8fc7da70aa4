"""Writes the fixtures of logs: `python -m tests.jobs.log_fixtures [CASE ...]` (all without names)."""

# ruff: noqa: E501

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.jobs.case_file import FIXTURES, write_case
from tests.jobs.log import Log, Prefix, bare, kubernetes, torchrun
from tests.jobs.story import Truth

TOLD = "[PG ID 0 PG GUID 0(default_pg) Rank {}] "


def one_stays_away() -> Log:
    """Rank 5 of eight: rank 3 is the first to time out, and the first to go down."""
    log = Log().times_out(3, 212)
    log.c10(3, TOLD.format(3) + "First PG on this rank to signal dumping.", "ProcessGroupNCCL.cpp:2573")
    for rank in (0, 1, 2, 4, 6, 7):
        log.times_out(rank, 212, enqueued=213)
    log.signalled(5, 211, 211, by=3).later(60)
    for rank in (3, 0, 1):
        log.goes_down(rank, 212)
    return log.torchrun_ends(3, -6, "2026-03-18_12:31:09", others=(0, 1))


def one_raises() -> Log:
    """Rank 3 of four cannot open a file; the others wait for it."""
    log = Log().raises(3, "FileNotFoundError: [Errno 2] No such file or directory: '/data/shard-0071.bin'").later(60)
    for rank in range(3):
        log.times_out(rank, 88, "_ALLGATHER_BASE", (1024, 4096))
    return log


def one_device_fails() -> Log:
    """Rank 12 of sixteen; only its own host's and one other host's lines were kept."""
    log = Log().c10(
        12,
        f"{TOLD.format(12)}Process group watchdog thread terminated with exception: CUDA error: uncorrectable ECC error "
        "encountered",
        "ProcessGroupNCCL.cpp:1515",
    )
    log.says(12, "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.").later(60)
    for rank in (8, 9, 3):
        log.times_out(rank, 4410)
    return log


def nccl2() -> Log:
    """Two of four, with the backend of torch 2.15."""
    log = Log()
    for rank in (0, 2):
        log.c10(rank, f"[TC][rank={rank}][name=default_pg] Operation timed out after 600012 ms", "WorkNCCL.cpp:170")
        log.c10(
            rank,
            f"[TC][rank={rank}][name=default_pg] Aborting process on rank {rank} due to timeout - timeout watchdog detected "
            "operation timeout",
            "ProcessGroupNCCL.cpp:600",
        )
    return log


def healthy() -> Log:
    """Two ranks to the end of their training."""
    log = Log()
    for rank in range(2):
        nccl = f"node-a:{40 + rank}:{50 + rank} [{rank}] NCCL INFO"
        log.says(rank, f"{nccl} NCCL_IB_TIMEOUT set by environment to 22.")
        log.says(rank, f"{nccl} comm 0x55{rank} rank {rank} nranks 2 cudaDev {rank} busId a7000 - Init COMPLETE")
    log.says(
        0, "step 10 loss 0.31 (timeout=1800s)", "ConnectionError: HTTPSConnectionPool: Read timed out.", "retrying"
    )
    log.says(0, "training finished: iteration 500/500")
    for rank in range(2):
        text = "WARNING: destroy_process_group() was not called before program exit, which can leak resources."
        log.c10(rank, f"Warning: {text}", "ProcessGroupNCCL.cpp:1487")
    return log


@dataclass(frozen=True)
class Case:
    """told: what happened. ranks: of the job. prefix: in front of each line; None: a file per rank, as torchrun writes."""

    told: str
    log: Callable[[], Log]
    ranks: int
    truth: Truth
    prefix: Prefix | None

    def write(self, folder: Path) -> None:
        """The evidence."""
        if self.prefix:
            self.log().write(folder / "job.log", self.prefix)
        else:
            self.log().write_per_rank(folder, "attempt_0/{rank}/stderr.log")


LOGS = {
    "log_rank_not_joined": Case(
        "Eight ranks, one log of `torchrun --tee 3`. Rank 5 never comes to a reduction; rank 3 is the first to time out, "
        "signals the others, and ends first.",
        one_stays_away,
        8,
        Truth(
            "rank_not_joined",
            (5,),
            "Rank 5 prints 211 as last enqueued and as last completed while all others wait in 212. Rank 3 is a messenger.",
        ),
        torchrun,
    ),
    "log_rank_died": Case(
        "Four ranks, a log of each, as `torchrun --log-dir` writes them. Rank 3 cannot open a file.",
        one_raises,
        4,
        Truth(
            "rank_died", (3,), "Python ended rank 3 before anybody ran out of time; the others waited for it in vain."
        ),
        None,
    ),
    "log_device_error": Case(
        "Sixteen ranks in Kubernetes, lines of two pods. The memory of a device fails.",
        one_device_fails,
        16,
        Truth("device_error", (12,), "The watchdog of rank 12 ended with a CUDA error, before the timeouts."),
        kubernetes,
    ),
    "log_nccl2_timeout": Case(
        "Four ranks with the nccl2 backend of torch 2.15; two of them say that an operation timed out.",
        nccl2,
        4,
        Truth("insufficient_evidence", (), "The backend prints neither numbers nor operations: nobody can be named."),
        bare,
    ),
    "log_healthy": Case(
        "Two ranks that finish their training, with NCCL at INFO, a setting called timeout and an error that was dealt with.",
        healthy,
        2,
        Truth("no_fault", (), "No line tells of a collective that timed out or of a process that failed."),
        bare,
    ),
}


def main(names: Sequence[str]) -> int:
    """Write the named fixtures (all); expected outputs beside them stay. 64 where a name is unknown."""
    if unknown := set(names) - LOGS.keys():
        print(f"no such fixture: {' '.join(unknown)}; there are: {' '.join(LOGS)}", file=sys.stderr)
        return 64
    for name in names or LOGS:
        case, folder = LOGS[name], FIXTURES / name
        shutil.rmtree(folder / "evidence", ignore_errors=True)
        case.write(folder / "evidence")
        how = f"python -m tests.jobs.log_fixtures {name}"
        write_case(folder, case.told, "built", how, None, case.ranks, case.truth)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
