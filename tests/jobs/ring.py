"""A ring of ranks that play NCCL's ring algorithm, step by step, and what the example profiler plugin writes of it.

The model: a GPU takes a step when the data of its predecessor is there and a send buffer is free; the proxy sends it
when the successor has a free receive buffer; the link takes its time; the receiver flushes and its GPU takes it. So
whoever is slow makes the others wait in the way they do in reality, upstream for credit and downstream for data. Times
in us.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SLOTS = 8  # NCCL_STEPS: buffers of a connection
Times = list[list[float]]  # [rank][step]


@dataclass
class Ring:
    """A communicator and what is odd about it.

    gpu_us, link_us, post_us: time of a step on the GPU, on the link to the next rank, and until a receive buffer is
    posted; by rank, over the usual ones. late_us: how much later a rank begins each collective. pids: by rank.
    """

    ranks: int = 8
    hashed: int = 1493613951195738943
    seqs: int = 4
    first_seq: int = 0
    channels: int = 1
    usual_gpu_us: float = 10.0
    usual_link_us: float = 12.0
    gpu_us: Mapping[int, float] = field(default_factory=dict)
    link_us: Mapping[int, float] = field(default_factory=dict)
    post_us: Mapping[int, float] = field(default_factory=dict)
    late_us: Mapping[int, float] = field(default_factory=dict)
    jitter: float = 0.2
    op: str = "AllReduce"
    pids: Sequence[int] | None = None
    seed: int = 7

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def write(self, folder: Path, *, packed: bool = False, only: Sequence[int] | None = None) -> Path:
        """A trace per rank, named as the plugin does."""
        folder.mkdir(parents=True, exist_ok=True)
        for rank, text in enumerate(self.traces()):
            path = folder / f"nccl_profile_{self.hashed}_{rank}.json"
            if only is not None and rank not in only:
                continue
            if packed:
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(text.encode(), mtime=0))
            else:
                path.write_text(text)
        return folder

    def traces(self) -> list[str]:
        """The text of each rank's trace."""
        writers = [Writer(self.pids[rank] if self.pids else 225_000 + rank) for rank in range(self.ranks)]
        start = 1000.0
        for seq in range(self.first_seq, self.first_seq + self.seqs):
            played = [self._play(start) for _ in range(self.channels)]
            end = max(max(times[-1] for times in channel.consumed) for channel in played)
            for rank, writer in enumerate(writers):
                begin = start + self.late_us.get(rank, 0.0)
                self._collective(writer, rank, seq, played, begin, end)
            start = end + 500.0
        return ["[\n" + "".join(writer.lines) + "{}]\n" for writer in writers]

    def _time(self, usual: float, odd: Mapping[int, float], rank: int) -> float:
        return odd.get(rank, usual) * self._random.uniform(1 - self.jitter, 1 + self.jitter)

    def _play(self, start: float) -> Played:
        n, steps = self.ranks, 2 * (self.ranks - 1)
        p = Played(*([[0.0] * steps for _ in range(n)] for _ in range(8)))
        link_free = [0.0] * n
        for t in range(steps):
            for r in range(n):
                begin = start + self.late_us.get(r, 0.0)
                before = t - SLOTS
                free = p.consumed[r][before] if before >= 0 else begin
                last = p.posted[r][t - 1] if t else begin
                p.posted[r][t] = max(free, last if self.post_us.get(r) else free) + self.post_us.get(r, 0.0)
                p.queued[r][t] = p.sent[r][before] if before >= 0 else begin
                data = p.flushed[r][t - 1] if t else begin
                done = p.written[r][t - 1] if t else begin
                p.written[r][t] = max(data, done, p.queued[r][t]) + self._time(self.usual_gpu_us, self.gpu_us, r)
                if t:
                    p.consumed[r][t - 1] = p.written[r][t]
            for r in range(n):
                to = (r + 1) % n
                p.credit[r][t] = max(p.written[r][t], p.posted[to][t])
                leaves = max(p.credit[r][t], link_free[r])
                link_free[r] = leaves + self._time(self.usual_link_us, self.link_us, r)
                p.sent[r][t] = link_free[r]
                p.arrived[to][t] = p.sent[r][t]
                p.flushed[to][t] = p.arrived[to][t] + 1.0
                if t == steps - 1:
                    p.consumed[to][t] = p.flushed[to][t] + self._time(self.usual_gpu_us, self.gpu_us, to)
        return p

    def _collective(
        self, writer: Writer, rank: int, seq: int, played: Sequence[Played], begin: float, end: float
    ) -> None:
        args = (
            f'"SeqNum": {seq}, "CommHash": {self.hashed}, "Rank": {rank}, "Count": 262144, "Datatype": "ncclFloat32", '
            f'"Algorithm": "RING", "Protocol": "SIMPLE", "nChannels": {self.channels}'
        )
        with writer.event("Group API", "GROUP_API", begin, end, f'"groupApiId": {seq}, "groupDepth":1'):
            api = '"count": 262144, "datatype": ncclFloat32, "root": 0, "GraphCaptured":0, "Stream": 0x5020000567d0'
            with writer.event(self.op, "COLL_API", 0.0, end, api), writer.event(self.op, "COLL", begin, end, args):
                for channel, p in enumerate(played):
                    clocks = f'"Channel": {channel}, "StartGpuClk": 1756135989724672000, "StopGpuClk": 0'
                    with writer.event("KernelCh", "GPU", begin, end, clocks):
                        self._proxy(writer, rank, channel, p, begin)

    def _proxy(self, writer: Writer, rank: int, channel: int, p: Played, begin: float) -> None:
        steps = range(2 * (self.ranks - 1))
        for way, peer in (("Recv", (rank - 1) % self.ranks), ("Send", (rank + 1) % self.ranks)):
            args = f'"Channel": {channel}, "Peer": {peer}, "Steps": {len(steps)}, "ChunkSize": 4194304, '
            args += '"transSize": 524288'
            with writer.event(f"Schedule{way}", "PROXY", begin, begin + 1, args):
                pass
            writer.back("PROXY")  # both parts of a proxy operation have one number
            last = p.sent[rank][-1] if way == "Send" else p.consumed[rank][-1]
            with writer.event(f"Progress{way}", "PROXY", begin + 1, last, args):
                for t in steps:
                    if way == "Send":
                        stamps = (p.queued[rank][t], p.written[rank][t], p.credit[rank][t], p.sent[rank][t])
                        names = ("SendGpuWait", "SendPeerWait", "SendWait")
                    else:
                        stamps = (p.posted[rank][t], p.arrived[rank][t], p.flushed[rank][t], p.consumed[rank][t])
                        names = ("RecvWait", "RecvFlushWait", "RecvGpuWait")
                    writer.step(names, stamps, t)


