"""Every line format of PyTorch 1.13 to 2.15, of NCCL, launchers and kernels: what is read out of each."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import pytest

from whichrank.collectors.watchdog_log_formats import FORMATS, IN_REPORT
from whichrank.collectors.watchdog_log_parsing import integer, parse, ranks_of
from whichrank.collectors.watchdog_log_prefixes import pieces

C10 = "[rank3]:[E904 10:02:11.120000001 ProcessGroupNCCL.cpp:632] "
OLD = "[E ProcessGroupNCCL.cpp:737] "
PG = "[PG ID 4 PG GUID 17(mesh_tp) Rank 1] "
IN_PG = {"pg_id": 4, "pg_name": "17", "pg_desc": "mesh_tp", "group_rank": 1}
WORK = "SeqNum=77, OpType=ALLREDUCE, NumelIn=10, NumelOut=20, Timeout(ms)=600000"
OF_WORK = {"seq": 77, "op": "ALLREDUCE", "numel_in": 10, "numel_out": 20, "timeout_ms": 600000}
RAN = "ran for 600041 milliseconds before timing out."
STATUS = "last enqueued NCCL work: 79, last completed NCCL work: 76"
NCCL = "node-a:42:51 [1] "
PROCESS = {"host": "node-a", "pid": 42, "device": 1}
PRINT = "CollectiveFingerPrint(SequenceNumber={}, OpType={}, TensorShape=[{}], TensorDtypes={}, TensorDeviceTypes=x)"

# name, versions, line, kind, fields
Row = tuple[str, str, str, dict[str, Any]]
TABLE: list[Row] = [
    # a collective timed out
    ("1.10", OLD + f"[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=600000) {RAN}",
     "watchdog_timeout", {"work_rank": 3, "op": "ALLREDUCE", "timeout_ms": 600000, "ran_ms": 600041}),
    ("1.13-2.0", OLD + f"[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, Timeout(ms)=600000) {RAN}",
     "watchdog_timeout", {"work_rank": 3, "seq": 77, "op": "ALLREDUCE", "timeout_ms": 600000, "ran_ms": 600041}),
    ("2.1-2.15", C10 + f"[Rank 3] Watchdog caught collective operation timeout: WorkNCCL({WORK}) {RAN}",
     "watchdog_timeout", OF_WORK | {"work_rank": 3, "ran_ms": 600041}),
    ("vendor copies", C10 + f"[Rank 3] Watchdog caught collective operation timeout: WorkHCCL({WORK}) {RAN}",
     "watchdog_timeout", OF_WORK | {"work_rank": 3, "ran_ms": 600041}),
    ("2.3", C10 + f"[PG 3 Rank 1] Exception hit in NCCL work: 77, {STATUS}.",
     "exception_status", {"pg_id": 3, "group_rank": 1, "seq": 77, "last_enqueued": 79, "last_completed": 76}),
    ("2.4", C10 + f"[PG 0 (default_pg) Rank 3] Exception (either an error or timeout) detected by watchdog at work: 77, {STATUS}.",
     "exception_status", {"pg_id": 0, "pg_desc": "default_pg", "group_rank": 3, "seq": 77, "last_enqueued": 79, "last_completed": 76}),
    ("2.5", C10 + f"{PG}Exception (either an error or timeout) detected by watchdog at work: 77, {STATUS}.",
     "exception_status", IN_PG | {"seq": 77, "last_enqueued": 79, "last_completed": 76}),
    ("2.3-2.5", C10 + f"{PG}Timeout at NCCL work: 77, {STATUS}.",
     "timeout_status", IN_PG | {"seq": 77, "last_enqueued": 79, "last_completed": 76}),
    ("2.6-2.12", C10 + f"{PG} failure detected by watchdog at work sequence id: 77 PG status: last enqueued work: 79, last completed work: 76",
     "failure_status", IN_PG | {"seq": 77, "last_enqueued": 79, "last_completed": 76}),
    ("2.13", C10 + f"{PG} failure detected by watchdog at work sequence id: 77 PG status: last enqueued work: 79, last started work: 78 (ALLREDUCE), last completed work: -1",
     "failure_status", IN_PG | {"seq": 77, "last_enqueued": 79, "last_started": 78, "last_completed": None}),
    ("undefined group", C10 + "[PG ID 4 PG GUID 17(undefined) Rank 1]  failure detected by watchdog at work sequence id: 77 PG status: last enqueued work: 79, last completed work: 76",
     "failure_status", {"pg_id": 4, "pg_name": "17", "group_rank": 1, "seq": 77, "last_enqueued": 79, "last_completed": 76}),
    ("XPU", C10 + f"{PG} failfure detected by watchdog at work sequence id: 77 PG status: last enqueued work: 79, last started work: 76",
     "failure_status", IN_PG | {"seq": 77, "last_enqueued": 79, "last_completed": 76}),
    ("2.1+", C10 + f"[Rank 3] Work WorkNCCL({WORK}) timed out in blocking wait.", "blocking_wait", OF_WORK | {"work_rank": 3}),
    ("2.6+", C10 + "Stack trace of the failed collective not found, potentially because FlightRecorder is disabled.", "stack_missing", {}),
    ("2.6+", C10 + "Stack trace of the failed collective: ", "stack_head", {}),
    ("2.6+", "#0 broadcast from distributed_c10d.py:2968", "stack_frame", {"text": "broadcast from distributed_c10d.py:2968"}),
    ("2.3+", C10 + f"[Rank 3] Collective WorkNCCL({WORK}) raised the following async exception: NCCL error: remote process exited",
     "async_error", OF_WORK | {"work_rank": 3, "text": "NCCL error: remote process exited"}),
    ("2.0", OLD + "Some NCCL operations have failed or timed out. Due to", "ops_failed", {}),
    ("2.2+", C10 + "[Rank 3] Some NCCL operations have failed or timed out. Due to", "ops_failed", {"work_rank": 3}),
    ("2.2+", C10 + "[Rank 3] To avoid data inconsistency, we are taking the entire process down.", "teardown", {"work_rank": 3}),
    ("2.2", OLD + "[Rank 3] NCCL watchdog thread terminated with exception: CUDA error: unspecified launch failure",
     "watchdog_terminated", {"work_rank": 3, "text": "CUDA error: unspecified launch failure"}),
    ("2.3+", C10 + f"{PG}Process group watchdog thread terminated with exception: [Rank 3] Watchdog",
     "watchdog_terminated", IN_PG | {"text": "[Rank 3] Watchdog"}),
    ("1.10-2.2", "RuntimeError: NCCL communicator was aborted on rank 3. Original reason for failure was: [Rank 3] Watchdog caught",
     "comm_aborted", {"group_rank": 3, "text": "[Rank 3] Watchdog caught"}),
    ("2.6+", C10 + f"{PG} remote error detected from rank: 5", "remote_error", IN_PG | {"peer_rank": 5}),
    ("2.4+", C10 + f"{PG}NCCL Work update periodically: {STATUS}.", "work_update", IN_PG | {"last_enqueued": 79, "last_completed": 76}),
    # dump signal and heartbeat monitor
    ("2.7+", C10 + f"{PG}First PG on this rank to signal dumping.", "dump_first", IN_PG),
    ("2.4-2.6", C10 + f"{PG}Broadcasting flight-recorder dump signal to other processes via TCPStore.", "dump_broadcast", IN_PG),
    ("2.7+", C10 + f"{PG}Broadcasting signal exception_dump to other ranks via TCPStore.", "dump_broadcast", IN_PG),
    ("2.5+", C10 + f"{PG}Observed flight recorder dump signal from another rank via TCPStore.", "dump_observed", IN_PG),
    ("2.4+", C10 + f"{PG}Received a dump signal due to a collective timeout from  rank 34 and we will try our best to dump the debug info. L{STATUS[1:]}.This is most likely caused",
     "dump_received", IN_PG | {"peer_rank": 34, "last_enqueued": 79, "last_completed": 76}),
    ("2.4+", C10 + f"{PG}Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info. L{STATUS[1:]}.This",
     "dump_received", IN_PG | {"last_enqueued": 79, "last_completed": 76}),
    ("2.2", OLD + "[PG 0 Rank 3] Received a global timeout from another rank and will start to dump the debug info.",
     "dump_received_old", {"pg_id": 0, "group_rank": 3}),
    ("2.3", OLD + f"[PG 0 Rank 3] Received a timeout signal from rank 2 and will start to dump the debug info. L{STATUS[1:]}.",
     "dump_received_old", {"pg_id": 0, "group_rank": 3, "peer_rank": 2, "last_enqueued": 79, "last_completed": 76}),
    ("2.10+", C10 + f"{PG}ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1, only active collectives: 0", "dump_prepare", IN_PG),
    ("2.4+", C10 + f"{PG}ProcessGroupNCCL dumping nccl trace to /tmp/rank_0", "dump_path", {"text": "/tmp/rank_0"}),
    ("2.4+", C10 + "Finished writing FR trace to /tmp/rank_0", "dump_path", {"text": "/tmp/rank_0"}),
    ("2.7", C10 + f"{PG}timed out after waiting for 60000ms flight recorder dumps to finish.", "dump_wait_over", IN_PG | {"ran_ms": 60000}),
    ("2.2+", C10 + f"{PG}ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring", "heartbeat_stuck", {"stuck_s": 480}),
    ("2.2-2.3", OLD + "[PG 0 Rank 2] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=2",
     "heartbeat_old", {"pg_id": 0, "group_rank": 2}),
    ("2.4+", C10 + f"{PG}{PG}Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.",
     "terminating", {"text": "ProcessGroupNCCL watchdog hang"}),
    ("2.2+", C10 + f"{PG}Could not acquire GIL within 300 ms on exit, possible GIL induced hang", "gil", {}),
    ("2.4+", C10 + f'{PG}Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: Broken pipe',
     "store_flag_failed", {"text": "Broken pipe"}),
    ("2.5+", C10 + "Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.", "shutdown_warning", {}),
    # desync report
    ("1.13+", "\t - [0] Timeout at collective: ALLREDUCE, #31", "desync_head", {"group_rank": 0, "op": "ALLREDUCE", "seq": 31}),
    ("1.13+", "\t - To our best knowledge, ranks [2, 3] are the lagging ranks that caused this timeout. They never joined any collectives",
     "desync_missing", {"ranks": [2, 3]}),
    ("1.13+", "\t - [0, 1] joined but didn't finish collective #9 (count from 1)", "desync_lagging_started", {"ranks": [0, 1], "seq": 9}),
    ("1.13+", "[7] finished collective #9, but didn't join collective #10 (count from 1)",
     "desync_lagging_finished", {"ranks": [7], "last_completed": 9, "seq": 10}),
    ("1.13+", "\t   #317 started ranks:", "desync_snapshot", {"seq": 317, "text": "started"}),
    ("1.13+", "\t     [3, 4] started _ALLGATHER_BASE", "desync_snapshot", {"ranks": [3, 4], "text": "started", "op": "_ALLGATHER_BASE"}),
    ("1.13", OLD + "Failed to rerieve NCCL_DESYNC_DEBUG report. Please file an issue. Error: x", "desync_failed", {}),
    # nccl2
    ("2.15", C10 + "[TC][rank=3][name=default_pg] Operation timed out after 600012 ms", "n2_timeout", {"group_rank": 3, "pg_name": "default_pg", "ran_ms": 600012}),
    ("2.15", C10 + "[TC][rank=3][name=default_pg] Aborting process on rank 3 due to timeout - timeout watchdog detected operation timeout",
     "n2_abort", {"group_rank": 3, "pg_name": "default_pg", "text": "timeout - timeout watchdog detected operation timeout"}),
    ("2.15", C10 + "[TC][rank=3][name=default_pg] nccl hit async error on rank 3: remote process exited",
     "n2_async", {"group_rank": 3, "pg_name": "default_pg", "text": "remote process exited"}),
    ("2.15", C10 + "[TC][rank=3][name=default_pg] CUDA error during end event query: CUDA error: an illegal memory access",
     "n2_cuda", {"group_rank": 3, "pg_name": "default_pg", "text": "CUDA error: an illegal memory access"}),
    ("2.15", C10 + "[TC] No flight recorder trace to dump.", "n2_dump", {}),
    ("2.15", "[rank3]: torch.distributed.DistBackendError: NCCL operation timed out", "n2_python", {"text": "timed out"}),
    # checks before the collective
    ("2.1+", f"RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: {PRINT.format(9, 'ALLREDUCE', 4, 'Float')}, but Rank 0 is running collective: {PRINT.format(8, 'BROADCAST', 1, 'Long')}.Collectives differ",
     "fingerprint", {"group_rank": 1, "seq": 9, "op": "ALLREDUCE", "shape": "4", "dtype": "Float",
                     "peer_rank": 0, "other_seq": 8, "other_op": "BROADCAST", "other_shape": "1", "other_dtype": "Long"}),
    ("2.0, not filled in", f"RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: {PRINT.format(9, 'ALLREDUCE', 4, 'Float')}, but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=0OpType=BROADCAST)",
     "fingerprint", {"group_rank": 1, "seq": 9, "op": "ALLREDUCE", "shape": "4", "dtype": "Float", "peer_rank": 0, "other_op": "BROADCAST"}),
    ("1.9-1.12", "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running inconsistent collective: CollectiveFingerPrint(OpType=BROADCAST, TensorShape=[4], TensorDtypes=Float, TensorDeviceTypes=x",
     "fingerprint_old", {"group_rank": 0, "op": "BROADCAST", "shape": "4", "dtype": "Float"}),
    ("1.8+", "RuntimeError: [Rank 0]: Ranks 4, 5 failed to pass monitoredBarrier in 30000 ms", "monitored_barrier", {"ranks": [4, 5], "ran_ms": 30000}),
    ("1.8+", "[E ProcessGroupGloo.cpp:138] Rank 3 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.",
     "monitored_barrier_peer", {"group_rank": 3}),
    ("1.8-2.0", "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)",
     "store_barrier", {"group_rank": 0, "world_size": 2, "joined": 1}),
    ("2.1+", "torch.distributed.DistStoreError: Timed out initializing process group in store based barrier on rank 0, for key: k:1 (world_size=4, num_workers_joined=3, timeout=0:30:00)",
     "store_barrier", {"group_rank": 0, "world_size": 4, "joined": 3}),
    ("1.10+", "[2] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Broken pipe",
     "unique_id", {"group_rank": 2, "peer_rank": 0, "text": "Broken pipe"}),
    ("all", "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.7]:57000",
     "gloo_peer", {"text": "Connection closed by peer [10.0.0.7]:57000"}),
    # launchers, kernel
    ("1.9+", "E0904 10:02:11.120000 139 torch/distributed/elastic/multiprocessing/api.py:833] failed (exitcode: -9) local_rank: 3 (pid: 812) of binary: python",
     "elastic_failed", {"exit_code": -9, "local_rank": 3, "pid": 812}),
    ("1.9+", "W0904 10:02:11.120000 139 api.py:858] Sending process 811 closing signal SIGTERM", "elastic_sigterm", {"pid": 811, "signal": "SIGTERM"}),
    ("1.9+", "[default] Worker group FAILED. 3/3 attempts left; will restart worker group", "elastic_restart",
     {"text": "Worker group FAILED. 3/3 attempts left; will restart worker group"}),
    ("Slurm", "srun: error: node-b: tasks 8-10,14: Aborted (core dumped)", "scheduler_end", {"host": "node-b", "ranks": [8, 9, 10, 14], "text": "Aborted (core dumped)"}),
    ("Open MPI", "mpirun noticed that process rank 3 with PID 99 on node node-b exited on signal 9 (Killed).",
     "scheduler_end", {"ranks": [3], "pid": 99, "host": "node-b", "text": "signal 9 (Killed)."}),
    ("Slurm", "slurmstepd: error: *** STEP 7.0 ON node-b CANCELLED AT 2026-03-18T12:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG ***",
     "node_failed", {"host": "node-b", "text": "STEP 7.0 ON node-b CANCELLED AT 2026-03-18T12:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG ***"}),
    ("Ray", "A worker died or was killed while executing a task by an unexpected system error. Worker IP address: 10.0.0.110 Worker port: 1 Worker PID: 90738 Worker exit type: SYSTEM_ERROR",
     "ray_died", {"address": "10.0.0.110", "pid": 90738, "text": "Worker exit type: SYSTEM_ERROR"}),
    ("Linux", "Memory cgroup out of memory: Killed process 3302 (python3) total-vm:1kB", "oom_killed", {"pid": 3302, "text": "Killed process 3302 (python3) total-vm:1kB"}),
    ("Slurm", "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", "oom_killed", {"text": "Detected 1 oom_kill event in StepId=7.0."}),
    ("Linux", "[74889.644132] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.", "xid", {"address": "0000:02:00", "xid": 79, "text": "GPU has fallen off the bus."}),
    ("Linux", "NVRM: Xid (PCI:0000:02:00): 31, pid=3302, name=python, Ch 00000008", "xid", {"address": "0000:02:00", "xid": 31, "pid": 3302, "text": "name=python, Ch 00000008"}),
    ("Python", "Fatal Python error: Segmentation fault", "crash", {"text": "Segmentation fault"}),
    ("Python", "[rank3]: ValueError: a bad sample", "exception", {"text": "ValueError: a bad sample"}),
    # CUDA, NCCL
    ("2.5+", "[rank11]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.35 GiB. GPU 3 has", "cuda_oom", {"text": "CUDA out of memory. Tried to allocate 4.35 GiB. GPU 3 has"}),
    ("all", "RuntimeError: CUDA error: uncorrectable ECC error encountered", "cuda_error", {"text": "uncorrectable ECC error encountered"}),
    ("NCCL", NCCL + "include/alloc.h:125 NCCL WARN Cuda failure 710 'device-side assert triggered'", "nccl_cuda", PROCESS | {"text": "device-side assert triggered"}),
    ("NCCL", NCCL + "NCCL INFO comm 0x5649 rank 5 nranks 8 cudaDev 5 nvmlDev 5 busId a7000 commId 0xab - Init COMPLETE",
     "nccl_comm_rank", PROCESS | {"comm": "0x5649", "group_rank": 5, "world_size": 8, "device": 5, "address": "a7000", "text": "Init COMPLETE"}),
    ("NCCL", NCCL + "misc/socket.cc:47 NCCL WARN socketProgress: Connection closed by remote peer node-b<43230>",
     "nccl_closed", PROCESS | {"text": "Connection closed by remote peer node-b<43230>", "address": "node-b<43230>"}),
    ("NCCL 2.8-2.16", NCCL + "misc/socket.cc:30 NCCL WARN Net : Call to recv from 10.0.0.53<49901> failed : Broken pipe",
     "nccl_closed", PROCESS | {"text": "Call to recv from 10.0.0.53<49901> failed : Broken pipe", "address": "10.0.0.53<49901>"}),
    ("NCCL <=2.18", NCCL + "x.c:1 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<5> with error 12, opcode 0, len 0, vendor err 129",
     "nccl_ib", PROCESS | {"address": "10.0.0.2<5>", "text": "Got completion from peer 10.0.0.2<5> with error 12, opcode 0, len 0, vendor err 129"}),
    ("NCCL 2026", NCCL + "x.c:1 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<5> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129",
     "nccl_ib", PROCESS | {"address": "10.0.0.2<5>", "text": "Got completion from peer 10.0.0.2<5> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129"}),
    ("NCCL", "ncclRemoteError: A call failed possibly due to a network error.", "nccl_error_kind", {"text": "ncclRemoteError: A call failed possibly due to a network error."}),
    ("NCCL", NCCL + "NCCL INFO AllGather: opCount 28c sendbuff 0x7f recvbuff 0x7e count 15360 datatype 0 op 0 root 0 comm 0x559c [nranks=4] stream 0x55",
     "nccl_coll", PROCESS | {"device": 1, "op": "AllGather", "seq": 652, "numel_in": 15360, "dtype": "0", "comm": "0x559c", "world_size": 4}),
    ("NCCL 2.4", NCCL + "x.cc:667 NCCL WARN NET/IB : collective mismatch error local size 32768 remote 1048576",
     "nccl_mismatch", PROCESS | {"text": "NET/IB : collective mismatch error local size 32768 remote 1048576"}),
    ("NCCL", NCCL + "x.cc:1 NCCL WARN something else", "nccl_line", PROCESS | {"text": "something else"}),
    ("NCCL 2.24+", "2 ranks have launched up to operation 641", "nccl_ras", {"joined": 2, "seq": 641}),
]  # fmt: skip


@pytest.mark.parametrize(("versions", "line", "kind", "fields"), TABLE, ids=[f"{row[2]} {row[0]}" for row in TABLE])
def test_format(versions: str, line: str, kind: str, fields: dict[str, Any]) -> None:
    *_, piece = pieces(line)
    assert (parse(piece.body) or parse(piece.body, in_report=True)) == {"kind": kind} | fields


def test_every_format_is_in_the_table() -> None:
    assert {kind for kind, _, _ in (*FORMATS, *IN_REPORT)} == {row[2] for row in TABLE}


@pytest.mark.parametrize(
    ("line", "rank", "local_rank", "logged_at", "source"),
    [
        (
            "[rank13]:[E1009 10:02:11.120000001 ProcessGroupNCCL.cpp:632] x",
            13,
            None,
            "10-09 10:02:11.120000001",
            "ProcessGroupNCCL.cpp:632",
        ),
        ("[default4]:[rank12]:[W317 20:23:34.227677558 a.hpp:1] x", 12, 4, "03-17 20:23:34.227677558", "a.hpp:1"),
        ("[default4]:x", None, 4, None, None),
        ("[E ProcessGroupNCCL.cpp:737] x", None, None, None, "ProcessGroupNCCL.cpp:737"),
        ("(RayTrainWorker rank=3 pid=412, ip=10.0.0.4) x", 3, None, None, None),
        ("(RayTrainWorker pid=412, ip=10.0.0.4) [rank5]: x", 5, None, None, None),
        ("name.node [stderr] [rank5]: x", 5, None, None, None),
        ("[80746] [rank5]: x", 5, None, None, None),
        ("worker-0 | 2026-03-18 12:29:08,115 [rank5]: x", 5, None, None, None),
    ],
)
def test_prefix(line: str, rank: int | None, local_rank: int | None, logged_at: str | None, source: str | None) -> None:
    *_, piece = pieces(line)
    assert piece.body == "x"
    assert (piece.rank, piece.local_rank, piece.logged_at, piece.source) == (rank, local_rank, logged_at, source)


def test_two_messages_on_one_line() -> None:
    assert [(p.rank, p.body) for p in pieces("12%|# [rank0]: a[rank1]:[E904 10:02:11.120000001 x.cpp:1] b")][1:] == [
        (0, "a"),
        (1, "b"),
    ]


def test_absurd_numbers() -> None:
    assert integer("9" * 40) is None
    assert integer("-1") is None
    assert ranks_of("0-99999999") == []
    assert len(ranks_of("0-9999999")) == 100_000
    assert ranks_of("1, x, 5-4") == [1]
