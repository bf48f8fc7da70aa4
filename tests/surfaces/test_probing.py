"""probing-whichrank without probing: what it says to bad calls, and to doors that answer otherwise."""

from __future__ import annotations

import builtins
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from whichrank.collectors import backtrace_inside, flight_recorder_live, probing
from whichrank.collectors.probing_endpoint import Endpoint, NoProbe, NoSuchTable, endpoint, expression
from whichrank.surfaces.probing import run


@contextmanager
def door(answers: dict[str, Any] | bytes, status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """A door that gives, for a statement, the answer whose key is in it; as text, always the same."""
    heard: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if isinstance(answers, bytes):
                text = answers
            else:
                sql = json.loads(body)["payload"]["expr"]
                heard.append(sql)
                found = next(
                    (value for key, value in answers.items() if key in sql), {"Error": {"message": "no table"}}
                )
                text = json.dumps({"payload": found}).encode()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        server.server_close()


def frame(**columns: list[Any]) -> dict[str, Any]:
    kinds = {str: "SeqText", int: "SeqI64"}
    cols = [
        {kinds[type(values[0])]: values} if values and values[0] is not None else "Nil" for values in columns.values()
    ]
    return {"DataFrame": {"names": list(columns), "cols": cols, "size": 0}}


def asked(target: str | None, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    if target is None:
        monkeypatch.delenv("PROBING_ENDPOINT", raising=False)
    else:
        monkeypatch.setenv("PROBING_ENDPOINT", target)
    return run(list(arguments))


# ---- the expression --------------------------------------------------------------------------------------------------
def test_the_expression_needs_nothing_of_ours_and_names_this_process() -> None:
    text = eval(
        expression(flight_recorder_live, "answer_text(stacks=True)"), {"builtins": builtins, "__builtins__": builtins}
    )
    said = json.loads(text)
    assert said["rank"] is None
    assert set(said) >= {"host", "pid", "job_id", "parts", "notes", "groups", "body"}


def test_the_stacks_of_this_process_from_inside() -> None:
    known = threading.Event()

    def waits_here() -> None:
        known.wait()

    thread = threading.Thread(target=waits_here, name="a waiting one", daemon=True)
    thread.start()
    made = expression(backtrace_inside, "stacks_text()")
    try:
        said = json.loads(eval(made, {"builtins": builtins, "__builtins__": builtins}))
        while not any("waits_here" in str(one["frames"]) for one in said["threads"]):  # it has only just begun
            said = json.loads(backtrace_inside.stacks_text())
    finally:
        known.set()
        thread.join()
    [found] = [one for one in said["threads"] if one["name"] == "a waiting one"]
    assert found["os_id"] == thread.native_id
    assert [func for func, file, _ in found["frames"] if func in ("wait", "waits_here")][-2:] == ["wait", "waits_here"]
    assert threading.get_native_id() not in [one["os_id"] for one in said["threads"]], "who asks is left out"


def test_of_an_environment_only_what_names_a_job_is_asked() -> None:
    with door({"process.envs": frame(name=["MASTER_ADDR", "MASTER_PORT"], value=["h", "1"])}) as (address, heard):
        assert probing.peers(endpoint(address)) == []
    assert all(sql.startswith(("SELECT rank, host, addr", "SELECT name, value")) for sql in heard)
    assert any("WHERE name IN ('RANK'" in sql for sql in heard)


# ---- doors -----------------------------------------------------------------------------------------------------------
def test_rows_of_all_kinds() -> None:
    with door({"SELECT 1": frame(a=[1, 2], b=["x", "y"], c=[None]), "empty": frame(a=[])}) as (address, _):
        assert endpoint(address).rows("SELECT 1", 5) == [{"a": 1, "b": "x", "c": None}, {"a": 2, "b": "y", "c": None}]
        assert endpoint(address).rows("empty", 5) == []
        with pytest.raises(NoSuchTable, match="no table"):
            endpoint(address).rows("other", 5)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"<html>", 200),
        (b"{}", 200),
        (b"[]", 200),
        (b'{"payload": null}', 200),
        (b'{"payload": {"Error": null}}', 200),
        (b'{"payload": {"DataFrame": {"names": ["a"], "cols": [5]}}}', 200),
        (b"\xff", 200),
        (b"", 404),
    ],
)
def test_who_answers_but_is_not_probing(said: bytes, status: int) -> None:
    with door(said, status) as (address, _), pytest.raises(NoProbe, match="answers, but not as probing"):
        endpoint(address).rows("SELECT 1", 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4242", Endpoint(pid=4242)),
        ("host:80", Endpoint(host="host", port=80)),
        ("[::1]:9", Endpoint(host="::1", port=9)),
        ("http://10.0.0.1:8080/", Endpoint(host="10.0.0.1", port=8080)),
    ],
)
def test_targets_as_probing_takes_them(text: str, expected: Endpoint) -> None:
    assert endpoint(text) == expected


