"""`make bench`: whole processes against a yardstick that does the unavoidable part, in turn, as medians.

    python -m benchmarks [--runs N] [--long] [--write]

Prints one line per measurement: the ratio, what it may be at most, both medians in seconds and in memory; then what the
collector costs (see live.py). `--long` adds the large jobs (an hour, and 10 GB of disk for a while); `--write` puts the
lines into RESULTS.md beside this file.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks import jobs, live, logs, stores
from benchmarks.measure import PYTHON, WHICHRANK, Measurement, line

IMPORTS = (PYTHON, "-c", "import duckdb, pyarrow")
LOADS = (PYTHON, "-m", "benchmarks.loads")
RESULTS = Path(__file__).parent / "RESULTS.md"
PREFACE = """\
# Results of `make bench`

Written by `python -m benchmarks --write`. A line: how many times as long as the yardstick we take (how many times it
may be at most, and how much memory), our seconds / its seconds, our memory / its memory over all processes, what /
against what. `OVER` is above the bound; docs/decisions/0052 says why, and what it would take.
"""


def diagnosis(
    folder: Path,
    ranks: int,
    yardstick: tuple[str, ...],
    name: str,
    at_most: float | None = None,
    at_most_mb: float | None = None,
) -> Measurement:
    """`diagnose` of a job of `benchmarks.jobs`, which must name the right rank."""
    says = f"rank {jobs.culprit_of(ranks)} never joined"
    command = (*WHICHRANK, "diagnose", str(folder))
    return Measurement(f"diagnose {name}", command, yardstick, at_most, at_most_mb, says)


def start_up(folder: Path) -> Iterator[tuple[Measurement, int]]:
    """What everybody waits for. Each with how many runs of the asked ones it gets."""
    yield Measurement("--help / import click", (*WHICHRANK, "--help"), (PYTHON, "-c", "import click"), 3), 1
    small = jobs.write(folder / "small", 8, 2_000)
    yield diagnosis(small, 8, IMPORTS, "8 ranks x 2,000 entries / import duckdb, pyarrow", at_most=4), 1


def dumps(folder: Path, *, long: bool) -> Iterator[tuple[Measurement, int]]:
    """Raw dumps: against a bare loop of pickle.loads, and against torchfrtrace of the installed torch."""
    frtrace = (PYTHON, "-m", "torch.distributed.flight_recorder.fr_trace", "--prefix", "comm_lib_trace_rank_")
    for ranks in (8, 64, 256, *((1_024,) if long else ())):
        job = jobs.write(folder / f"{ranks}", ranks, 2_000)
        name = f"{ranks:,} ranks x 2,000 entries"
        few = 1 if ranks < 256 else 0
        bounds = (1.2, 1_536) if ranks == 1_024 else (None, None)
        yield diagnosis(job, ranks, (*LOADS, str(job)), f"{name} / pickle.loads of the same files", *bounds), few
        bound = 1 / 15 if ranks == 256 else None
        yield diagnosis(job, ranks, (*frtrace, str(job)), f"{name} / torchfrtrace {version('torch')}", at_most=bound), 0
    for ranks in (64, 1_024, *((4_096,) if long else ())):
        job = jobs.write_only_active(folder / f"active{ranks}", ranks)
        bound = 6 if ranks == 4_096 else None
        yield diagnosis(job, ranks, IMPORTS, f"{ranks:,} only-active ranks / import duckdb, pyarrow", at_most=bound), 1
    if long:
        job = jobs.write(folder / "deep", 64, 20_000)
        yield diagnosis(job, 64, (*LOADS, str(job)), "64 ranks x 20,000 entries / pickle.loads", at_most=1.3), 0
        job = jobs.write(folder / "one", 8, 2_000_000, only=0)
        command = (*WHICHRANK, "diagnose", str(job))
        name, says = "diagnose one dump of 2M entries / pickle.loads", "cannot tell who is to blame"
        # Seven ranks are missing: it could not diagnose.
        yield Measurement(name, command, (*LOADS, str(job)), None, 4_096, says, exit_codes=(2,)), 0


def text(folder: Path, *, long: bool) -> Iterator[tuple[Measurement, int]]:
    """Logs; the bound holds from 1 GB on."""
    yield from ((measurement, 1) for measurement in logs.measurements(folder, 2**30 if long else 2**28))


def report(folder: Path, runs: int, *, long: bool) -> Iterator[str]:
    """All lines, one after the other."""
    stored = stores.measurements(folder, long=long)
    for part in (start_up(folder), dumps(folder, long=long), stored, text(folder, long=long)):
        for measurement, several in part:
            yield line(measurement, runs if several else 1)
    yield from live.report(runs)


def header() -> str:
    """Where and when."""
    model = next((text.partition(":")[2].strip() for text in _cpuinfo() if text.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "pyarrow", "torch"))
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {len(os.sched_getaffinity(0))} cores of {model or platform.machine()}, "
        f"{memory:.0f} GiB, Python {platform.python_version()}, {packages}"
    )


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="counted runs of what takes seconds; the rest runs once")
    parser.add_argument("--long", action="store_true", help="the large jobs as well")
    parser.add_argument("--write", action="store_true", help="write RESULTS.md")
    given = parser.parse_args()
    lines = [header()]
    print(lines[0], flush=True)
    with tempfile.TemporaryDirectory() as name:
        for said in report(Path(name), given.runs, long=given.long):
            lines.append(said)
            print(said, flush=True)
    if given.write:
        RESULTS.write_text(f"{PREFACE}\n```\n" + "\n".join(lines) + "\n```\n", encoding="utf-8")


if __name__ == "__main__":
    main()
