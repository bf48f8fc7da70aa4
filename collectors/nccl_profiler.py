"""Traces of NVIDIA's example profiler plugin -> `nccl.proxy_ops`.

The plugin writes events as text, nested by their order: COLL b, PROXY b, NET b/e …, PROXY e, COLL e. Its output looks
like JSON and is not: bare tokens (`ncclFloat32`, `0x502…`), `{}]` at the end, and whatever a crash or an editor left of
it. So events are found by their shape wherever they stand, and what lies between two of them tells that some are lost:
then nobody knows which collective the next ones belong to, until the next COLL begins.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whichrank.batch import Batch, note, notes_batch, rows_to_arrow
from whichrank.collectors.flight_recorder_files import LoadError, contents, shown
from whichrank.tables import NOTE, PROXY_OPS

Progress = Callable[[int, int], None]

_EVENT = re.compile(
    r'\{\s*"name"\s*:\s*"(?P<name>[^"\n]{1,64})"\s*,\s*"cat"\s*:\s*"(?P<cat>[A-Z][A-Z_0-9]{1,31})"\s*,'
    r'\s*"ph"\s*:\s*"(?P<ph>[be])"\s*,\s*"id"\s*:\s*(?P<id>\d{1,18})\s*,\s*"pid"\s*:\s*(?P<pid>\d{1,18})\s*,'
    r'\s*"tid"\s*:\s*\d{1,18}\s*,\s*"ts"\s*:\s*(?P<ts>-?\d{1,15}(?:\.\d{1,20})?)\s*'
    r'(?:,\s*"args"\s*:\s*\{(?P<args>[^{}]{0,4096})\}\s*)?\}'
)
_ARGUMENT = re.compile(r'"(\w{1,32})"\s*:\s*"?([^",\s}]{1,64})')
_HEAD = re.compile(rb'"cat"\s*:\s*"(?:GROUP_API|GROUP|COLL_API|COLL|P2P_API|P2P|PROXY|KERNEL_LAUNCH)"\s*,\s*"ph"')
_BETWEEN = re.compile(r"[\s,\[\]]*(?:\{\s*\}[\s,\]]*)?")  # what may stand between two events and means nothing
_END = re.compile(r"(?:\{\s*\})?\s*\]\s*$")
_FILE = re.compile(r"_(?P<hash>\d{1,20})_(?P<rank>\d{1,7})\.json(?:\.gz)?$")  # <NCCL_PROFILE_DUMP_FILE>_<hash>_<rank>
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "″": '"'})
_WAITS = {
    "SendGpuWait": "send_gpu_wait_ns",
    "SendPeerWait": "send_peer_wait_ns",
    "SendWait": "send_wait_ns",
    "RecvWait": "recv_wait_ns",
    "RecvFlushWait": "recv_flush_wait_ns",
    "RecvGpuWait": "recv_gpu_wait_ns",
}
_SEND = ("send_gpu_wait_ns", "send_peer_wait_ns", "send_wait_ns")
_RECV = ("recv_wait_ns", "recv_flush_wait_ns", "recv_gpu_wait_ns")


@dataclass(frozen=True, slots=True)
class Event:
    """One event. ts: us, by the process's own clock. after_gap: something unreadable stands before it."""

    name: str
    cat: str
    begins: bool
    id: int
    pid: int
    ts: float
    args: dict[str, str]
    after_gap: bool


@dataclass(slots=True)
class _Op:
    """A send or receive that is being read."""

    row: dict[str, Any]
    begun: dict[str, float] = field(default_factory=dict)  # wait -> us, of the step that is being read
    steps: set[int] = field(default_factory=set)


def recognises(path: Path, head: bytes, named: bool) -> bool:
    """Whether its events have the categories of the plugin."""
    return head.lstrip()[:1] in (b"[", b"{") and _HEAD.search(head) is not None


def read(paths: Sequence[Path], *, on_progress: Progress | None = None) -> Iterator[Batch]:
    """A batch for each file: its proxy operations, and notes on what is lost."""
    for number, path in enumerate(sorted(paths, key=shown), 1):
        yield _file(path)
        if on_progress:
            on_progress(number, len(paths))


def events(text: str) -> Iterator[Event]:
    """Every event that is whole, in order."""
    text = text.translate(_QUOTES)
    end = 0
    for match in _EVENT.finditer(text):
        gap = end > 0 and _BETWEEN.fullmatch(text, end, match.start()) is None
        end = match.end()
        args = dict(_ARGUMENT.findall(match["args"])) if match["args"] else {}
        yield Event(
            match["name"],
            match["cat"],
            match["ph"] == "b",
            int(match["id"]),
            int(match["pid"]),
            float(match["ts"]),
            args,
            gap,
        )


