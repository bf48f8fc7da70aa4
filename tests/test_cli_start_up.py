"""What `--help` must not pay for: not measured with a clock, but by what was imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"duckdb", "pyarrow", "pydantic", "rich", "jinja2", "yaml", "numpy", "torch", "sqlglot"}


def _imported(*arguments: str) -> set[str]:
    """Top-level modules in sys.modules after the command line has run, in a process of its own."""
    script = (
        "import sys; from whichrank.surfaces.cli import run; code = run(sys.argv[1:]);"
        "sys.stderr.write(' '.join({name.partition('.')[0] for name in sys.modules})); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in (0, 64), done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["diagnose", "--help"],
        ["collect", "--help"],
        ["query", "--help"],
        ["no-such-command"],
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert not _imported(*arguments) & HEAVY


@pytest.mark.parametrize("arguments", [["tables"], ["tables", "torch_nccl_dump"], ["skills"]], ids=" ".join)
def test_looking_things_up_needs_no_database(arguments: list[str]) -> None:
    assert not _imported(*arguments) & {"duckdb", "pyarrow", "pydantic", "rich", "torch", "numpy"}
