"""The generator of the pages. Whether the pages are fresh is told by `make check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.builder import Job
from tools import docs
from whichrank.engine.manifest import Pack
from whichrank.surfaces.cli import COMMANDS
from whichrank.tables import TABLES


def test_every_command_table_and_query_has_its_place() -> None:
    cli, tables, checks = docs.cli_page(), docs.tables_page(), docs.checks_page(Pack())
    assert all(f"\n## {name}\n" in cli for name in COMMANDS)
    assert all(f"\n## {table.full_name}\n" in tables for table in TABLES)
    for id in Pack().library.ids():
        assert f"\n### {id.removeprefix('checks.')}\n" in checks
    assert "{{" not in checks


def test_output_in_a_page_is_what_the_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Job(2).all_reduce().stop(1).all_reduce().write(tmp_path / "dumps")
    monkeypatch.chdir(tmp_path)
    page = "a\n<!-- output of: whichrank diagnose dumps -->\nold\n<!-- end of output -->\nb\n"
    text = docs.with_output(page)
    assert text.startswith(
        "a\n<!-- output of: whichrank diagnose dumps -->\n```\n$ whichrank diagnose dumps\nwatchdog_timeout: rank 1 "
    )
    assert text.endswith("The statements: --sql\n```\n<!-- end of output -->\nb\n")
    assert docs.with_output(text) == text


def test_check_tells_what_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert docs.main(["--check"]) == 1
    assert "3 generated pages are stale" in capsys.readouterr().out
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
