"""`diagnose` of a large log against a bare Python loop over its lines. Part of `make bench`.

    python -m benchmarks.logs [--gb 0.25] [--runs 3]

chatter   what 64 ranks print while they train: steps, progress bars, NCCL at INFO, now and then a warning; then the end
errors    the same, but every fiftieth line is an error that was dealt with, which must be looked at
packed    chatter, as gzip (the loop unpacks as well)

The verdict must name the rank that stayed away. From 1 GB on at most 4 x the loop, but for `errors`; 300 MB.
"""

# ruff: noqa: E501

from __future__ import annotations

import argparse
import gzip
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import PYTHON, WHICHRANK, Measurement, line

RANKS, ABSENT = 64, 37
TIMES, MEGABYTES = 4.0, 300.0
BATCH = 20_000


def chatter(number: int, errors: bool) -> str:
    """One line; no two neighbours are alike."""
    rank = number % RANKS
    if errors and number % 50 == 0:
        return f"[rank{rank}]: WARNING storage: retry {number % 7}: ConnectionError: HTTPSConnectionPool: Read timed out.\n"
    kind = number % 100
    if kind == 0:
        return f"node-{rank // 8}:{4000 + rank}:{5000 + rank} [{rank % 8}] NCCL INFO Channel 0{number % 8}/0 : {rank} -> 1\n"
    if kind == 1:
        return f"\rEpoch 1:  {number % 100}%|#####     | {number}/90000000 [01:02<03:04, 11.2it/s, loss=0.{number % 997:03d}]\n"
    if number % 40_000 == 2:
        return f"[rank{rank}]:[W318 12:29:08.115292493 ProcessGroupNCCL.cpp:1487] Warning: using GPU {rank % 8} for barrier\n"
    return (
        f"[default{rank % 8}]:2026-03-18 12:29:08,115 INFO train.py:412 rank {rank} step {number // RANKS} "
        f"loss 0.{number % 997:03d} lr 1.0e-04 tokens/s {number * 7919 % 90_001} grad_norm 0.{number % 89:02d}\n"
    )


def the_end() -> Iterator[str]:
    """All but one run out of time; the one had come to the collective before."""
    for rank in (r for r in range(RANKS) if r != ABSENT):
        head = f"[rank{rank}]:[E318 12:39:08.115292493 ProcessGroupNCCL.cpp:"
        yield (
            f"{head}683] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9001, OpType=ALLREDUCE, "
            "NumelIn=96, NumelOut=96, Timeout(ms)=600000) ran for 600004 milliseconds before timing out.\n"
        )
        yield (
            f"{head}2241] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: 9001 "
            "PG status: last enqueued work: 9001, last completed work: 9000\n"
        )
    yield (
        f"[rank{ABSENT}]:[E318 12:39:09.115292493 ProcessGroupNCCL.cpp:1858] [PG ID 0 PG GUID 0(default_pg) Rank {ABSENT}] "
        "Received a dump signal due to a collective timeout from  rank 1 and we will try our best to dump the debug info. "
        "Last enqueued NCCL work: 9000, last completed NCCL work: 9000.This is most likely caused by\n"
    )


def write(path: Path, size: int, *, errors: bool = False) -> Path:
    """A log of that many bytes, the end of the job at its end; packed where the name ends with .gz."""
    with gzip.open(path, "wb", 1) if path.suffix == ".gz" else path.open("wb") as file:
        written = number = 0
        while written < size:
            raw = "".join(chatter(n, errors) for n in range(number, number + BATCH)).encode()
            number += BATCH
            written += file.write(raw)
        file.write("".join(the_end()).encode())
    return path


def loop(path: Path) -> None:
    """The yardstick: every line as text, and nothing done with it."""
    with gzip.open(path, "rt", errors="replace") if path.suffix == ".gz" else path.open(errors="replace") as file:
        for _ in file:
            pass


def measurements(folder: Path, size: int) -> Iterator[Measurement]:
    """One log at a time lies in the folder."""
    says = f"rank {ABSENT} never joined"
    for name, file, errors in (
        ("chatter", "job.log", False),
        ("errors", "job.log", True),
        ("packed", "job.log.gz", False),
    ):
        path = write(folder / file, size, errors=errors)
        yardstick = (PYTHON, "-m", "benchmarks.logs", "--loop", str(path))
        at_most = TIMES if size >= 2**30 and not errors else None  # below, the start of the process is most of it
        what = f"diagnose a log of {size / 2**30:.2f} GB, {name} / bare loop over its lines"
        yield Measurement(what, (*WHICHRANK, "diagnose", str(path)), yardstick, at_most, MEGABYTES, says)
        path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.logs", description=__doc__)
    parser.add_argument("--gb", type=float, default=0.25, help="size of each log (0.25)")
    parser.add_argument("--runs", type=int, default=3, help="counted runs of each (3)")
    parser.add_argument("--loop", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.loop:
        loop(given.loop)
        return
    with tempfile.TemporaryDirectory() as name:
        for measurement in measurements(Path(name), int(given.gb * 2**30)):
            print(line(measurement, given.runs), flush=True)


if __name__ == "__main__":
    main()
