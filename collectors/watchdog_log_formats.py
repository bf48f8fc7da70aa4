"""The lines a job's log says something with: one expression per format of PyTorch 1.13 to 2.15, NCCL, torchrun, kernel.

A format's token is looked for before its expression is tried. The names of the expression's groups are columns of
`python.torch_nccl_watchdog_log`; `ranks` holds a list. The order matters: the first that fits is what the line says.
"""

from __future__ import annotations

# A line without one of these says nothing to us. One expression for `re` (over text) and RE2 (over blocks of bytes).
TRIGGER = (
    r"ProcessGroup|NCCL WARN|CCL watchdog|NCCL operation|NCCL comm|CCL\(|opCount|nranks|HeartbeatMonitor|\[TC\]|"
    r"[a-z]Error|rror:|Exception|Interrupt|CUDA error|system error|async error|exitcode|closing signal|on signal|"
    r"restart worker|NVRM: Xid|launched up to|Traceback|Killed process|oom.kill|NODE FAILURE|egfault|collective|"
    r"monitoredBarrier|remote peer|socketProgress|NET/IB|CollectiveFingerPrint|store based barrier|ncclUniqueId|"
    r"Stack trace of|Flight recorder dump|srun: error"
)

PG = (
    r"\[PG (?:ID )?(?P<pg_id>\d+)(?: PG GUID (?P<pg_name>[^\s(\]]+))?(?: ?\((?P<pg_desc>[^)]*)\))? "
    r"Rank (?P<group_rank>\d+)\] +"
)
_WORK = (
    r"Work[A-Z]*CCL\((?:SeqNum=(?P<seq>\d+), )?OpType=(?P<op>\w+)"
    r"(?:, NumelIn=(?P<numel_in>\d+), NumelOut=(?P<numel_out>\d+))?, Timeout\(ms\)=(?P<timeout_ms>\d+)\)"
)
_WORK_RANK = r"\[Rank (?P<work_rank>\d+)\] "
_STATUS = r"last enqueued NCCL work: (?P<last_enqueued>-?\d+), last completed NCCL work: (?P<last_completed>-?\d+)"
_N2 = r"\[TC\](?:\[rank=(?P<group_rank>\d+)\])?(?:\[name=(?P<pg_name>[^\]]*)\])? "


def _print(side: str, seq: str) -> str:
    return (
        rf"CollectiveFingerPrint\((?:SequenceNumber=(?P<{seq}>\d+),? ?)?OpType=(?P<{side}op>\w+)"
        rf"(?:, TensorShape=\[(?P<{side}shape>[^\]]*)\], TensorDtypes=(?P<{side}dtype>[\w ]+))?"
    )


