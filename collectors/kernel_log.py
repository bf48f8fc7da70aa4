"""Kernel messages that explain a hang -> `process.kmsg`: from /dev/kmsg, or the output of dmesg or journalctl -k."""

from __future__ import annotations

import gzip
import os
import re
import socket
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whichrank.batch import Batch, note, notes_batch, rows_to_arrow
from whichrank.collectors.flight_recorder_files import shown
from whichrank.tables import KMSG

DEVICE = Path("/dev/kmsg")
MAX_ROWS = 5_000  # the newest; a broken link can fill a log with one line
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
# dmesg; dmesg -T; dmesg --time-format iso; journalctl -k and syslog. A level as -x or --raw put it may come before.
_LINE = re.compile(
    r"(?:<(?P<raw>\d{1,3})>|\w+ *:(?P<level>\w+) *: ?)?(?:"
    r"\[ *(?P<boot>\d+\.\d{1,6})\](?: *\[ *[TC]\d+\])?"
    rf"|\[(?P<ctime>\w{{3}} (?:{_MONTHS}) [ \d]\d \d\d:\d\d:\d\d \d{{4}})\]"
    # without `kernel:` behind it only with dmesg's comma: containers put the same, with a point, before what jobs print
    r"|(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:,\d+(?:Z|[+-]\d\d:?\d\d)|[.,]\d+(?:Z|[+-]\d\d:?\d\d)(?= \S+ kernel:)))"
    r"(?: (?P<isohost>\S+) kernel:)?"
    rf"|(?P<syslog>(?:{_MONTHS}) [ \d]\d \d\d:\d\d:\d\d) (?P<host>\S+) kernel:(?: \[ *\d+\.\d+\])?"
    r") ?(?P<message>.*)"
)
_DEVICE_LINE = re.compile(r"(?P<flags>\d+),\d+,(?P<us>\d+),[^;]*;(?P<message>.*)")
_PCI = r"(?:PCI:)?(?P<device>[0-9A-Fa-f:.]+)"
_KINDS = (
    ("xid", re.compile(rf"NVRM: Xid \({_PCI}\): (?P<code>\d+)(?:, pid='?(?P<pid>\d+))?")),
    ("gpu", re.compile(rf"NVRM: (?:GPU at {_PCI}.*fallen off the bus|.*(?:RmInit|failed))")),
    ("gpu", re.compile(rf"amdgpu {_PCI}: .*(?:GPU reset|ring .* timeout|uncorrectable)")),
    ("gpu", re.compile(r"nvidia-nvswitch\S*: .*(?:SXid|[Ff]atal)")),
    ("oom", re.compile(r"(?:[Oo]ut of memory|oom-kill).*?(?:Killed process |,pid=)(?P<pid>\d+)")),
    ("blocked_task", re.compile(r"INFO: task .+:(?P<pid>\d+) blocked for more than \d+ seconds")),
    ("segfault", re.compile(r"\S+\[(?P<pid>\d+)\](?:: segfault at| general protection)")),
    (
        "infiniband",
        re.compile(
            r"(?P<device>mlx[45]_\S+|bnxt_re\S*|irdma\S*|infiniband \S+|ib\d+|efa \S+):? .*"
            r"(?:[Ee]rror|[Tt]imeout|[Dd]own|[Hh]ealth|fail|Fatal)"
        ),
    ),
    ("file_server", re.compile(r"nfs: server (?P<device>\S+) not responding")),
    ("file_server", re.compile(r"Lustre(?:Error)?: .*(?:timed out|lost|evicted)|ceph: .*(?:hung|stale)")),
    ("file_server", re.compile(r"(?:Buffer|blk_update_request:) I/O error|I/O error, dev")),
)
Progress = Callable[[int, int], None]


def recognises(path: Path, head: bytes, named: bool) -> bool:
    """Whether most of its first lines are such as the kernel's log has."""
    lines = head[:8192].decode("utf-8", "replace").splitlines()[:20]
    like = [line for line in lines if _LINE.match(line)]
    return bool(like) and len(like) * 2 >= len(lines) and (named or len(like) > 2 or any(map(kind_of, lines)))


