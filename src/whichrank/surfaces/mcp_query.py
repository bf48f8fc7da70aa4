"""A stranger's statement in a process of its own: `whichrank query`, which confines itself and can be killed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio

from whichrank.errors import QueryFailed, QueryRefused, WhichrankError
from whichrank.store.guard import Limits

LONGEST = 100_000  # characters of a statement: an argument of a process has its bounds
READING_S = 600.0  # before the statement begins, the evidence is read


class _Refused(WhichrankError):
    """What the process said."""


async def query(store: Path, sql: str, parameters: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """One statement -> columns, rows, truncated, hint. Raises WhichrankError with what the process said."""
    if len(sql) > LONGEST or "\0" in sql:
        raise QueryRefused(f"a statement has at most {LONGEST:,} characters, none of them NUL", next="ask for less")
    given = [f"--param={name}={_text(value)}" for name, value in parameters.items()]
    command = [sys.executable, "-m", "whichrank", "query", "--json", *given, "--", str(store), sql]
    try:
        with anyio.fail_after(READING_S + limits.seconds):
            done = await anyio.run_process(command, check=False, input=b"", env=_environment(limits))  # or killed
    except TimeoutError:
        raise QueryFailed(
            "the evidence could not be read in time", next="whichrank collect PATH --into STORE"
        ) from None
    try:
        said = json.loads(done.stdout)
    except ValueError:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()
        if done.returncode < 0 or (why and "MemoryError" in why[-1]):
            raise QueryFailed(
                f"the statement was stopped: more than {limits.memory_mib} MiB of memory",
                next="aggregate, or use LIMIT",
            ) from None
        raise QueryFailed(f"the statement ended without an answer: {why[-1] if why else 'no message'}") from None
    if "error" in said:
        raise _Refused(said["error"], looked_for=said["looked_for"], next=said["next"])
    answer: dict[str, Any] = said
    return answer


def _environment(limits: Limits) -> dict[str, str]:
    """Ours, with the limits of this server, and with the whichrank that runs here."""
    caps = {name: str(getattr(limits, name.lower())) for name in ("ROWS", "CHARACTERS", "SECONDS", "MEMORY_MIB")}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return os.environ | {f"WHICHRANK_SQL_{name}": cap for name, cap in caps.items()} | {"PYTHONPATH": path}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
