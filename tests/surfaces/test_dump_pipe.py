"""PyTorch's dump pipes, with a stand-in that does what ProcessGroupNCCL does: this machine has no NCCL."""

from __future__ import annotations

import os
import pickle
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.collectors.dumps import entry, payload
from tests.surfaces.conftest import Cli
from whichrank.engine.dump_pipe import collect_through_pipes, pipes
from whichrank.errors import NoEvidence
from whichrank.store.evidence import Evidence


@contextmanager
def rank_that_reads(folder: Path, rank: int, *, dumps: bool = True) -> Iterator[None]:
    """Makes the fifo, opens it non-blocking, and on any byte writes the dump in two pieces, as a file that grows."""
    pipe = folder / f"pipe_{rank}.pipe"
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    wake, end = os.pipe()

    def serve() -> None:
        while True:
            ready, _, _ = select.select([descriptor, wake], [], [])
            if wake in ready:
                return
            if os.read(descriptor, 64) and dumps:
                data = pickle.dumps(payload([entry()]), protocol=2)
                with (folder / f"fr_{rank}").open("wb", buffering=0) as file:
                    file.write(data[:100])
                    file.write(data[100:])
                return

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        os.write(end, b"x")
        thread.join(60)
        for each in (descriptor, wake, end):
            os.close(each)


def test_every_rank_with_a_pipe_is_asked(tmp_path: Path) -> None:
    (tmp_path / "fr_0").write_bytes(b"an older dump, which must not be taken for the answer")
    with rank_that_reads(tmp_path, 0), rank_that_reads(tmp_path, 12):
        done = collect_through_pipes(tmp_path / "pipe_", tmp_path / "fr_", tmp_path / "store")
    assert (done["ranks"], done["notes"]) == ([0, 12], [])
    with Evidence(stores=[tmp_path / "store"]) as evidence:
        assert evidence.count("python.torch_nccl_dump") == 2


def test_who_does_not_answer_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe_2.pipe")  # its process is gone
    with rank_that_reads(tmp_path, 0), rank_that_reads(tmp_path, 1, dumps=False):
        done = collect_through_pipes(tmp_path / "pipe_", tmp_path / "fr_", tmp_path / "store", wait_s=3)
    assert done["ranks"] == [0]
    gone, silent = done["notes"]
    assert "rank 2: nobody reads" in gone
    assert "rank 1 was asked and wrote no" in silent


def test_foreign_files_are_no_pipes(tmp_path: Path) -> None:
    for name in ("pipe_7.pipe", "other_1.pipe", "pipe_x.pipe"):
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / "pipe_3.pipe")
    assert list(pipes(tmp_path / "pipe_")) == [(3, tmp_path / "pipe_3.pipe")]
    assert list(pipes(tmp_path / "nowhere" / "pipe_")) == []


def test_nobody_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoEvidence, match="there is no pipe"):
        collect_through_pipes(tmp_path / "pipe_", tmp_path / "fr_", tmp_path / "store")


def test_the_command(tmp_path: Path, cli: Cli) -> None:
    with rank_that_reads(tmp_path, 0):
        done = cli("collect", "--pipe", tmp_path / "pipe_", "--dumps", tmp_path / "fr_", "--into", tmp_path / "store")
    assert (done.code, done.out) == (0, f"1 ranks, 1 records -> {tmp_path / 'store'}\n")
    failed = cli("collect", "--pipe", tmp_path / "none_", "--dumps", tmp_path / "fr_", "--into", tmp_path / "store")
    assert failed.code == 2
    assert "TORCH_NCCL_DEBUG_INFO_PIPE_FILE" in " ".join(failed.err.split())
    wrong = cli("collect", "--pipe", tmp_path / "pipe_", "--into", tmp_path / "store")
    assert (wrong.code, "--dumps" in wrong.err) == (64, True)