# kind, token, expression.
FORMATS: tuple[tuple[str, str, str], ...] = (
    # a collective timed out
    ("watchdog_terminated", "watchdog thread terminated",
     rf"(?:{_WORK_RANK}|{PG})(?:[A-Z]*CCL|Process group) watchdog thread terminated with exception: (?P<text>.*)"),
    ("watchdog_timeout", "Watchdog caught",
     rf"(?:{_WORK_RANK})?Watchdog caught collective operation timeout: {_WORK} ran for (?P<ran_ms>\d+) milliseconds"),
    ("failure_status", "ailure detected by watchdog",
     rf"{PG}failure detected by watchdog at work sequence id: (?P<seq>\d+) PG status: last enqueued work: "
     r"(?P<last_enqueued>-?\d+)(?:, last started work: (?P<last_started>-?\d+)(?: \(\w*\))?)?, "
     r"last completed work: (?P<last_completed>-?\d+)"),
    # the copy for XPU: another spelling, and the number that finished under another name
    ("failure_status", "failfure detected by watchdog",
     rf"{PG}failfure detected by watchdog at work sequence id: (?P<seq>\d+) PG status: last enqueued work: "
     r"(?P<last_enqueued>-?\d+), last (?:started|completed) work: (?P<last_completed>-?\d+)"),
    ("exception_status", "NCCL work: ",
     rf"{PG}Exception (?:\(either an error or timeout\) detected by watchdog at work|hit in NCCL work): "
     rf"(?P<seq>\d+)(?:, {_STATUS})?"),
    ("exception_status", "detected by watchdog at work: ",
     rf"{PG}Exception \(either an error or timeout\) detected by watchdog at work: (?P<seq>\d+)(?:, {_STATUS})?"),
    ("timeout_status", "Timeout at NCCL work", rf"{PG}Timeout at NCCL work: (?P<seq>\d+), {_STATUS}"),
    ("blocking_wait", "timed out in blocking wait", rf"(?:{_WORK_RANK})?Work {_WORK} timed out in blocking wait"),
    ("stack_missing", "Stack trace of the failed", r"Stack trace of the failed collective not found"),
    ("stack_head", "Stack trace of the failed", r"Stack trace of the failed collective: *$"),
    ("async_error", "async exception",
     rf"(?:{_WORK_RANK})?Collective {_WORK} raised the following async exception: (?P<text>.*)"),
    ("ops_failed", "Some NCCL operations", rf"(?:{_WORK_RANK})?Some NCCL operations have failed or timed out"),
    ("teardown", "inconsistency, we are",
     rf"(?:{_WORK_RANK})?To avoid (?:data|this) inconsistency, we are taking the entire process down"),
    ("comm_aborted", "communicator was aborted",
     r"NCCL communicator was aborted on rank (?P<group_rank>\d+)\.(?: Original reason for failure was: (?P<text>.*))?"),
    ("remote_error", "remote error detected", rf"{PG}remote error detected from rank: (?P<peer_rank>\d+)"),
    ("work_update", "Work update periodically",
     rf"(?:{PG})?NCCL Work update periodically: {_STATUS}"),
    # dump signal and heartbeat monitor
    ("dump_first", "First PG on this rank", rf"{PG}First PG on this rank to signal dumping"),
    ("dump_broadcast", "Broadcasting",
     rf"(?:{PG})?Broadcasting (?:flight-recorder dump signal to other processes|signal \S+ to other "
     rf"ranks) via TCPStore"),
    ("dump_observed", "Observed flight recorder", rf"{PG}Observed flight recorder dump signal from another rank"),
    ("dump_received", "Received a dump signal",
     rf"{PG}Received a dump signal due to a collective timeout from (?:this local rank| *rank (?P<peer_rank>\d+))"
     rf"(?: .*?[Ll]{_STATUS[1:]})?"),
    ("dump_received_old", "will start to dump",
     rf"(?:{PG})?Received a (?:global timeout from another rank|timeout signal from (?:this local rank|another rank|"
     rf"rank (?P<peer_rank>\d+))) and will start to dump the debug info\.(?: [Ll]{_STATUS[1:]})?"),
    ("dump_prepare", "preparing to dump", rf"{PG}ProcessGroup\w+ preparing to dump debug info"),
    ("dump_path", "dumping nccl trace to", r"ProcessGroupNCCL dumping nccl trace to (?P<text>\S+)"),
    ("dump_path", "Finished writing",
     r"Finished writing (?:NCCLPG debug info|FR trace|Flight Recorder debug info) to (?P<text>\S+)"),
    ("dump_wait_over", "flight recorder dumps to finish",
     rf"{PG}timed out after waiting for (?P<ran_ms>\d+)ms flight recorder dumps to finish"),
    ("heartbeat_stuck", "watchdog got stuck", r"ProcessGroup\w+'s watchdog got stuck for (?P<stuck_s>\d+) seconds"),
    ("heartbeat_old", "Heartbeat monitor timed out", rf"{PG}Heartbeat monitor timed out!"),
    ("terminating", "Terminating the process after",
     r"Terminating the process after attempting to dump debug info, due to (?P<text>[^.]+)\."),
    ("gil", "Could not acquire GIL", r"Could not acquire GIL within 300 ms on exit"),
    ("store_flag_failed", 'the "should dump" flag',
     r'Failed to check the "should dump" flag on TCPStore.*?with error: (?P<text>.*)'),
    ("shutdown_warning", "destroy",
     r"destroy_process_group\(\) was not called before program exit|has NOT been destroyed before we destruct"),
    # desync report
    ("desync_head", "Timeout at collective",
     r"- \[(?P<group_rank>\d+)\] Timeout at collective: (?P<op>\w+), #(?P<seq>\d+)"),
    ("desync_missing", "are the lagging ranks",
     r"ranks \[(?P<ranks>[\d, ]+)\] are the lagging ranks that caused this timeout\. They never "
     r"joined any collectives"),
    ("desync_lagging_started", "joined but didn",
     r"- \[(?P<ranks>[\d, ]+)\] joined but didn't finish collective #(?P<seq>\d+)"),
    ("desync_lagging_finished", "finished collective #",
     r"\[(?P<ranks>[\d, ]+)\] finished collective #(?P<last_completed>\d+), but didn't join collective #(?P<seq>\d+)"),
    ("desync_failed", "_DESYNC_DEBUG report", r"Failed to rer?t?r?ieve (?:TORCH_)?NCCL_DESYNC_DEBUG report"),
    # nccl2
    ("n2_timeout", "[TC]", rf"{_N2}Operation timed out after (?P<ran_ms>\d+) ms"),
    ("n2_abort", "[TC]", rf"{_N2}Aborting process on rank \d+ due to (?P<text>.*)"),
    ("n2_async", "[TC]", rf"{_N2}(?:nccl hit async error|Async error) on rank \d+: (?P<text>.*)"),
    ("n2_cuda", "[TC]", rf"{_N2}CUDA error during (?:start|end) event query: (?P<text>.*)"),
    ("n2_dump", "ecorder",
     r"Flight recorder dump did not finish within \d+ ms|\[TC\] No flight recorder trace to dump"),
    ("n2_python", "DistBackendError: NCCL operation", r"DistBackendError: NCCL operation (?P<text>timed out|failed)"),
    # checks before the collective
    ("fingerprint", "but Rank",
     rf"Detected mismatch between collectives on ranks\. Rank (?P<group_rank>\d+) is running "
     rf"collective: {_print('', 'seq')}"
     rf".*?, but Rank (?P<peer_rank>\d+) is running collective: {_print('other_', 'other_seq')}"),
    ("fingerprint_old", "inconsistent collective",
     rf"Rank (?P<group_rank>\d+) is running inconsistent collective: {_print('', 'seq')}"),
    ("monitored_barrier_peer", "successfully reached monitoredBarrier",
     r"Rank (?P<group_rank>\d+) successfully reached monitoredBarrier, but received errors while waiting"),
    ("monitored_barrier", "failed to pass monitoredBarrier",
     r"Ranks? (?P<ranks>[\d, ]+?) failed to pass monitoredBarrier in (?P<ran_ms>\d+) ms"),
    ("store_barrier", "store based barrier",
     r"Timed out initializing process group in store based barrier on rank:? (?P<group_rank>\d+), for key: \S+ "
     r"\(world_size=(?P<world_size>\d+), (?:worker_count|num_workers_joined)=(?P<joined>\d+)"),
    ("unique_id", "retrieving ncclUniqueId",
     r"\[(?P<group_rank>\d+)\] is setting up NCCL communicator and retrieving ncclUniqueId from \[(?P<peer_rank>\d+)\]"
     r".*?got error: (?P<text>.*)"),
    ("gloo_peer", "gloo/transport",
     r"gloo/transport/tcp/\w+\.cc:\d+\] (?P<text>(?:Connection closed by peer|Timed out waiting \d+ms for (?:recv|send)"
     r" operation to complete|Read error|Connection reset by peer).*)"),
    # torchrun and the ends of processes
    ("elastic_failed", "failed (exitcode",
     r"failed \(exitcode: (?P<exit_code>-?\d+)\)(?: local_rank: (?P<local_rank>\d+) \(pid: (?P<pid>\d+)\))?"),
    ("elastic_restart", "will restart worker group", r"(?P<text>Worker group \w+\. .*will restart worker group)"),
    ("elastic_sigterm", "closing signal", r"Sending process (?P<pid>\d+) closing signal (?P<signal>SIG\w+)"),
    ("scheduler_end", "srun: error", r"srun: error: (?P<host>\S+): tasks? (?P<ranks>[\d,\-]+): (?P<text>.*)"),
    ("scheduler_end", "noticed that process rank",
     r"noticed that process rank (?P<ranks>\d+) with PID (?P<pid>\d+) on node (?P<host>\S+) exited on "
     r"(?P<text>signal \d+.*)"),
    ("node_failed", "NODE FAILURE", r"(?P<text>(?:STEP|JOB) \S+ ON (?P<host>\S+) CANCELLED .*NODE FAILURE.*)"),
    ("ray_died", "A worker died",
     r"A worker died or was killed while executing a task by an unexpected system error.*?"
     r"Worker IP address: (?P<address>\S+).*?Worker PID: (?P<pid>\d+)(?P<text>.*)"),
    ("oom_killed", "oom", r"(?P<text>(?:Detected \d+ )?oom[-_]kill event.*)"),
    ("oom_killed", "Killed process", r"(?P<text>Killed process (?P<pid>\d+) .*)"),
    # CUDA, driver, NCCL
    ("cuda_oom", "CUDA out of memory", r"OutOfMemoryError: (?P<text>CUDA out of memory\..*)"),
    ("xid", "NVRM: Xid", r"NVRM: Xid \(PCI:(?P<address>[0-9a-fA-F:.]+)\): (?P<xid>\d+)"
     r"(?:, pid='?(?P<pid>\d+)'?)?(?:, (?P<text>.*))?"),
    ("nccl_cuda", "Cuda failure", r"NCCL WARN Cuda failure(?: \d+)? '(?P<text>[^']+)'"),
    ("crash", "Python error: ",
     r"Fatal Python error: (?P<text>(?:Segmentation fault|Bus error|Illegal instruction|Floating point exception).*)"),
    ("crash", "egfault encountered", r"(?P<text>Segfault encountered)"),
    ("cuda_error", "CUDA error: ", r"CUDA error: (?P<text>.+)"),
    ("nccl_comm_rank", "nranks ",
     r"comm (?P<comm>0x[0-9a-f]+) rank (?P<group_rank>\d+) nranks (?P<world_size>\d+) cudaDev (?P<device>\d+)"
     r"(?: nvmlDev \d+)? busId (?P<address>\w+)(?: commId 0x[0-9a-f]+)? - (?P<text>[A-Za-z ]+)"),
    ("nccl_closed", "remote peer",
     r"(?:socketProgress|socketProgressOpt|Net) ?: (?P<text>Connection closed by remote peer "
     r"(?P<address>\S+))"),
    ("nccl_closed", "failed : ",
     r"(?:socketProgress|socketProgressOpt|Net) ?: (?P<text>Call to (?:recv|send) from "
     r"(?P<address>\S+) failed : .*)"),
    ("nccl_ib", "Got completion from peer",
     r"NET/IB ?: (?P<text>Got completion from peer (?P<address>\S+) with (?:error|status)[ =].*)"),
    ("nccl_mismatch", "ismatch",
     r"NCCL WARN (?P<text>(?:Mismatched collective detected|NET/IB : collective mismatch error).*)"),
    ("nccl_coll", "opCount ",
     r"NCCL INFO (?P<op>[A-Z]\w+): "
     r"opCount (?P<op_count>[0-9a-f]+) sendbuff \S+ recvbuff \S+ count (?P<numel_in>\d+) "
     r"datatype (?P<dtype>\d+) op \d+ root \d+ "
     r"comm (?P<comm>0x[0-9a-f]+) \[nranks=(?P<world_size>\d+)\]"),
    ("nccl_ras", "launched up to", r"(?P<joined>\d+) ranks? have launched up to operation (?P<seq>\d+)"),
    ("nccl_error_kind", ": ",
     r"(?P<text>nccl(?:RemoteError|SystemError|InternalError|UnhandledCudaError|InvalidUsage|InvalidArgument): .*)"),
    ("nccl_line", "NCCL WARN", r"NCCL WARN (?P<text>.*)"),
    ("exception", ": ",
     r"^(?:\[rank\d+\]: *)?(?P<text>[A-Za-z_][\w.]{0,80}(?:Error|Exception|Interrupt|Exit|Iteration)(?:: .*)?)$"),
)  # fmt: skip

# Lines that mean something only below the head of a report: they have no word of their own.
IN_REPORT: tuple[tuple[str, str, str], ...] = (
    ("desync_snapshot", "#", r"^\s*#(?P<seq>\d+) (?P<text>started|finished) ranks:"),
    ("desync_snapshot", "[", r"^\s*\[(?P<ranks>[\d, ]+)\] (?P<text>started|finished) (?P<op>\w+)$"),
    ("nccl_cuda", "Cuda failure", r"^Cuda failure(?: \d+)? '(?P<text>[^']+)'"),
    ("stack_frame", "#", r"^#\d+ (?P<text>\S+ from \S+:\d+)$"),
)
