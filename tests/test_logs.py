"""Logs of jobs: who is to blame by what the text allows, and that nobody is where it does not."""

# ruff: noqa: E501

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.jobs.log import PREFIXES, Log
from tests.jobs.log_fixtures import LOGS
from tests.verdict import FIXTURES, ROOT, Verdict, diagnosis_of, verdict_of

SHARED = ROOT.parent / "shared" / "data" / "logs"
PUBLIC = sorted(path.name for path in SHARED.iterdir() if path.is_dir()) if SHARED.is_dir() else ["absent"]
NOBODY: Verdict = ("insufficient_evidence", [])


@pytest.mark.parametrize("name", PUBLIC)
def test_public_logs(name: str) -> None:
    if not SHARED.is_dir():
        pytest.skip("the public logs are not beside this checkout (../shared/data/logs)")
    truth = json.loads((SHARED / name / "truth.json").read_text())
    honest = [(each["category"], each["culprit_ranks"]) for each in (truth, *truth["also_accept"])]
    diagnosis = diagnosis_of(SHARED / name / "job.log")
    assert (diagnosis.category or "no_fault", diagnosis.culprit_ranks) in honest, diagnosis.verdict
    named = {rank for finding in diagnosis.findings if finding.root for rank in finding.ranks}
    assert named <= {rank for _, ranks in honest for rank in ranks}


def all_but(absent: int, world: int = 8) -> Log:
    """All but one wait in an ALLREDUCE of the default group; the one is told to dump."""
    log = Log()
    for rank in (r for r in range(world) if r != absent):
        log.times_out(rank, 212)
    return log.signalled(absent, 211, 211, by=(absent + 1) % world)


def two_out_of_step() -> Log:
    return Log().times_out(0, 100).times_out(1, 101, "BROADCAST")


def in_two_groups() -> Log:
    """Ranks 0 to 3 wait in tp for rank 3's peers; rank 4 never came to the default group."""
    log = Log()
    for rank in range(3):
        log.times_out(rank, 50, group="tp", group_rank=rank, done=49)
    for rank in (3, 5, 6, 7):
        log.times_out(rank, 900)
    return log.signalled(4, 899, 899, by=5)


def sends_and_receives() -> Log:
    log = Log()
    log.times_out(0, 17, "SEND", group="pp").times_out(1, 23, "RECV", group="pp")
    return log.signalled(2, 9, 9, by=0)


def busy_elsewhere() -> Log:
    """Rank 3 is behind in the default group, but it waits itself, in a receive."""
    log = Log()
    for rank in range(3):
        log.times_out(rank, 100)
    return log.times_out(3, 57, "RECV", group="pp", group_rank=1).signalled(3, 99, 99, by=0)


def desync(*lines: str, group: str = "") -> Log:
    """A report of a group, as its rank 0 (rank 4 of the job) prints it."""
    log = Log()
    for rank in range(4, 8):
        log.times_out(rank, 31, group="tp" if group else "default_pg", group_rank=rank - 4 if group else None, done=30)
    log.c10(4, f"{group or 'Rank 4'}", "ProcessGroupNCCL.cpp:1937")
    return log.says(4, "\t - [0] Timeout at collective: ALLREDUCE, #31", *(f"\t - {line}" for line in lines))


def restarted() -> Log:
    """In the first attempt rank 2 raises; in the second rank 5 stays away."""
    log = Log().raises(2, "ValueError: a bad sample").torchrun_ends(2, 1)
    log.lines = [line for line in log.lines if "ChildFailedError" not in line[1]]
    log.says(None, "W0318 12:20:08.115000 139 torch/distributed/elastic/agent/server/api.py:875] [default] "
             "Worker group FAILED. 2/3 attempts left; will restart worker group")  # fmt: skip
    log.lines += all_but(5).lines
    return log


def fingerprints(*told: tuple[int, str, int, str]) -> Log:
    """rank, its print, the other, its print."""
    log = Log()
    for rank, own, other, print_ in told:
        log.raises(
            rank,
            f"RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: "
            f"CollectiveFingerPrint({own}, TensorDeviceTypes=TensorOptions(dtype=float)), but Rank {other} is running "
            f"collective: CollectiveFingerPrint({print_}, TensorDeviceTypes=TensorOptions(dtype=float)).Collectives differ "
            "in the following aspects: \tOp type: ALLREDUCEvs BROADCAST",
        )
    return log


