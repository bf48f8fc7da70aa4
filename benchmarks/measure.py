"""Whole processes, measured: wall time, and the most memory that a process and its children held together."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

PYTHON = sys.executable
WHICHRANK = (PYTHON, "-m", "whichrank")
_VERDICT = (0, 1)  # exit codes: nothing found, findings
_PAGE_MB = 4096 / 2**20


@dataclass(frozen=True)
class Took:
    """One run. seconds: wall time; peak_mb: resident memory of all its processes together, sampled; out: stdout."""

    seconds: float
    peak_mb: float
    out: str


@dataclass(frozen=True)
class Measurement:
    """A command and its yardstick. at_most: ratio of the medians we hold ourselves to; None: only shown.

    at_most_mb: memory; says: what the command must print; exit_codes: those it may end with.
    """

    name: str
    command: Sequence[str]
    yardstick: Sequence[str]
    at_most: float | None
    at_most_mb: float | None = None
    says: str = ""
    exit_codes: tuple[int, ...] = _VERDICT


def took(command: Sequence[str], exit_codes: Sequence[int] = _VERDICT) -> Took:
    """Run a command to its end. SystemExit where it ends with another exit code."""
    started = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    peak = [0.0]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            peak[0] = max(peak[0], sum(map(_resident_mb, _family(process.pid))))

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, err = process.communicate()
    seconds = perf_counter() - started
    over.set()
    watcher.join()
    if process.returncode not in exit_codes:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}\n{err.decode()}")
    return Took(seconds, peak[0], out.decode())


def _family(pid: int) -> list[int]:
    """A process and all below it."""
    family = [pid]
    for parent in family:
        try:
            tasks = Path(f"/proc/{parent}/task").iterdir()
            family += [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except OSError:  # it has just ended
            continue
    return family


def _resident_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_MB
    except (OSError, IndexError):
        return 0.0


def line(measurement: Measurement, runs: int) -> str:
    """Both in turn, after one run of each that is not counted where there are several: one line of a report."""
    pairs = [
        (took(measurement.command, measurement.exit_codes), took(measurement.yardstick))
        for _ in range(runs + (runs > 1))
    ]
    pairs = pairs[runs > 1 :]
    for ours, _ in pairs:
        if measurement.says not in ours.out:
            raise SystemExit(f"{measurement.name}: it does not say {measurement.says!r} but\n{ours.out}")
    ours_s, theirs_s = (median(side.seconds for side in both) for both in zip(*pairs, strict=True))
    ours_mb, theirs_mb = (median(side.peak_mb for side in both) for both in zip(*pairs, strict=True))
    ratio = ours_s / theirs_s
    over = measurement.at_most is not None and ratio > measurement.at_most
    over |= measurement.at_most_mb is not None and ours_mb > measurement.at_most_mb
    bound = "" if measurement.at_most is None else f"at most {measurement.at_most:g}"
    if measurement.at_most_mb is not None:
        bound += f"{', ' if bound else ''}{measurement.at_most_mb:,.0f} MB"
    return (
        f"{'OVER' if over else 'ok  '} {ratio:6.3f} x ({bound or 'shown'})  {ours_s:.2f} s / {theirs_s:.2f} s, "
        f"{ours_mb:,.0f} MB / {theirs_mb:,.0f} MB  {measurement.name}"
    )