def read(paths: Sequence[Path], *, on_progress: Progress | None = None) -> Iterator[Batch]:
    """One batch with the lines that matter of all files, and notes about what cannot be read."""
    rows: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    newest = 0
    for number, path in enumerate(sorted(paths, key=shown), 1):
        try:
            year = datetime.fromtimestamp(path.stat().st_mtime, UTC).year
            newest = max(newest, path.stat().st_mtime_ns)
            with path.open("rb") as probe:
                packed = probe.read(2) == b"\x1f\x8b"
            with gzip.open(path) if packed else path.open("rb") as file:
                lines = (line[:4096].decode("utf-8", "replace") for line in file)
                rows += [{"path": shown(path), **row} for row in _newest(_rows(lines, year))]
        except (OSError, EOFError, zlib.error) as error:
            said = f"{shown(path)} cannot be read to its end: {error}"
            notes.append(note("unreadable", said, severity="warning", source=shown(path)))
        if on_progress:
            on_progress(number, len(paths))
    yield _batch(rows, notes, newest, "file")


def read_device(device: Path = DEVICE) -> Iterator[Batch]:
    """The kernel's log of this host; a note that says what to do where it may not be read."""
    try:
        lines = _records(device)
    except OSError as error:
        said = f"{device} may not be read ({error.strerror}): save the output of dmesg on the host and give that file"
        yield _batch([], [note("no_kernel_log", said, severity="info", source=str(device))], time.time_ns(), "process")
        return
    boot_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    rows = []
    for line in lines:
        match = _DEVICE_LINE.match(line)
        if match and (found := kind_of(match["message"])):
            us = int(match["us"])
            when = {"timestamp": boot_ns + us * 1000, "boot_s": us / 1e6, "level": _LEVELS[int(match["flags"]) & 7]}
            rows.append(
                {**found, **when, "host": socket.gethostname(), "path": str(device), "message": match["message"]}
            )
    yield _batch(rows[-MAX_ROWS:], [], time.time_ns(), "process")


def kind_of(message: str) -> dict[str, Any] | None:
    """kind, device, code and pid of a message that matters, or None."""
    for kind, pattern in _KINDS:
        if match := pattern.search(message):
            said = match.groupdict()
            pid, code = said.get("pid"), said.get("code")
            return {
                "kind": kind,
                "device": said.get("device") or None,
                "code": int(code) if code else None,
                "pid": int(pid) if pid else None,
            }
    return None


def _rows(lines: Iterable[str], year: int) -> Iterator[dict[str, Any]]:
    for line in lines:
        match = _LINE.match(line)
        if match and (found := kind_of(match["message"])):
            raw = match["raw"]
            yield {
                **found,
                "timestamp": _time(match, year),
                "boot_s": float(match["boot"]) if match["boot"] else None,
                "level": _LEVELS[int(raw) & 7] if raw else match["level"],
                "host": match["host"] or match["isohost"],
                "message": match["message"].rstrip(),
            }


def _time(match: re.Match[str], year: int) -> int | None:
    """Nanoseconds since epoch; times without a zone are taken as UTC, those without a year as of the file's year."""
    try:
        if match["iso"]:
            when = datetime.fromisoformat(match["iso"].replace(",", "."))
        elif match["ctime"]:
            when = datetime.strptime(match["ctime"], "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
        elif match["syslog"]:
            when = datetime.strptime(f"{year} {match['syslog']}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)
        else:
            return None
    except ValueError:
        return None
    return int(when.timestamp()) * 10**9 + when.microsecond * 1000


def _newest(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(rows)[-MAX_ROWS:]


def _records(device: Path) -> list[str]:
    """All records there are; reading does not wait for more. Raises OSError where it may not be opened."""
    found: list[str] = []
    handle = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while len(found) < 1_000_000:
            try:
                record = os.read(handle, 8192)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # records were overwritten while we read: the next one is there
            if not record:
                break
            found.append(record.partition(b"\n")[0].decode("utf-8", "replace"))
    finally:
        os.close(handle)
    return found


def _batch(rows: list[dict[str, Any]], notes: list[dict[str, Any]], newest_ns: int, what: str) -> Batch:
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(newest_ns // 10**9))
    host = "".join(c for c in socket.gethostname() if c.isascii() and c.isalnum())[:40] if what == "process" else what
    snapshot = f"{stamp}{newest_ns // 10**6 % 1000:03d}Z-stacks-kmsg-{host or 'host'}"
    batch = notes_batch(snapshot, None, notes) if notes else Batch(snapshot, None)
    batch.tables[KMSG.name] = rows_to_arrow(KMSG, [{"snapshot_id": snapshot, **row} for row in rows])
    return batch