def _file(path: Path) -> Batch:
    source = shown(path)
    try:
        written_ns = path.stat().st_mtime_ns
        text = contents(path).decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error, LoadError) as error:
        said = f"{source} cannot be read: {error}"
        return notes_batch(_snapshot_id(0, source), None, [note("unreadable", said, severity="warning", source=source)])
    trace = _Trace(path)
    rows = list(trace.rows(events(text)))
    snapshot = _snapshot_id(written_ns, text)
    lost: list[tuple[str, str]] = []
    if trace.gaps:
        lost.append(("trace_gap", f"{source}: something is lost at {trace.gaps} places; what is whole is read"))
    if not _END.search(text):
        lost.append(("cut_off", f"{source} was cut off; what is whole is read"))
    batch = Batch(snapshot, trace.rank)
    if rows:
        batch.tables[PROXY_OPS.name] = rows_to_arrow(PROXY_OPS, _with(rows, snapshot, source))
    if lost:
        notes = [note(kind, said, severity="warning", source=source, rank=trace.rank) for kind, said in lost]
        batch.tables[NOTE.name] = rows_to_arrow(NOTE, [{"snapshot_id": snapshot, **n} for n in notes])
    return batch


class _Trace:
    """Reads the events of one file, which is that of one rank of one communicator."""

    def __init__(self, path: Path) -> None:
        named = _FILE.search(path.name)
        self.comm = _hash(named["hash"]) if named else None
        self.rank = int(named["rank"]) if named else None
        self.gaps = 0
        self._parent: dict[str, Any] = {}
        self._op: _Op | None = None

    def rows(self, found: Iterator[Event]) -> Iterator[dict[str, Any]]:
        """The proxy operations, in order; one without its end is not `complete`."""
        for event in found:
            if event.after_gap:
                self.gaps += 1
                self._parent = {}
                yield from self._ended(complete=False)
            if event.cat in ("COLL", "P2P"):
                yield from self._ended(complete=False)
                self._parent = self._operation(event) if event.begins else {}
            elif event.cat == "PROXY" and event.name.startswith(("Schedule", "Progress")):
                yield from self._proxy(event)
            elif event.cat == "NET" and self._op:
                self._wait(self._op, event)
        yield from self._ended(complete=False)

    def _operation(self, event: Event) -> dict[str, Any]:
        self.comm = _hash(event.args.get("CommHash")) or self.comm
        rank = _number(event.args.get("Rank"))
        self.rank = self.rank if rank is None else rank
        return {"coll_func": event.name, "seq": _number(event.args.get("SeqNum"))}

    def _proxy(self, event: Event) -> Iterator[dict[str, Any]]:
        same = self._op is not None and self._op.row["proxy_op"] == event.id
        if event.begins and not same:
            yield from self._ended(complete=False)
            self._op = _Op(self._begin(event))
        elif self._op and same and not event.begins and event.name.startswith("Progress"):
            began = self._op.row["ts"]
            if began and event.ts * 1000 > began:
                self._op.row["duration_ns"] = round(event.ts * 1000) - began
            yield from self._ended(complete=True)

    def _begin(self, event: Event) -> dict[str, Any]:
        is_send = event.name.endswith("Send")
        return {
            **self._parent,
            "comm_hash": self.comm,
            "rank": self.rank,
            "source": "profiler",
            "pid": event.pid,
            "ts": round(event.ts * 1000) if event.ts > 0 else None,
            "proxy_op": event.id,
            "channel_id": _number(event.args.get("Channel")),
            "peer": _number(event.args.get("Peer")),
            "is_send": is_send,
            "n_steps": _number(event.args.get("Steps")),
            "trans_bytes": _number(event.args.get("transSize")),
            **dict.fromkeys(_SEND if is_send else _RECV, 0),
        }

    def _wait(self, op: _Op, event: Event) -> None:
        column = _WAITS.get(event.name)
        if column not in op.row:  # not a wait of this direction
            return
        op.steps.add(event.id)
        if event.begins:
            op.begun[column] = event.ts
            return
        began = op.begun.pop(column, None)
        if began and event.ts > began > 0:  # 0: the state was never entered
            op.row[column] += round((event.ts - began) * 1000)

    def _ended(self, *, complete: bool) -> Iterator[dict[str, Any]]:
        if self._op:
            yield {**self._op.row, "steps_seen": len(self._op.steps), "complete": complete}
        self._op = None


def _with(rows: list[dict[str, Any]], snapshot: str, path: str) -> list[dict[str, Any]]:
    return [{"snapshot_id": snapshot, "path": path, **row} for row in rows]


def _snapshot_id(written_ns: int, text: str) -> str:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    when = datetime.fromtimestamp(written_ns // 10**9, UTC)
    return f"{when:%Y%m%dT%H%M%S}000Z-nccl-{digest}"


def _number(text: str | None) -> int | None:
    """A number that is not negative and fits 64 bits."""
    value = int(text) if text and len(text) < 20 and text.isascii() and text.isdigit() else None
    return value if value is None or value < 1 << 63 else None


def _hash(text: str | None) -> str | None:
    """`0x` and 16 digits, of the decimal number in the trace."""
    return f"0x{int(text):016x}" if text and text.isascii() and text.isdigit() else None
