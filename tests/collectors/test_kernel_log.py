"""Kernel logs in every form in which people save them."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from whichrank.collectors import kernel_log
from whichrank.tables import KMSG, NOTE

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
MESSAGES = {
    XID: ("xid", "0000:3b:00", 79, 1234),
    "NVRM: Xid (PCI:0000:3b:00): 13, pid='<unknown>', name=<unknown>, Graphics Exception": (
        "xid",
        "0000:3b:00",
        13,
        None,
    ),
    "Out of memory: Killed process 4711 (python) total-vm:1kB": ("oom", None, None, 4711),
    "Memory cgroup out of memory: Killed process 12 (pt_data_worker)": ("oom", None, None, 12),
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid=99,uid=0": ("oom", None, None, 99),
    "INFO: task python:99 blocked for more than 120 seconds.": ("blocked_task", None, None, 99),
    "python[77]: segfault at 0 ip 00007f sp 00007f error 4 in libcuda.so": ("segfault", None, None, 77),
    "mlx5_core 0000:5e:00.0 ib0: Link down": ("infiniband", "mlx5_core", None, None),
    "nfs: server store01 not responding, still trying": ("file_server", "store01", None, None),
}
LINES = {
    f"[12345.678901] {XID}": (None, 12345.678901, None, None),
    f"<3>[   12.300000] {XID}": (None, 12.3, "err", None),
    f"kern  :err   : [   12.300000] {XID}": (None, 12.3, "err", None),
    f"[Tue Dec  1 10:00:00 2026] {XID}": ("2026-12-01T10:00:00", None, None, None),
    f"2026-12-01T10:00:00,000000+00:00 {XID}": ("2026-12-01T10:00:00", None, None, None),
    f"Dec  1 10:00:00 node01 kernel: {XID}": ("2026-12-01T10:00:00", None, None, "node01"),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_kinds(message: str) -> None:
    found = kernel_log.kind_of(message)
    assert found is not None
    assert (found["kind"], found["device"], found["code"], found["pid"]) == MESSAGES[message]


@pytest.mark.parametrize(
    "message", ["usb 1-1: new device", "NVRM: loading NVIDIA UNIX Module", "mlx5_core 0000:5e:00.0: Port up", ""]
)
def test_what_explains_no_hang(message: str) -> None:
    assert kernel_log.kind_of(message) is None


def _read(path: Path) -> list[dict[str, Any]]:
    (batch,) = kernel_log.read([path])
    rows: list[dict[str, Any]] = batch.tables[KMSG.name].to_pylist()
    return rows


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("packed", [False, True])
def test_forms(line: str, packed: bool, tmp_path: Path) -> None:
    time, boot_s, level, host = LINES[line]
    path = tmp_path / "dmesg"
    text = f"{line}\nno line of a kernel\n".encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    assert kernel_log.recognises(path, text, True)
    (row,) = _read(path)
    when = datetime.fromisoformat(time).replace(tzinfo=UTC) if time else None
    year = datetime.fromtimestamp(path.stat().st_mtime, UTC).year
    if when and host:  # syslog does not say the year
        when = when.replace(year=year)
    assert row["timestamp"] == (int(when.timestamp()) * 10**9 if when else None)
    assert (row["boot_s"], row["level"], row["host"], row["message"]) == (boot_s, level, host, XID)


@pytest.mark.parametrize("text", ["[rank0]: Xid", "[2026] x", "loss 1.0\n" * 30, "[1] a job\n[2] another\n"])
def test_what_is_no_kernel_log(text: str, tmp_path: Path) -> None:
    assert not kernel_log.recognises(tmp_path, text.encode(), False)


def test_a_device_that_may_not_be_read(tmp_path: Path) -> None:
    (batch,) = kernel_log.read_device(tmp_path / "kmsg")
    (said,) = batch.tables[NOTE.name].to_pylist()
    assert (said["kind"], batch.tables[KMSG.name].num_rows) == ("no_kernel_log", 0)
    assert "dmesg" in said["message"]


def test_records_of_the_device(tmp_path: Path) -> None:
    device = tmp_path / "kmsg"  # a file gives all of it in one read, the device a record at a time
    device.write_text(f"3,100,12300000,-;{XID}\n SUBSYSTEM=pci\n")
    (batch,) = kernel_log.read_device(device)
    (row,) = batch.tables[KMSG.name].to_pylist()
    assert (row["kind"], row["level"], row["boot_s"], row["message"]) == ("xid", "err", 12.3, XID)
