"""Writes logs as jobs do: `Log(8).times_out(3, 77, "ALLREDUCE")`, one line list with ranks, and what stands in front.

Formats are PyTorch's of 2.8 unless another is asked for; numbers, hosts and times are made up.
"""

# ruff: noqa: E501

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

Line = tuple[int | None, str]  # who prints it, what
Prefix = Callable[[int | None, str], str]
GROUPS = {"default_pg": (0, "0"), "tp": (3, "17"), "dp": (4, "21"), "pp": (5, "25")}


def bare(rank: int | None, text: str) -> str:
    """Nothing in front."""
    return text


def torchrun(rank: int | None, text: str) -> str:
    """`torchrun --tee 3`."""
    return f"[default{(rank or 0) % 8}]:{text}"


def srun(rank: int | None, text: str) -> str:
    """`srun -l`, one task per rank."""
    return f"{rank or 0:>2}: {text}"


def srun_of_hosts(rank: int | None, text: str) -> str:
    """`srun -l torchrun`, one task per host of eight."""
    return f"{(rank or 0) // 8}: {text}"


def kubernetes(rank: int | None, text: str) -> str:
    """`kubectl logs --prefix --timestamps`."""
    return f"[pod/train-worker-{(rank or 0) // 8}/pytorch] 2026-03-18T12:29:08.115292493Z {text}"


def container(rank: int | None, text: str) -> str:
    """A file of the container runtime (CRI)."""
    return f"2026-03-18T12:29:08.115292493Z stderr F {text}"


def docker(rank: int | None, text: str) -> str:
    """Docker's json-file."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    return f'{{"log":"{quoted}\\n","stream":"stderr","time":"2026-03-18T12:29:08.115292493Z"}}'


def ray(rank: int | None, text: str) -> str:
    """Ray's workers."""
    return f"(RayTrainWorker pid={4000 + (rank or 0)}, ip=10.0.0.{(rank or 0) // 8 + 1}) {text}"


def mpirun(rank: int | None, text: str) -> str:
    """pdsh, mpirun -tag-output."""
    return f"node-a:{5 + (rank or 0)}: {text}"


def coloured(rank: int | None, text: str) -> str:
    """A terminal with colours."""
    return f"\x1b[36m{text}\x1b[0m"


PREFIXES: dict[str, Prefix] = {
    f.__name__: f for f in (bare, torchrun, srun, srun_of_hosts, kubernetes, container, docker, ray, mpirun, coloured)
}


