"""Records of NCCL Inspector -> `nccl.coll_perf` and `nccl.proxy_ops`: JSON lines or printed over lines, v4.0 to v4.3.

Up to v4.2 every record says whose it is; from v4.3 on a `dump_stats` record says it for those that follow. Times are in
microseconds. A record that is cut off is lost, the others are read.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

from whichrank.batch import Batch, note, rows_to_arrow
from whichrank.collectors.flight_recorder_files import shown
from whichrank.tables import COLL_PERF, NOTE, PROXY_OPS

Progress = Callable[[int, int], None]

ROWS_AT_ONCE = 200_000  # collectives held in memory as rows of Python; a file may have millions
MAX_RECORD = 16 << 20  # characters; a proxy operation with all its steps has some kilobytes
_HEAD = re.compile(rb'"(?:coll_perf|p2p_perf|proxy_trace|dump_stats|inspector_output_format_version)"\s*:')
_SEND = {"gpu_produce_us": "send_gpu_wait", "peer_credit_us": "send_peer_wait", "wire_us": "send_wait"}
_RECV = {"wire_us": "recv_wait", "flush_us": "recv_flush_wait", "gpu_consume_us": "recv_gpu_wait"}
_UNIT = 1000  # us -> ns


def recognises(path: Path, head: bytes, named: bool) -> bool:
    """Whether a record of Inspector stands in its beginning."""
    return head.lstrip()[:1] in (b"{", b"[") and _HEAD.search(head) is not None


def read(paths: Sequence[Path], *, on_progress: Progress | None = None) -> Iterator[Batch]:
    """A batch for each rank of a communicator in a file, then notes on what is lost."""
    for number, path in enumerate(sorted(paths, key=shown), 1):
        yield from _file(path)
        if on_progress:
            on_progress(number, len(paths))


def _file(path: Path) -> Iterator[Batch]:
    source = shown(path)
    reader = _Reader()
    notes = []
    written_ns = 0
    try:
        written_ns = path.stat().st_mtime_ns
        with path.open("rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            for text in _texts(cast("IO[bytes]", file)):
                reader.take(text)
                if len(reader) >= ROWS_AT_ONCE:
                    yield from reader.batches(_snapshot_id(reader.newest_ns or written_ns, source), source)
    except (OSError, EOFError, zlib.error) as error:
        notes.append(note("unreadable", f"{source} cannot be read to its end: {error}", source=source))
    if reader.broken:
        said = f"{source}: {reader.broken} records are broken or cut off, {reader.whole} were read"
        notes.append(note("broken_records", said, source=source, count=reader.broken))
    snapshot = _snapshot_id(reader.newest_ns or written_ns, source)
    yield from reader.batches(snapshot, source)
    if notes:
        yield Batch(snapshot, None, {NOTE.name: rows_to_arrow(NOTE, [{"snapshot_id": snapshot, **n} for n in notes])})


def _snapshot_id(newest_ns: int, source: str) -> str:
    digest = hashlib.blake2b(source.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{datetime.fromtimestamp(newest_ns // 10**9, UTC):%Y%m%dT%H%M%S}000Z-nccl-{digest}"


def _texts(file: IO[bytes]) -> Iterator[str]:
    """The text of each record: it begins in a line whose first character is `{`, and ends before the next such line.

    Of a record longer than MAX_RECORD only the beginning, which cannot be parsed, is handed on.
    """
    lines: list[bytes] = []
    size = 0
    while line := file.readline(MAX_RECORD):
        if line.startswith(b"[") and not lines:
            line = line[1:]
        if line.startswith(b"{") and lines:
            yield _text(lines)
            lines, size = [], 0
        size += len(line)
        if size <= MAX_RECORD:
            lines.append(line)
    if lines:
        yield _text(lines)


def _text(lines: Sequence[bytes]) -> str:
    return b"".join(lines).decode("utf-8", "replace").strip().rstrip(",] \n")


class _Reader:
    """Gathers the rows of one file."""

    def __init__(self) -> None:
        self.whole = self.broken = 0
        self.newest_ns = 0
        self._held = 0
        self._marker: dict[str, Any] = {}  # whose the records are that do not say it
        self._context: dict[str, Any] = {}
        self._perf: dict[tuple[str | None, int | None], list[dict[str, Any]]] = {}
        self._ops: dict[tuple[Any, ...], dict[str, Any]] = {}

    def __len__(self) -> int:
        return self._held + len(self._ops)

    def take(self, text: str) -> None:
        """One record, or text that is none."""
        if not text:
            return
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            self.broken += 1
            self._marker = {}  # it may have been the next marker
            return
        for each in record if isinstance(record, list) else [record]:
            if isinstance(each, dict):
                self._record(each)

    def _record(self, record: Mapping[str, Any]) -> None:
        self._context = _context(record) if "header" in record else self._marker
        if "dump_stats" in record:
            self._marker = self._context
        if not self._context:
            self.broken += 1
            return
        self.whole += 1
        self.newest_ns = max(self.newest_ns, self._context["dumped_ns"] or 0)
        for kind in ("coll", "p2p"):
            if isinstance(perf := record.get(f"{kind}_perf"), dict):
                row = self._context | _perf(perf, kind)
                self._perf.setdefault((row.get("comm_hash"), row.get("rank")), []).append(row)
                self._held += 1
        if isinstance(trace := record.get("proxy_trace"), dict):
            self._proxy(trace)

    def _proxy(self, trace: Mapping[str, Any]) -> None:
        """Steps are records of their own, or stand within the operation."""
        context = self._context
        rank = _count(trace.get("rank"))
        rank = context.get("rank") if rank is None else rank
        is_send = trace.get("direction") == "send"
        is_coll = trace.get("parent_type") == "coll"
        key = (context.get("node"), context.get("pid"), context.get("comm_hash"), _count(trace.get("proxy_op_sn")))
        row = self._ops.setdefault(
            key,
            {
                **{name: context.get(name) for name in ("comm_hash", "node", "pid", "n_ranks")},
                "rank": rank,
                "source": "inspector",
                "coll_func": None if is_coll else ("Send" if is_send else "Recv"),
                "seq": _count(trace.get("parent_sn")) if is_coll else None,
                "proxy_op": key[-1],
                "channel_id": _count(trace.get("channel_id")),
                "peer": _count(trace.get("peer")),
                "is_send": is_send,
                **{f"{name}_ns": 0 for name in (_SEND if is_send else _RECV).values()},
                "steps_seen": 0,
                "complete": False,
            },
        )
        kind = str(trace.get("record_type"))
        told = trace.get("steps")
        steps = [step for step in told if isinstance(step, dict)] if isinstance(told, list) else []
        for step in [trace] if kind == "proxy_step" else steps:
            row["steps_seen"] += 1
            for name, waited_ns in _waits(step, is_send):
                row[name] += waited_ns
        if kind.startswith("proxy_op"):
            times = _mapping(trace.get("event_trace_ts"))
            row["ts"] = row.get("ts") or _scaled(times.get("proxy_op_start_ts"))
            if row["ts"] and (stopped := _scaled(times.get("proxy_op_stop_ts"))):
                row["duration_ns"] = max(0, stopped - row["ts"])
            row["n_steps"] = _count(trace.get("n_steps"))
            row["trans_bytes"] = _count(trace.get("trans_size_bytes"))
            row["complete"] = row["complete"] or kind == "proxy_op"

    def batches(self, snapshot: str, source: str) -> Iterator[Batch]:
        """The rows so far, by communicator and rank; they are forgotten."""
        shared = {"snapshot_id": snapshot, "path": source}
        funcs = {  # what proxy operations belong to comes shortly before them
            (r["comm_hash"], r["seq"]): r["coll_func"] for rows in self._perf.values() for r in rows if not r["is_p2p"]
        }
        ops: dict[tuple[str | None, int | None], list[dict[str, Any]]] = {}
        for op in self._ops.values():
            op["coll_func"] = op["coll_func"] or funcs.get((op["comm_hash"], op["seq"]))
            ops.setdefault((op["comm_hash"], op["rank"]), []).append(op)
        for key in dict.fromkeys([*self._perf, *ops]):
            perf, proxy = self._perf.get(key, []), ops.get(key, [])
            tables = {
                table.name: rows_to_arrow(table, [shared | row for row in rows])
                for table, rows in ((COLL_PERF, perf), (PROXY_OPS, proxy))
                if rows  # a table that is there has rows
            }
            yield Batch(snapshot, key[1], tables)
        self._perf, self._ops, self._held = {}, {}, 0


def _context(record: Mapping[str, Any]) -> dict[str, Any]:
    header, metadata = _mapping(record.get("header")), _mapping(record.get("metadata"))
    name = _word(header.get("comm_name"))
    return {
        "comm_hash": _hash(header.get("id")),
        "rank": _count(header.get("rank")),
        "n_ranks": _count(header.get("n_ranks")),
        "n_nodes": _count(header.get("nnodes")),
        "comm_name": None if name == "unknown" else name,
        "node": _word(metadata.get("hostname")),
        "pid": _count(metadata.get("pid")),
        "dumped_ns": _scaled(metadata.get("dump_timestamp_us")),
    }


def _perf(perf: Mapping[str, Any], kind: str) -> dict[str, Any]:
    times = _mapping(perf.get("event_trace_ts"))
    return {
        "coll_func": _word(perf.get(kind)),
        "seq": _count(perf.get(f"{kind}_sn")),
        "is_p2p": kind == "p2p",
        "peer": _count(perf.get("p2p_peer")),
        "msg_size_bytes": _count(perf.get(f"{kind}_msg_size_bytes")),
        "exec_time_ns": _scaled(perf.get(f"{kind}_exec_time_us")),
        "timing_source": _word(perf.get(f"{kind}_timing_source")),
        "algobw": _real(perf.get(f"{kind}_algobw_gbs")),
        "busbw": _real(perf.get(f"{kind}_busbw_gbs")),
        "algorithm": _known(perf.get(f"{kind}_algo")),
        "protocol": _known(perf.get(f"{kind}_proto")),
        "started_ns": _scaled(times.get(f"{kind}_start_ts")),
    }


def _waits(step: Mapping[str, Any], is_send: bool) -> Iterator[tuple[str, int]]:
    """(column, ns) of the waits of one step: as told, else from the times of its states."""
    times = _mapping(step.get("event_trace_ts"))
    states = _SEND if is_send else _RECV
    stamps = [_count(times.get(f"{state}_ts")) for state in (*states.values(), "proxy_step_stop")]
    for number, (told, state) in enumerate(states.items()):
        waited = _count(step.get(told))
        begin, end = stamps[number : number + 2]
        if waited is None and begin and end and end >= begin:
            waited = end - begin
        if waited is not None and waited < 1 << 40:
            yield f"{state}_ns", waited * _UNIT


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _hash(value: Any) -> str | None:
    digits = value.lower().removeprefix("0x") if isinstance(value, str) else ""
    return f"0x{digits:0>16}" if re.fullmatch("[0-9a-f]{1,16}", digits) else None


def _count(value: Any) -> int | None:
    """A number that is not negative and fits 64 bits."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _scaled(value: Any) -> int | None:
    """Nanoseconds of whole or broken microseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15 * 9:
        return None
    return round(value * _UNIT)


def _real(value: Any) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e300
    return float(value) if fits else None


def _word(value: Any) -> str | None:
    return value[:256].encode("utf-8", "replace").decode() if isinstance(value, str) and value else None


def _known(value: Any) -> str | None:
    return None if value == "unknown" else _word(value)
