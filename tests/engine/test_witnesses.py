"""Files of several kinds in one folder: each goes to the collector that knows it."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from tests.jobs.builder import Job
from whichrank.batch import Batch, note, rows_to_arrow
from whichrank.engine import intake, witnesses
from whichrank.engine.witnesses import Witness
from whichrank.tables import NOTE

POEM = b"A poem:\nroses are red\n"


class Poems(ModuleType):
    """A collector of poems: one note for each."""

    def recognises(self, path: Path, head: bytes, named: bool) -> bool:
        return head.startswith(b"A poem") or (named and path.suffix == ".poem")

    def read(self, paths: Sequence[Path], *, on_progress: witnesses.Progress | None = None) -> Iterator[Batch]:
        rows = [note("poem", "it is a poem", severity="info", source=path.name) for path in paths]
        yield Batch("poems", None, {NOTE.name: rows_to_arrow(NOTE, rows)})


@pytest.fixture(autouse=True)
def poems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "poems", Poems("poems"))
    monkeypatch.setattr(witnesses, "WITNESSES", (Witness("poems", "poems", (NOTE.full_name,)),))


def _read(*paths: Path) -> tuple[int, list[str]]:
    """Dumps read, and the files that became poems."""
    with intake.open_evidence(paths) as evidence:
        evidence.show()
        dumps = evidence.count("python.torch_nccl_dump")
        notes = evidence.connection.execute("SELECT kind, source FROM python.collection_note ORDER BY ALL").fetchall()
    assert {kind for kind, _ in notes} <= {"poem"}, "a claimed file is no foreign file"
    return dumps, [source for _, source in notes]


def test_a_folder_of_dumps_and_others(tmp_path: Path) -> None:
    folder = Job(2).all_reduce().write(tmp_path / "job")
    (folder / "a.txt").write_bytes(POEM)
    (folder / "below").mkdir()
    (folder / "below" / "b.gz").write_bytes(gzip.compress(POEM))
    (folder / ".hidden").write_bytes(POEM)
    assert _read(folder) == (2, ["a.txt", "b.gz"])


def test_a_named_file_is_believed(tmp_path: Path) -> None:
    (tmp_path / "x.poem").write_text("no title")
    dumps = Job(2).all_reduce().write(tmp_path / "job")
    assert _read(tmp_path / "x.poem", dumps) == (2, ["x.poem"])


def test_a_dump_is_never_asked_about(tmp_path: Path) -> None:
    dumps = Job(2).all_reduce().write(tmp_path)
    for dump in list(dumps.iterdir()):
        dump.rename(dump.with_name(f"rank_{dump.name[-1]}.poem"))
    assert _read(*dumps.iterdir()) == (2, [])


def test_broken_files_are_left_to_the_dumps_collector(tmp_path: Path) -> None:
    folder = Job(2).all_reduce().write(tmp_path)
    (folder / "broken.gz").write_bytes(gzip.compress(POEM)[:12])
    (folder / "empty").touch()
    assert witnesses.claimed([folder]) == {}