@dataclass
class Log:
    """The lines of one job, in the order of time."""

    lines: list[Line] = field(default_factory=list)
    clock: int = 0

    def _c10(self, rank: int, text: str, source: str = "ProcessGroupNCCL.cpp:683", severity: str = "E") -> Log:
        self.clock += 1_000_003
        seconds, ns = divmod(self.clock * 5, 10**9)
        time = f"12:{29 + seconds // 60:02d}:{seconds % 60:02d}.{ns:09d}"
        self.lines.append((rank, f"[rank{rank}]:[{severity}318 {time} {source}] {text}"))
        return self

    def later(self, seconds: int) -> Log:
        """Time goes by."""
        self.clock += seconds * 200_000_000
        return self

    def times_out(
        self, rank: int, seq: int, op: str = "ALLREDUCE", numel: tuple[int, int] = (96, 96), *, group: str = "default_pg",
        group_rank: int | None = None, enqueued: int | None = None, done: int | None = None,
    ) -> Log:  # fmt: skip
        """The watchdog of a rank catches a timeout, and prints where its group stands."""
        work = f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel[0]}, NumelOut={numel[1]}, Timeout(ms)=600000)"
        self._c10(
            rank,
            f"[Rank {rank}] Watchdog caught collective operation timeout: {work} ran for 600{rank:03d} milliseconds "
            "before timing out.",
        )
        return self._c10(
            rank,
            f"{self._pg(group, rank if group_rank is None else group_rank)}  failure detected by watchdog at work "
            f"sequence id: {seq} PG status: last enqueued work: {enqueued or seq}, last completed work: "
            f"{seq - 1 if done is None else done}",
            "ProcessGroupNCCL.cpp:2241",
        )

    def signalled(self, rank: int, enqueued: int, done: int, by: int | None = None) -> Log:
        """A rank is told to dump, and prints the numbers of the default group."""
        who = "this local rank" if by is None else f" rank {by}"
        return self._c10(
            rank,
            f"{self._pg('default_pg', rank)} Received a dump signal due to a collective timeout from {who} and we will try "
            f"our best to dump the debug info. Last enqueued NCCL work: {enqueued}, last completed NCCL work: {done}.This "
            "is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks",
            "ProcessGroupNCCL.cpp:1858",
        )

    def goes_down(self, rank: int, seq: int, op: str = "ALLREDUCE") -> Log:
        """A minute after its timeout a process ends, repeating itself."""
        work = f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=96, NumelOut=96, Timeout(ms)=600000)"
        self._c10(rank, f"[Rank {rank}] To avoid data inconsistency, we are taking the entire process down.")
        return self._c10(
            rank,
            f"{self._pg('default_pg', rank)} Process group watchdog thread terminated with exception: [Rank {rank}] Watchdog "
            f"caught collective operation timeout: {work} ran for 600{rank:03d} milliseconds before timing out.",
        )

    def raises(self, rank: int, error: str) -> Log:
        """Python ends a process."""
        frame = '  File "/srv/train.py", line 88, in main'
        return self.says(rank, *(f"[rank{rank}]: {t}" for t in ("Traceback (most recent call last):", frame, error)))

    def c10(self, rank: int, text: str, source: str = "ProcessGroupNCCL.cpp:683") -> Log:
        """Any line of a rank's C++ side."""
        return self._c10(rank, text, source)

    def says(self, rank: int | None, *texts: str) -> Log:
        """Lines as they are."""
        self.lines += [(rank, text) for text in texts]
        return self

    def torchrun_ends(
        self, rank: int, exit_code: int, time: str = "2026-03-18_12:19:08", others: Iterable[int] = ()
    ) -> Log:
        """torchrun's summary: the other failures, then the first."""
        rule = "=" * 60, "train.py FAILED", "-" * 60
        blocks = [(other, -6, "2026-03-18_12:30:08") for other in others]
        self.says(None, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", *rule, "Failures:")
        for place, (who, code, at) in enumerate([*blocks, (rank, exit_code, time)], 1):
            if place == len(blocks) + 1:
                none = () if blocks else ("  <NO_OTHER_FAILURES>",)
                self.says(None, *none, "-" * 60, "Root Cause (first observed failure):")
                place = 0
            what = (
                f"Signal {-code} (SIGKILL) received by PID {3300 + who}"
                if code < 0
                else "To enable traceback see: http"
            )
            self.says(
                None, f"[{place}]:", f"  time      : {at}", "  host      : node-a",
                f"  rank      : {who} (local_rank: {who % 8})", f"  exitcode  : {code} (pid: {3300 + who})",
                "  error_file: <N/A>", f"  traceback : {what}",
            )  # fmt: skip
        return self.says(None, "=" * 60)

    def _pg(self, group: str, rank: int) -> str:
        number, guid = GROUPS[group]
        return f"[PG ID {number} PG GUID {guid}({group}) Rank {rank}]"

    def text(self, prefix: Prefix = bare) -> str:
        """All lines in one."""
        return "".join(f"{prefix(rank, line)}\n" for rank, line in self.lines)

    def write(self, path: Path, prefix: Prefix = bare) -> Path:
        """One file for all; packed where its name ends with .gz."""
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = self.text(prefix).encode()
        path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
        return path

    def write_per_rank(self, folder: Path, name: str = "rank_{rank}.log") -> Path:
        """A file for each rank, and one for what nobody's rank says."""
        files: dict[int | None, list[str]] = {}
        for rank, line in self.lines:
            files.setdefault(rank, []).append(line)
        for rank, lines in files.items():
            path = folder / ("launcher.log" if rank is None else name.format(rank=rank))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines))
        return folder
