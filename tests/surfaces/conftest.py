"""Dump folders written by the job builder, and a command line run in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.jobs.builder import Job
from whichrank.surfaces.cli import run


class Done(NamedTuple):
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


Cli = Callable[..., Done]


@pytest.fixture(scope="session")
def hang(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four ranks; rank 2 stops after two calls of all_reduce."""
    return Job(4).all_reduce().all_reduce().stop(2).all_reduce().write(tmp_path_factory.mktemp("hang"))


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four ranks that have finished everything."""
    return Job(4).all_reduce().all_reduce().write(tmp_path_factory.mktemp("healthy"))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run one command line as a person would type it; every exception but SystemExit is a failure."""

    def call(*arguments: object) -> Done:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Done(code, captured.out, captured.err)

    return call
