"""What the terminal can do: colour, width, a progress bar on stderr for work longer than a second."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE_S = 1.0


def colour_of(stream: TextIO) -> bool:
    """Whether to colour: a terminal, and nobody said NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int:
    """Columns to write in: those of the terminal within reason, 80 into files and pipes."""
    return min(max(shutil.get_terminal_size().columns, 60), 110) if stream.isatty() else 80


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (done, all). A bar appears after a second, on a terminal only, and leaves no trace."""
    started = monotonic()
    bar: Progress | None = None

    def step(done: int, total: int) -> None:
        nonlocal bar
        if bar is None and sys.stderr.isatty() and monotonic() - started > _PATIENCE_S and done < total:
            bar = _bar()
            bar.start()
            bar.add_task(label, total=total)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done, total=total)

    try:
        yield step
    finally:
        if bar is not None:
            bar.stop()


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(console=Console(stderr=True), transient=True)
