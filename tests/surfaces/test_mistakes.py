"""Errors: what happened, what was looked for, what to type next; exit codes; never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.surfaces.conftest import Cli
from whichrank.surfaces import cli as cli_module

LOOKED_FOR = """\
  looked for  Flight Recorder dumps (pickle or JSON, one per rank), answers of
              NCCL RAS (ncclras -f json), traces of the NCCL profiler plugin,
              records of NCCL Inspector, stacks (py-spy dump --json,
              faulthandler, torch.distributed.debug), kernel logs (dmesg), logs
              of the job, or a store (folders <table>/rank=<n>/*.parquet)
  next        look where TORCH_FR_DUMP_TEMP_FILE (or
              TORCH_NCCL_DEBUG_INFO_TEMP_FILE) pointed; else on each host in
              ~/.cache/torch/ (torch 2.8 and later) or /tmp/ (before), files
              *_trace_rank_<n>. Then: whichrank diagnose FOLDER
"""


def test_a_folder_that_is_not_there(cli: Cli) -> None:
    done = cli("diagnose", "no/such/folder")
    assert (done.code, done.out) == (2, "")
    assert done.err == "whichrank: no/such/folder does not exist\n" + LOOKED_FOR


def test_an_empty_folder(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dumps").mkdir()
    done = cli("diagnose", "dumps")
    assert (done.code, done.err) == (2, "whichrank: dumps is empty\n" + LOOKED_FOR)


def test_a_folder_without_dumps(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("hello")
    (tmp_path / "rank_0").write_text("{}")
    done = cli("diagnose", tmp_path)
    assert done.code == 2
    assert "could be read as evidence" in " ".join(done.err.split())
    assert "next " in done.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(cli: Cli, hang: Path, tmp_path: Path) -> None:
    path = tmp_path / "rank_0"
    path.write_bytes(sorted(hang.iterdir())[0].read_bytes())
    path.chmod(0)
    done = cli("diagnose", path)
    assert done.code == 2
    assert "cannot be read" in done.err


def test_a_damaged_file(cli: Cli, hang: Path, tmp_path: Path) -> None:
    path = tmp_path / "rank_0"
    path.write_bytes(sorted(hang.iterdir())[0].read_bytes()[:200])
    done = cli("diagnose", path)
    assert done.code == 2
    assert "rank_0" in done.err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["diagnose"], "Missing argument 'PATH...'."),
        (["diagnose", ".", "--skil", "x"], "No such option '--skil'"),
        (["diagnose", ".", "--param", "seq_window"], "not of the form NAME=VALUE"),
        (["diagnose", ".", "--skill", "watchdog"], "there is no skill watchdog"),
        (["diagnose", ".", "--param", "seqwindow=3"], "watchdog_timeout has no parameter seqwindow"),
        (["diagnose", ".", "--param", "seq_window=many"], "'many' is not of type integer"),
        (["diagnose", ".", "--local", "--param", "use_global=true"], "--local and --param use_global"),
        (["dyagnose"], "No such command 'dyagnose'"),
        (["tables", "nope"], "there is no table nope"),
        (["skills", "nope"], "there is no skill nope"),
        (["collect", "."], "Missing option '--into'"),
        (["query", ".", "SELECT 1", "--format", "xml"], "'xml' is not one of"),
    ],
)
def test_a_wrong_call_exits_64(cli: Cli, arguments: list[str], what: str) -> None:
    done = cli(*arguments)
    assert (done.code, done.out) == (64, "")
    assert what in " ".join(done.err.split())
    assert "next  " in done.err
    as_json = cli(*arguments, "--json")
    assert as_json.code == 64
    assert list(json.loads(as_json.out)) == ["error", "looked_for", "next"]


def test_no_command_shows_the_help(cli: Cli) -> None:
    done = cli()
    assert done.code == 64
    assert "Start with: whichrank diagnose" in done.err


def test_errors_as_json(cli: Cli) -> None:
    done = cli("diagnose", "no/such/folder", "--json")
    assert (done.code, done.err) == (2, "")
    assert json.loads(done.out)["error"] == "no/such/folder does not exist"


def test_ctrl_c_exits_130(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("whichrank.engine.runner.diagnose", interrupt)
    done = cli("diagnose", ".")
    assert (done.code, done.err.strip()) == (130, "whichrank: stopped")


def _process(arguments: list[str], **kwargs: object) -> subprocess.Popen[str]:
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-m", "whichrank", *arguments], text=True, stderr=subprocess.PIPE, **kwargs
    )


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    process = _process(["tables", "--json"], stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (cli_module.EXIT_READER_GONE, "")


def test_a_signal_in_a_real_process_leaves_no_traceback() -> None:
    script = dedent(
        """
        import signal, sys
        import whichrank.engine.runner as runner
        from whichrank.surfaces.cli import run

        def work_for_ever(*given, **more):
            print("ready", flush=True)
            while True:  # not one long call: a signal just before it would wait for its end
                sum(range(1_000))

        signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
        runner.diagnose = work_for_ever
        sys.exit(run(["diagnose", "fixtures/gloo_healthy/evidence"]))
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    try:
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, err.strip()) == (130, "whichrank: stopped")
