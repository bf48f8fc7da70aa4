"""A running job with `torch.distributed.debug.start_debug_server` -> rows, without anything of ours inside it.

Rank 0 serves pages on which the address of every rank's worker server stands; those are asked themselves. NCCL builds
give the whole recorder as a pickle (`dump_nccl_trace_pickle`), every build since torch 2.10 a JSON without stacks and,
with NCCL, of unfinished entries only (`fr_trace_json`). Only plain HTTP, and only to addresses on that page.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from whichrank.batch import Batch, note, notes_batch, rows_to_arrow
from whichrank.collectors.flight_recorder import NotFlightRecorderError, Origin, to_batch
from whichrank.collectors.flight_recorder_decoding import load
from whichrank.collectors.flight_recorder_files import LoadError
from whichrank.tables import NODES

PAGE = "fr_trace_json"
PAGE_S = 90.0  # the page itself waits a minute for ranks that do not answer
_WORKER = re.compile(rb"Rank (\d+): (http://[^\s<>\"']+?)/handler/")
_WHOLE = "dump_nccl_trace_pickle"
_QUERY = "includecollectives=true&includestacktraces=true&onlyactive=false"
_HTTP = build_opener(ProxyHandler({}))  # the job's own network, whatever http_proxy says


class NoDebugServer(Exception):
    """Nothing at the address serves the pages of torch.distributed.debug."""


@dataclass(frozen=True, slots=True)
class Worker:
    """The worker server of one rank. url: `http://host:port`."""

    rank: int
    url: str


def workers(url: str, timeout_s: float = PAGE_S) -> list[Worker]:
    """The worker servers that the debug server at `url` names, by rank. Raises NoDebugServer."""
    try:
        page = _get(f"{url.rstrip('/')}/{PAGE}", timeout_s)
    except (OSError, HTTPException, ValueError) as error:
        raise NoDebugServer(f"{url}: {error}") from None
    found = {int(rank): address.decode("ascii", "replace") for rank, address in _WORKER.findall(page)}
    if not found:
        raise NoDebugServer(f"{url}/{PAGE} names no ranks")
    return [Worker(rank, address) for rank, address in sorted(found.items())]


def read(url: str, *, timeout_s: float = 30.0) -> Iterator[Batch]:
    """One batch per rank that answers, a note for each that does not, then `cluster.nodes`. Raises NoDebugServer."""
    known = workers(url)
    now = time.time_ns()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now // 10**9))
    job = f"debug-server {urlsplit(url).netloc or url}"
    snapshot = f"{stamp}{now // 10**6 % 1000:03d}Z-debug-server"
    nodes = []
    with ThreadPoolExecutor(min(32, len(known))) as pool:
        for worker, batch in zip(
            known, pool.map(lambda w: _ask(w, snapshot, job, len(known), timeout_s), known), strict=True
        ):
            answered = len(batch.tables) > 1
            row = {"snapshot_id": snapshot, "rank": worker.rank, "world_size": len(known), "job_id": job}
            nodes.append(row | {"host": urlsplit(worker.url).hostname, "state": "answered" if answered else "silent"})
            yield batch
    yield Batch(snapshot, None, {NODES.name: rows_to_arrow(NODES, nodes)})


def _ask(worker: Worker, snapshot: str, job: str, size: int, timeout_s: float) -> Batch:
    try:
        payload, length, only_active, at = _recorder(worker, timeout_s)
        host = urlsplit(worker.url).hostname
        origin = Origin(snapshot, worker.rank, "process", None, length, host, job, size, only_active, at)
        return to_batch(payload, origin)
    except (OSError, HTTPException, ValueError, LoadError, NotFlightRecorderError) as error:
        text = f"rank {worker.rank} did not give its recorder: {error or type(error).__name__}"
        said = note("unreadable", text, severity="error", source=worker.url, rank=worker.rank)
        return notes_batch(snapshot, worker.rank, [said])


def _recorder(worker: Worker, timeout_s: float) -> tuple[Any, int, bool | None, int]:
    """Payload, bytes, whether it holds unfinished entries only, and the time of the dump (ns, our clock)."""
    names = _get(f"{worker.url}/handler/", timeout_s)
    at = time.time_ns()
    if _WHOLE.encode() in names:
        data = _get(f"{worker.url}/handler/{_WHOLE}?{_QUERY}", timeout_s, post=True)
        payload = _decode(data)
        if isinstance(payload, dict) and payload.get("entries"):
            return payload, len(data), False, at
    at = time.time_ns()
    data = _get(f"{worker.url}/handler/{PAGE}", timeout_s, post=True)
    return _decode(data), len(data), None, at


def _decode(data: bytes) -> Any:
    """Through a file, because the reader of files is the one that refuses what it must."""
    with tempfile.NamedTemporaryFile(suffix=".fr") as file:
        file.write(data)
        file.flush()
        return load(Path(file.name))


def _get(url: str, timeout_s: float, *, post: bool = False) -> bytes:
    if not url.startswith(("http://", "https://")):
        raise ValueError("an address begins with http://")
    with _HTTP.open(Request(url, data=b"" if post else None), timeout=timeout_s) as answer:
        return bytes(answer.read())
