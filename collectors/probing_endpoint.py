"""The SQL door of a process with a probe of `probing` (0.2.4) in it: HTTP over its abstract unix socket, or over TCP.

`probing -t TARGET NAME` puts TARGET into PROBING_ENDPOINT: a process id on this host, or HOST:PORT. Tables of the
schema `python` that do not exist are Python expressions, evaluated in that process.
"""

from __future__ import annotations

import base64
import inspect
import json
import os
import re
import socket
import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import ModuleType
from typing import Any

VARIABLE = "PROBING_ENDPOINT"
_SOCKET = "probing-"
_PROTOCOL = {"major": 0, "minor": 1, "patch": 0}
_ADDRESS = re.compile(r"(?:https?://)?(?P<host>\[[0-9a-fA-F:]+\]|[\w.-]+):(?P<port>\d{1,5})/?")


class NoProbe(Exception):
    """Nobody there answers as probing does. next: what probably helps, or None."""

    def __init__(self, what: str, next: str | None = None) -> None:
        super().__init__(what)
        self.next = next


class NoSuchTable(Exception):
    """The probe answers, but not with rows: what it said."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A process with a probe. pid: on this host; or host and port."""

    pid: int | None = None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"process {self.pid}" if self.pid is not None else f"{self.host}:{self.port}"

    def rows(self, sql: str, timeout_s: float) -> list[dict[str, Any]]:
        """The rows of one statement. Raises NoProbe, NoSuchTable."""
        asked = {"version": _PROTOCOL, "message_id": None, "timestamp": time.time_ns() // 1000}
        said = self._post("/query", json.dumps({**asked, "payload": {"expr": sql, "opts": None}}), timeout_s)
        try:
            payload = json.loads(said)["payload"]
            if "Error" in payload:
                raise NoSuchTable(str(payload["Error"].get("message")))
            frame = payload["DataFrame"]
            columns = [[] if c == "Nil" else next(iter(c.values())) for c in frame["cols"]]
            rows = max(map(len, columns), default=0)
            filled = [c or [None] * rows for c in columns]  # a column of NULLs comes without values
            return [dict(zip(frame["names"], row, strict=True)) for row in zip(*filled, strict=True)]
        except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
            raise NoProbe(f"{self} answers, but not as probing 0.2.4 does: {said[:80]!r}") from None

    def _post(self, path: str, body: str, timeout_s: float) -> bytes:
        connection = self._connection(timeout_s)
        try:
            connection.request("POST", path, body.encode())
            answer = connection.getresponse()
            text = answer.read()
        except TimeoutError:
            raise NoProbe(
                f"{self} has not answered for {timeout_s:g} s: it is stopped, or holds the GIL",
                "name another rank of the job: this one is then told as silent",
            ) from None
        except (OSError, HTTPException) as error:
            raise self._absent(error) from None
        finally:
            connection.close()
        if answer.status != 200:
            raise NoProbe(f"{self} answers, but not as probing does: HTTP {answer.status} {text[:80]!r}")
        return text

    def _connection(self, timeout_s: float) -> HTTPConnection:
        if self.pid is None:
            return HTTPConnection(self.host, self.port, timeout=timeout_s)
        return _Local(self.pid, timeout_s)

    def _absent(self, error: Exception) -> NoProbe:
        if self.pid is None:
            return NoProbe(
                f"{self} does not answer: {error}",
                "start the job with PROBING=1 and PROBING_PORT, and give the address it prints",
            )
        if not Path(f"/proc/{self.pid}").exists():
            return NoProbe(f"there is no process {self.pid} on this host", "probing list")
        return NoProbe(
            f"process {self.pid} has no probe that answers: {error}",
            "start the job with PROBING=1, and ask from inside its container (probing 0.2.4 cannot inject: its wheel "
            "lacks the library); where this one stands: whichrank collect --stacks --into STORE",
        )


def value_of(door: Endpoint, module: ModuleType, call: str, timeout_s: float) -> str:
    """The text that `call` gives in that process, in a namespace that holds the source of `module` and is then gone.

    Raises NoProbe, also where Python does not answer.
    """
    try:
        [row] = door.rows(f'SELECT * FROM python."{expression(module, call)}"', timeout_s)
        [text] = row.values()
    except (NoSuchTable, ValueError) as error:
        said = f"{door} did not evaluate an expression: {error}"
        raise NoProbe(said, "look at the last lines that probing wrote into the log of the job") from None
    return str(text)


def expression(module: ModuleType, call: str) -> str:
    """A Python expression without anything that SQL or probing could stumble over. It is at home in any process."""
    source = base64.b64encode(inspect.getsource(module).encode()).decode()
    inner = (
        f"(lambda space: (exec(compile(__import__('base64').b64decode('{source}'), 'whichrank', 'exec'), space), "
        f"eval({call!r}, space))[1])({{'__name__': 'whichrank.inside'}})"
    )
    return f"builtins.eval(__import__('base64').b64decode('{base64.b64encode(inner.encode()).decode()}'))"


class _Local(HTTPConnection):
    """HTTP over the abstract socket `@probing-PID`."""

    def __init__(self, pid: int, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._name = f"\0{_SOCKET}{pid}"

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._name)


def endpoint(text: str) -> Endpoint:
    """What PROBING_ENDPOINT holds -> an endpoint. Raises ValueError for anything else."""
    if text.isdecimal():
        return Endpoint(pid=int(text))
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is neither a process id nor HOST:PORT")
    return Endpoint(host=found["host"].strip("[]"), port=int(found["port"]))


def local() -> list[int]:
    """The processes that have a probe in the network namespace of this one, by their sockets."""
    try:
        text = Path("/proc/net/unix").read_text(errors="replace")
    except OSError:
        return []
    found = {int(pid) for pid in re.findall(rf"@{_SOCKET}(\d+)\s*$", text, re.MULTILINE)}
    return sorted(found - {os.getpid()})
