"""Colour, width and the progress bar."""

from __future__ import annotations

import io
import sys

import pytest

from whichrank.surfaces import terminal


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_only_on_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert terminal.colour_of(_Terminal())
    assert not terminal.colour_of(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal.colour_of(_Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not terminal.colour_of(_Terminal())


def test_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert (terminal.width_of(io.StringIO()), terminal.width_of(_Terminal())) == (80, 110)
    monkeypatch.setenv("COLUMNS", "20")
    assert terminal.width_of(_Terminal()) == 60


@pytest.mark.parametrize(("patience", "tty", "shown"), [(0.0, True, True), (0.0, False, False), (60.0, True, False)])
def test_progress(monkeypatch: pytest.MonkeyPatch, patience: float, tty: bool, shown: bool) -> None:
    stream = _Terminal() if tty else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(terminal, "_PATIENCE_S", patience)
    monkeypatch.setenv("TERM", "xterm")
    with terminal.progress("reading dumps") as step:
        for done in range(5):
            step(done, 5)
    assert ("reading dumps" in stream.getvalue()) == shown