@pytest.mark.parametrize("text", ["", "train.py", "host", "host:", ":80", "-1", "1.5", "host:123456", "a b:1", "²"])
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(ValueError, match="neither a process id nor HOST:PORT"):
        endpoint(text)


# ---- what a person sees ----------------------------------------------------------------------------------------------
def test_without_a_target(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "")
    assert asked(None, "diagnose", monkeypatch=monkeypatch) == 64
    said = capsys.readouterr().err
    assert "no process is named" in said
    assert "pip install probing==0.2.4, then probing -t PID whichrank diagnose" in " ".join(said.split())


@pytest.mark.parametrize(
    ("target", "code", "says"),
    [
        ("nonsense", 64, "'nonsense' is neither a process id nor HOST:PORT"),
        ("host:99999999", 64, "neither a process id"),
        ("1", 2, "process 1 has no probe that answers"),
        ("127.0.0.1:9", 2, "127.0.0.1:9 does not answer"),
        ("999999999", 2, "there is no process 999999999 on this host"),
    ],
)
def test_targets_that_lead_nowhere(
    target: str,
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert asked(target, "diagnose", "--json", monkeypatch=monkeypatch) == code
    said = json.loads(capsys.readouterr().out)
    assert says in said["error"]
    assert said["next"]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"SELECT 1": frame(a=[1])}, "did not evaluate an expression: no table"),
        ({"SELECT 1": frame(a=[1]), "builtins.eval": frame(value=["{"])}, "did not evaluate an expression"),
        ({"SELECT 1": frame(a=[1]), "builtins.eval": frame(value=['{"body": "*"}'])}, "did not evaluate an expression"),
        ({}, "no table"),
        (
            {
                "SELECT 1": frame(a=[1]),
                "builtins.eval": frame(value=['{"body": "", "job_id": "j", "rank": null, "parts": []}']),
            },
            "is no rank: torch.distributed is not initialised there",
        ),
        (
            {
                "SELECT 1": frame(a=[1]),
                "builtins.eval": frame(value=['{"body": "", "job_id": "j", "rank": 0, "parts": [], "notes": []}']),
            },
            "no recorder behind",
        ),
    ],
)
def test_probes_that_give_no_recorder(
    answers: dict[str, Any],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with door(answers) as (address, _):
        assert asked(address, "diagnose", "--json", monkeypatch=monkeypatch) == 2
    assert says in json.loads(capsys.readouterr().out)["error"]
    assert list(tmp_path.iterdir()) == []


def test_calls_that_are_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["diagnose", "--timeout", "0"], ["collect"], ["query"], ["nonsense"], ["collect", "--into"]):
        assert asked("1", *arguments, monkeypatch=monkeypatch) == 64, arguments
    assert asked("1", "--help", monkeypatch=monkeypatch) == 0
    assert asked("1", "diagnose", "--help", monkeypatch=monkeypatch) == 0
    assert "Usage: whichrank diagnose" in capsys.readouterr().out
