"""`make bench`: whole processes against a yardstick that does the unavoidable part, in turn, as medians.

    python -m benchmarks [--runs N]

Prints one line per measurement: the ratio, what it may be at most, and both medians in seconds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

from tests.jobs.builder import Job

PYTHON = sys.executable


@dataclass(frozen=True)
class Measurement:
    """A command and its yardstick; `at_most` is the ratio of the medians that we hold ourselves to."""

    name: str
    command: Sequence[str]
    yardstick: Sequence[str]
    at_most: float


def hang(folder: Path, ranks: int = 8, steps: int = 143) -> Path:
    """A job of `ranks` x about 2,000 entries with stacks; one rank stops before the last step."""
    job = Job(ranks, ahead=4).grid(tp=2, dp=ranks // 2)
    for step in range(steps):
        if step == steps - 1:
            job.stop(ranks // 2 + 1)
        for layer in range(10):
            job.all_reduce("tp", [64, 128], at=(f"layers.py:{30 + layer} in row_parallel", "train.py:70 in forward"))
        job.all_gather("dp", 8192, at="train.py:90 in gather").reduce_scatter("dp", 8192, at="train.py:91 in scatter")
        job.all_reduce("dp", [8192], at="train.py:92 in reduce").all_reduce(shape=[1], at="train.py:99 in clip")
    return job.write(folder)


def seconds(command: Sequence[str]) -> float:
    """Wall time of one whole process."""
    started = perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    taken = perf_counter() - started
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.decode()}")
    return taken


def run(measurement: Measurement, runs: int) -> str:
    """Both in turn, after one run of each that is not counted."""
    pairs = [(seconds(measurement.command), seconds(measurement.yardstick)) for _ in range(runs + 1)][1:]
    ours, theirs = (median(times) for times in zip(*pairs, strict=True))
    ratio = ours / theirs
    word = "ok  " if ratio <= measurement.at_most else "OVER"
    return f"{word} {ratio:5.2f} x (at most {measurement.at_most:g})  {ours:.3f} s / {theirs:.3f} s  {measurement.name}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="counted runs of each command")
    runs = parser.parse_args().runs
    whichrank = [PYTHON, "-m", "whichrank"]
    with tempfile.TemporaryDirectory() as folder:
        dumps = hang(Path(folder) / "dumps")
        measurements = [
            Measurement("--help / import click", [*whichrank, "--help"], [PYTHON, "-c", "import click"], 3),
            Measurement(
                "diagnose 8 ranks x 2,000 entries / import duckdb, pyarrow",
                [*whichrank, "diagnose", str(dumps)],
                [PYTHON, "-c", "import duckdb, pyarrow"],
                4,
            ),
        ]
        for measurement in measurements:
            print(run(measurement, runs), flush=True)


if __name__ == "__main__":
    main()