PRINT = "SequenceNumber={}, OpType={}, TensorShape=[{}], TensorDtypes={}"
GROUP = "[PG ID 3 PG GUID 17(tp) Rank 0]"
WORK = "WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000)"
KILLED = "srun: error: node-b: task 3: Segmentation fault (core dumped)"
NET = "node-a:42:51 [1] misc/socket.cc:47 NCCL WARN socketProgress: Connection closed by remote peer node-b<43230>"
IB = ("node-a:42:51 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.0.0.236<54862> with status=12 "
      "opcode=0 len=0 vendor err 129 (Recv)")  # fmt: skip
COLL = "node-a:{}:{} [{}] NCCL INFO {}: opCount {:x} sendbuff 0x7f recvbuff 0x7e count {} datatype 7 op 0 root 0 comm 0x5{} [nranks=4] stream 0x55"


def issued(*ops: tuple[int, str, int, int]) -> Log:
    """device, operation, count, elements, as NCCL_DEBUG_SUBSYS=COLL prints them."""
    return Log().says(None, *(COLL.format(40 + d, 40 + d, d, op, count, numel, d) for d, op, count, numel in ops))


CASES: dict[str, tuple[Log, Verdict]] = {
    "enqueued equals completed": (all_but(5), ("rank_not_joined", [5])),
    "the first rank": (all_but(0), ("rank_not_joined", [0])),
    "silent member": (Log().times_out(0, 9).times_out(1, 9).times_out(3, 9), NOBODY),
    "entered late, not out of time": (Log().times_out(0, 9).times_out(1, 9).signalled(2, 9, 8, by=0), NOBODY),
    "numbers of another group": (
        Log().times_out(0, 50, group="tp", done=49).times_out(1, 50, group="tp", done=49).signalled(2, 12, 12, by=0), NOBODY),
    "one rank behind": (Log().times_out(0, 100).times_out(1, 100).times_out(2, 100).times_out(3, 99, "BROADCAST"),
                        ("collective_skipped", [3])),
    "one rank ahead": (Log().times_out(0, 100).times_out(1, 100).times_out(2, 100).times_out(3, 101),
                       ("collective_skipped", [3])),
    "two ranks out of step": (two_out_of_step(), ("collective_skipped", [0, 1])),
    "two of many out of step": (Log().times_out(3, 100).times_out(12, 101), NOBODY),
    "another operation": (Log().times_out(0, 7).times_out(1, 7).times_out(2, 7, "_ALLGATHER_BASE", (4, 16)).times_out(3, 7),
                          ("collective_type_mismatch", [2])),
    "another size": (Log().times_out(0, 7).times_out(1, 7, numel=(95, 95)).times_out(2, 7).times_out(3, 7),
                     ("collective_size_mismatch", [1])),
    "uneven all_to_all is legal": (
        Log().times_out(0, 7, "ALLTOALL_BASE", (4, 8)).times_out(1, 7, "ALLTOALL_BASE", (6, 2)).times_out(2, 7, "ALLTOALL_BASE", (1, 1)), NOBODY),
    "all joined": (Log().times_out(0, 7, "_ALLGATHER_BASE", (8, 16)).times_out(1, 7, "_ALLGATHER_BASE", (8, 16)),
                   ("all_joined_none_finished", [])),
    "several groups": (in_two_groups(), ("rank_not_joined", [4])),
    "sends and receives": (sends_and_receives(), NOBODY),
    "behind, but in a receive": (busy_elsewhere(), NOBODY),
    "desync report of the default group": (
        desync("To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
               "  [2] finished collective #30, but didn't join collective #31 (count from 1)"), ("rank_not_joined", [2])),
    "desync report of a group": (
        desync("  [2] finished collective #30, but didn't join collective #31 (count from 1)", group=GROUP),
        ("rank_not_joined", [6])),
    "desync report: never joined": (
        desync("To our best knowledge, ranks [2, 3] are the lagging ranks that caused this timeout. They never joined any "
               "collectives"), ("rank_not_joined", [2, 3])),
    "desync report that lists all": (desync("  [0, 1, 2, 3] joined but didn't finish collective #31 (count from 1)"), NOBODY),
    "exception, then timeouts": (
        Log().raises(3, "FileNotFoundError: [Errno 2] No such file").later(600).times_out(0, 7).times_out(1, 7).times_out(2, 7),
        ("rank_died", [3])),
    "exception alone": (Log().raises(3, "ValueError: a bad sample"), ("rank_died", [3])),
    "exception that follows from a timeout": (
        Log().times_out(0, 7).raises(1, "torch.distributed.DistBackendError: NCCL communicator was aborted"), NOBODY),
    "interrupted by hand": (Log().raises(0, "KeyboardInterrupt").raises(1, "KeyboardInterrupt").times_out(0, 7), NOBODY),
    "out of memory": (
        Log().raises(2, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.35 GiB. GPU 2 has a total").times_out(0, 7),
        ("rank_died", [2])),
    "illegal memory access": (
        Log().c10(5, f"{GROUP} Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was "
                  "encountered").later(600).times_out(0, 7), ("device_error", [5])),
    "killed by signal 9": (Log().torchrun_ends(6, -9).later(600).times_out(0, 7), ("rank_died", [6])),
    "aborted by its own watchdog": (Log().torchrun_ends(6, -6), NOBODY),
    "ended after the timeouts": (Log().times_out(0, 7).times_out(1, 7).torchrun_ends(6, 1, "2026-03-18_13:30:08"), NOBODY),
    "restarted": (restarted(), ("rank_not_joined", [5])),
    "segmentation fault under srun": (Log().says(None, KILLED, "srun: error: node-a: tasks 0-2: Killed"), ("rank_died", [3])),
    "killed by the host": (
        Log().says(None, "[8123.4] Memory cgroup out of memory: Killed process 3302 (python3) total-vm:1kB").torchrun_ends(2, -9),
        ("rank_died", [2])),
    "Xid without a rank": (Log().says(None, "[74889.644132] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.").times_out(0, 7),
                           ("device_error", [])),
    "device assert seen by NCCL": (
        Log().says(None, "node-a:42:51 [1] include/alloc.h:125 NCCL WARN Cuda failure 710 'device-side assert triggered'",
                   "node-a:42:51 [1] NCCL INFO comm 0x5649 rank 1 nranks 8 cudaDev 1 busId a7000 - Abort COMPLETE"),
        ("device_error", [1])),
    "connection closed": (Log().says(None, NET).later(600).times_out(0, 7), ("network_error", [])),
    "InfiniBand retries exceeded": (Log().says(None, IB), ("network_error", [])),
    "connection closed after the timeouts": (Log().times_out(0, 7).times_out(1, 7).says(0, NET), NOBODY),
    "gloo ran out of time": (
        Log().raises(0, "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
                     "1800000ms for recv operation to complete"), NOBODY),
    "monitored barrier": (
        Log().raises(0, "RuntimeError: [Rank 0]: Ranks 4, 5 failed to pass monitoredBarrier in 30000 ms"), ("rank_not_joined", [4, 5])),
    "store barrier, by elimination": (
        Log().raises(0, "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
                     "store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)"), ("rank_not_joined", [1])),
    "store barrier, an excerpt": (
        Log().raises(0, "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
                     "store_based_barrier_key:1 (world_size=8, worker_count=6, timeout=0:30:00)"), NOBODY),
    "fingerprints: operation": (
        fingerprints((1, PRINT.format(9, "ALLREDUCE", 4, "Float"), 0, PRINT.format(9, "BROADCAST", 4, "Float")),
                     (2, PRINT.format(9, "ALLREDUCE", 4, "Float"), 0, PRINT.format(9, "BROADCAST", 4, "Float"))),
        ("collective_type_mismatch", [0])),
    "fingerprints: shape": (
        fingerprints((3, PRINT.format(9, "ALLREDUCE", 4, "Float"), 2, PRINT.format(9, "ALLREDUCE", 5, "Float"))),
        ("collective_size_mismatch", [2])),
    "fingerprints: dtype": (
        fingerprints((3, PRINT.format(9, "ALLREDUCE", 4, "Float"), 2, PRINT.format(9, "ALLREDUCE", 4, "Half"))),
        ("collective_dtype_mismatch", [2])),
    "issued calls: operation": (
        issued(*((d, "AllReduce", 0x28B, 64) for d in range(4)), *((d, "AllGather", 0x28C, 64) for d in (0, 1, 3)),
               (2, "AllReduce", 0x28C, 64)), ("collective_type_mismatch", [2])),
    "issued calls: the newest differ by one": (
        issued(*((d, "AllReduce", 0x28B, 64) for d in range(4)), *((d, "AllReduce", 0x28C, 64) for d in (0, 1, 3))), ("no_fault", [])),
    "Ray's dead worker, by its process": (
        Log().says(None, "(RayTrainWorker pid=90738, ip=10.0.0.110) [rank3]:[W318 12:29:08.115292493 ProcessGroupNCCL.cpp:1487] Warning: using GPU 3",
                   "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker IP address: 10.0.0.110 "
                   "Worker port: 1 Worker PID: 90738 Worker exit type: SYSTEM_ERROR"), ("rank_died", [3])),
    "all aborted under srun": (Log().says(None, "srun: error: node-b: tasks 8-12,14-15: Aborted (core dumped)"), NOBODY),
    "watchdog thread stuck": (
        Log().c10(6, "[PG ID 0 PG GUID 0(default_pg) Rank 6] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making "
                  "progress in monitoring enqueued collectives", "ProcessGroupNCCL.cpp:1743"), NOBODY),
    "nccl2": (Log().c10(3, "[TC][rank=3][name=default_pg] Operation timed out after 600012 ms", "WorkNCCL.cpp:170"), NOBODY),
    "nccl2, a device": (
        Log().c10(3, "[TC][rank=3][name=default_pg] CUDA error during end event query: CUDA error: an illegal memory access was "
                  "encountered", "WorkNCCL.cpp:150"), ("device_error", [3])),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_verdict(name: str, tmp_path: Path) -> None:
    log, expected = CASES[name]
    assert verdict_of(log.write(tmp_path / "job.log")) == expected


def test_the_first_to_time_out_is_a_messenger(tmp_path: Path) -> None:
    """Rank 5 times out first, signals the others, is the only one with a stack, and is killed first: rank 2 is to blame."""
    log = Log().times_out(5, 212)
    log.c10(5, "[PG ID 0 PG GUID 0(default_pg) Rank 5] First PG on this rank to signal dumping.")
    log.c10(5, "Stack trace of the failed collective: ").says(5, "#0 all_reduce from distributed_c10d.py:2968")
    for rank in (0, 1, 3, 4):
        log.later(30).times_out(rank, 212)
    log.signalled(2, 211, 211, by=5).goes_down(5, 212).torchrun_ends(5, -6, "2026-03-18_12:31:08")
    diagnosis = diagnosis_of(log.write(tmp_path / "job.log"))
    assert (diagnosis.category, diagnosis.culprit_ranks) == ("rank_not_joined", [2])
    assert diagnosis.verdict == "rank 2 never joined ALLREDUCE #212 of default_pg."
    assert not any(5 in finding.ranks for finding in diagnosis.findings)


def test_without_anybody_behind_the_messenger_is_not_named(tmp_path: Path) -> None:
    log = Log().times_out(5, 212).goes_down(5, 212)
    diagnosis = diagnosis_of(log.write(tmp_path / "job.log"))
    assert (diagnosis.category, diagnosis.culprit_ranks) == NOBODY
    assert "the first to time out is a messenger" in diagnosis.findings[0].says
    advice = " ".join(step.command for step in diagnosis.next)
    assert "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1" in advice
    assert "TORCH_NCCL_DESYNC_DEBUG=1" in advice


def whole_job() -> Log:
    """Timeouts, signals, ends: enough for everything that could get in the way of everything else."""
    log = all_but(5)
    for rank in (0, 1, 2, 3, 4, 6, 7):
        log.goes_down(rank, 212)
    return log.torchrun_ends(0, -6, "2026-03-18_12:31:08", others=(1, 2))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_whatever_stands_in_front(prefix: str, tmp_path: Path) -> None:
    assert verdict_of(whole_job().write(tmp_path / "job.log", PREFIXES[prefix])) == ("rank_not_joined", [5])


@pytest.mark.parametrize("name", ["enqueued equals completed", "another operation", "exception, then timeouts",
                                  "desync report of a group", "killed by signal 9", "all joined",
                                  "connection closed after the timeouts", "several groups"])  # fmt: skip
def test_split_per_rank_and_packed(name: str, tmp_path: Path) -> None:
    log, expected = CASES[name]
    assert verdict_of(log.write_per_rank(tmp_path / "split")) == expected
    assert verdict_of(log.write_per_rank(tmp_path / "torchrun", "attempt_0/{rank}/stderr.log")) == expected
    assert verdict_of(log.write(tmp_path / "job.log.gz")) == expected


@pytest.mark.parametrize("seed", range(3))
def test_order_of_ranks_and_of_files(seed: int, tmp_path: Path) -> None:
    """Interleaved otherwise: what each rank says keeps its order, what different ranks say does not."""
    log, chance = whole_job(), random.Random(seed)
    queues = {rank: [line for line in log.lines if line[0] == rank] for rank, _ in log.lines if rank is not None}
    mixed = Log()
    while queues:
        rank = chance.choice(list(queues))
        mixed.lines.append(queues[rank].pop(0))
        queues = {r: lines for r, lines in queues.items() if lines}
    assert verdict_of(mixed.write(tmp_path / "job.log")) == ("rank_not_joined", [5])
    files = list(log.write_per_rank(tmp_path / "split").iterdir())
    chance.shuffle(files)
    assert verdict_of(*files) == ("rank_not_joined", [5])


def test_lines_wrapped_quoted_and_doubled(tmp_path: Path) -> None:
    lines = [text for _, text in all_but(5).lines]
    wrapped = [line[at : at + 116] for line in lines for at in range(0, len(line), 116)]
    (tmp_path / "terminal.log").write_text("\n".join(wrapped))
    (tmp_path / "mail.log").write_text("".join(f"> {line}\n" for line in lines))
    (tmp_path / "twice.log").write_text("".join(f"{line}\n{line}\n" for line in lines))
    (tmp_path / "bars.log").write_text("\r".join(f"12%|#| 3/25 [00:01<00:09]{line}" for line in lines))
    for name in ("terminal", "mail", "twice", "bars"):
        assert verdict_of(tmp_path / f"{name}.log") == ("rank_not_joined", [5]), name


def test_a_healthy_log_is_silent(tmp_path: Path) -> None:
    """NCCL at INFO, timeouts as a setting, an error that was dealt with, a normal end."""
    log = Log()
    for rank in range(2):
        host = f"node-a:{40 + rank}:{50 + rank} [{rank}] NCCL INFO"
        log.says(rank, f"{host} NCCL_TIMEOUT set by environment to 22", f"{host} Connected all rings",
                 f"{host} comm 0x55{rank} rank {rank} nranks 2 cudaDev {rank} busId a7000 - Init COMPLETE")  # fmt: skip
    log.says(0, "step 10 loss 0.31 (timeout=1800s, collective bandwidth 180 GB/s)", "retry: ConnectionError: timed out, again",
             "ConnectionError: HTTPSConnectionPool: Read timed out.", "eval done, no Error")  # fmt: skip
    log.says(1, "[rank1]:[W226 13:47:44.752 ProcessGroupNCCL.cpp:1487] Warning: WARNING: destroy_process_group() was not "
             "called before program exit, which can leak resources.")  # fmt: skip
    diagnosis = diagnosis_of(log.write(tmp_path / "job.log"))
    assert (diagnosis.category, diagnosis.findings, diagnosis.exit_code) == (None, [], 0)
    (tmp_path / "plain.log").write_text("epoch 1\nepoch 2\n")
    assert diagnosis_of(tmp_path / "plain.log").category is None


@pytest.mark.parametrize("name", LOGS)
def test_the_built_fixtures_are_what_the_builder_writes(name: str, tmp_path: Path) -> None:
    LOGS[name].write(tmp_path)
    evidence = FIXTURES / name / "evidence"
    written = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {p.relative_to(evidence): p.read_bytes() for p in evidence.rglob("*") if p.is_file()}
