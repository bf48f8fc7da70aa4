"""Records of NCCL Inspector as its versions write them: ranks arrive, wait for the last, and leave together."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Record = dict[str, Any]


@dataclass
class Perf:
    """A communicator and its collectives.

    ranks: global ranks of its members, which say process and host (eight to a host). ops: (operation, bytes) of one
    step. gb_s: bandwidth; slow_from: (step, share of it from there on). late_us: how much later a member begins.
    version: v4.0 to v4.2 say whose each record is, v4.3 says it once for many.
    """

    ranks: Sequence[int] = tuple(range(8))
    hashed: int = 0x7F8C496AE9F661
    ops: Sequence[tuple[str, int]] = (("AllReduce", 64 << 20), ("ReduceScatter", 1 << 20))
    steps: int = 12
    gb_s: float = 40.0
    slow_from: tuple[int, float] | None = None
    late_us: Mapping[int, float] = field(default_factory=dict)
    noise_us: float = 30.0
    version: str = "v4.2"
    timing: str | None = "kernel_gpu"
    name: str = "unknown"
    seed: int = 3

    def write(self, folder: Path, *, indent: int | None = None, only: Sequence[int] | None = None) -> Path:
        """A file per process, as `<host>-pid<pid>.log`; more communicators are appended to it."""
        folder.mkdir(parents=True, exist_ok=True)
        for member, records in enumerate(self.records()):
            rank = self.ranks[member]
            if only is None or member in only:
                with (folder / f"node{rank // 8}-pid{5000 + rank}.log").open("a") as file:
                    file.writelines(json.dumps(record, indent=indent) + "\n" for record in records)
        return folder

    def records(self) -> list[list[Record]]:
        """The records of each member."""
        chance = random.Random(self.seed)
        n = len(self.ranks)
        found: list[list[Record]] = [[] for _ in self.ranks]
        if self.version == "v4.3":
            stats = {"coll_records": self.steps * len(self.ops), "p2p_records": 0}
            found = [[self._whose(m) | {"dump_stats": stats}] for m in range(n)]
        for step in range(self.steps):
            for place, (op, size) in enumerate(self.ops):
                slow = self.slow_from[1] if self.slow_from and step >= self.slow_from[0] else 1.0
                moves_us = size / (self.gb_s * slow * 1000) * chance.uniform(1, 1.08)
                comes = [self.late_us.get(m, 0.0) + chance.uniform(0, self.noise_us) for m in range(n)]
                for member, came in enumerate(comes):
                    took = max(1, round(max(comes) + moves_us - came))
                    perf = self._perf(op, step * len(self.ops) + place, size, took, n)
                    whose = {} if self.version == "v4.3" else self._whose(member)
                    found[member].append(whose | {"coll_perf": perf})
        return found

    def _whose(self, member: int) -> Record:
        rank = self.ranks[member]
        header = {"id": f"{self.hashed:#x}", "rank": member, "n_ranks": len(self.ranks), "nnodes": 1}
        return {
            "header": header | {"comm_name": self.name},
            "metadata": {
                "inspector_output_format_version": self.version,
                "git_rev": "",
                "rec_mechanism": "nccl_profiler_interface",
                "dump_timestamp_us": 1_748_030_377_748_202,
                "hostname": f"node{rank // 8}",
                "pid": 5000 + rank,
            },
        }

    def _perf(self, op: str, seq: int, size: int, took: int, n: int) -> Record:
        speed = size / took / 1000
        perf: Record = {"coll": op, "coll_sn": seq, "coll_msg_size_bytes": size, "coll_exec_time_us": took}
        perf |= {"coll_timing_source": self.timing} if self.timing else {}
        factor = 2 * (n - 1) / n if op == "AllReduce" else (n - 1) / n
        return perf | {"coll_algobw_gbs": round(speed, 6), "coll_busbw_gbs": round(speed * factor, 6)}


def proxy_records(member: int, n: int, seq: int, waits_us: Mapping[str, int], *, nested: bool) -> list[Record]:
    """proxy_trace records of one send to the next rank and one receive from the last, of two steps each.

    waits_us: `send_gpu_wait` …, per step. nested: steps within the operation (v4.3), else records of their own.
    """
    records: list[Record] = []
    for number, way in enumerate(("recv", "send")):
        states = [
            f"{way}_{what}"
            for what in (("gpu_wait", "peer_wait", "wait") if way == "send" else ("wait", "flush_wait", "gpu_wait"))
        ]
        peer = (member + 1) % n if way == "send" else (member - 1) % n
        common: Record = {"parent_type": "coll", "parent_sn": seq, "proxy_op_sn": 2 * seq + number, "rank": member}
        common |= {"channel_id": 0, "peer": peer, "direction": way}
        steps = []
        for step in range(2):
            at = 1_752_867_229_235_100 + 1000 * step
            times = {"proxy_step_start_ts": at}
            for state in states:
                times[f"{state}_ts"] = at
                at += waits_us.get(state, 0)
            times["proxy_step_stop_ts"] = at
            steps.append({"proxy_step_sn": step + 1, "step": step, "trans_size_bytes": 100, "event_trace_ts": times})
        whole = {"record_type": "proxy_op", "n_steps": 2, "n_steps_completed": 2, "trans_size_bytes": 200}
        whole["event_trace_ts"] = {
            "proxy_op_start_ts": 1_752_867_229_235_080,
            "proxy_op_stop_ts": 1_752_867_229_245_080,
        }
        if nested:
            records.append({"proxy_trace": common | {"record_type": "proxy_op_start", "is_final": False}})
            records.append({"proxy_trace": common | whole | {"is_final": True, "steps": steps}})
        else:
            records += [{"proxy_trace": common | {"record_type": "proxy_step"} | step} for step in steps]
            records.append({"proxy_trace": common | whole})
    return records
