"""Hangs where other numbers, files or logs count beside the entries."""

from __future__ import annotations

from tests.jobs.builder import Job
from tests.jobs.scenes import data_parallel, grid_step, sharded
from tests.jobs.story import story


@story(
    "insufficient_evidence",
    [],
    """torchcomms counts over all groups of a process and the rings have wrapped: the same number on two ranks is
    another call, and there is no beginning to count from.""",
)
def process_counters_in_wrapped_rings() -> Job:
    """P8: else do not align."""
    job = Job(4, lib="torchcomms").group("tp", [0, 1]).group("tp", [2, 3])
    for _ in range(8):
        job.all_reduce("tp", of=0).all_reduce("tp", of=0).all_reduce("tp", of=2).all_gather()
    return job.stop(2).all_gather().ring(9)


@story(
    "rank_not_joined",
    [2],
    """Rank 0 made groups of its own before, so that the dp group is its pg_id 3 and rank 2's pg_id 1. In that group
    rank 2 is missing.""",
)
def pg_ids_of_the_process() -> Job:
    """P1: pg_id is numbered per process."""
    job = Job(4).group("own", [0]).group("own", [0]).group("dp", [0, 2]).group("dp", [1, 3])
    for _ in range(3):
        job.all_reduce("dp").all_reduce()
    return job.stop(2).all_reduce("dp").all_reduce()


@story(
    "rank_not_joined",
    [1],
    """pg_config is empty on all ranks, but those that used the groups together are known, and rank 1 is missing in the
    one it used before.""",
)
def members_from_use_alone() -> Job:
    """P1, V7."""
    return grid_step(grid_step(Job(4).grid(tp=2, dp=2).without_pg_config(), 3).stop(1))


@story("rank_not_joined", [0], "Half of the dumps are JSON, half pickles, of three versions; rank 0 is idle.")
def formats_mixed() -> Job:
    """P6, V4."""
    job = sharded(sharded(Job(4, ahead=3), 2).stop(0), 1)
    return job.as_json(1, 2).version("2.9", 2).version("2.4", 3)


# ---- what a log beside the dumps says

KILLED = """Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_03:14:07
  host      : node-b
  rank      : 2 (local_rank: 0)
  exitcode  : -9 (pid: 4711)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 4711
"""
ECC = (
    "[rank1]:[E1130 03:14:07.120000001 ProcessGroupNCCL.cpp:1515] [PG 0 (default_pg) Rank 1] Process group watchdog "
    "thread terminated with exception: CUDA error: uncorrectable ECC error encountered\n"
)
REMOTE = """[rank0]:[E1130 03:14:07.120000001 ProcessGroupNCCL.cpp:552] [Rank 0] Collective WorkNCCL(SeqNum=7, \
OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) raised the following async exception: NCCL error: \
remote process exited or there was a network error, NCCL version 2.27.5
ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
"""


@story(
    "rank_died",
    [2],
    "The three others wait; rank 2 left no dump, and the log says that it was killed.",
    also=["rank_without_dump"],
)
def log_says_killed() -> Job:
    """V5, V9: a log names what the dumps cannot."""
    return data_parallel(Job(4), 2).dead_process(2).all_reduce().extra_file("job.log", KILLED)


@story(
    "device_error",
    [1],
    "All joined and none finished; the log names an ECC error on the device of rank 1.",
    also=["all_joined_none_finished"],
    also_culprits=[[]],
)
def log_says_device_error() -> Job:
    """V9."""
    return data_parallel(Job(4), 2).all_reduce().never_finishes().extra_file("job.log", ECC)


@story(
    "network_error",
    [],
    "All joined and none finished; the log says that the transport failed, and rank 0 only reports it.",
    also=["all_joined_none_finished"],
)
def log_says_network_error() -> Job:
    """V9."""
    return data_parallel(Job(4), 2).all_reduce().never_finishes().extra_file("job.log", REMOTE)