@dataclass
class Played:
    """When each step of a channel did what: queued, written, credit, sent by its sender, the rest by its receiver."""

    queued: Times
    written: Times
    credit: Times
    sent: Times
    posted: Times
    arrived: Times
    flushed: Times
    consumed: Times


class Writer:
    """Writes events as the plugin does: a number per category, the end after what lies within."""

    def __init__(self, pid: int) -> None:
        self.lines: list[str] = []
        self.pid = pid
        self._next: dict[str, int] = {}

    def event(self, name: str, cat: str, start: float, stop: float, args: str) -> Nested:
        """Begins an event; leaving the context ends it."""
        number = self._next.get(cat, 0)
        self._line(name, cat, "b", number, start, args)
        return Nested(self, name, cat, number, stop)

    def end(self, name: str, cat: str, number: int, stop: float) -> None:
        self._line(name, cat, "e", number, stop, None)
        self._next[cat] = number + 1

    def back(self, cat: str) -> None:
        """The next event of the category has the number of the last."""
        self._next[cat] -= 1

    def step(self, names: Sequence[str], stamps: Sequence[float], step: int) -> None:
        """The waits of one step, one after the other."""
        number = self._next.get("NET", 0)
        for name, start, stop in zip(names, stamps, stamps[1:], strict=False):
            self._line(name, "NET", "b", number, start, f'"Step": {step}')
            self._line(name, "NET", "e", number, stop, None)
        self._next["NET"] = number + 1

    def _line(self, name: str, cat: str, ph: str, number: int, ts: float, args: str | None) -> None:
        more = f', "args": {{{args}}}' if args else ""
        self.lines.append(
            f'{{"name": "{name}", "cat": "{cat}", "ph": "{ph}", "id": {number}, "pid": {self.pid}, "tid": 1, '
            f'"ts": {ts:.6f}{more}}},\n'
        )


class Nested:
    """An event that has begun."""

    def __init__(self, writer: Writer, name: str, cat: str, number: int, stop: float) -> None:
        self._end = (writer, name, cat, number, stop)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        writer, name, cat, number, stop = self._end
        writer.end(name, cat, number, stop)
