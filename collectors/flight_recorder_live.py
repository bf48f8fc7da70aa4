"""The Flight Recorder of this process, and what its dump does not say: who we are, and who belongs to which group.

Runs inside training processes: nothing is imported but the standard library, and torch only if the job has done so.
The recorder's bytes are handed over as they are; `flight_recorder_answer` turns them into rows, elsewhere.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any

BUFFER_SIZE = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")  # the second before torch 2.8
TURN_ON = "set TORCH_FR_BUFFER_SIZE=2000 (before torch 2.8: TORCH_NCCL_TRACE_BUFFER_SIZE=2000), a count of entries"
_JOBS = (  # variables that name a job, and those that count its restarts
    ("TORCHELASTIC_RUN_ID", ("TORCHELASTIC_RESTART_COUNT",)),
    ("SLURM_JOB_ID", ("SLURM_STEP_ID", "SLURM_RESTART_COUNT")),
    ("JOB_ID", ("JOB_RESTART_COUNT",)),
    ("KUBERNETES_JOB_NAME", ("JOB_RESTART_COUNT",)),
)


_IN_COLLECTIVE = {"torch.distributed.distributed_c10d", "torch.distributed.c10d_logger"}
_COMMUNICATION = re.compile(r"gloo|NCCL|Connection (closed|reset) by peer")


class NoRecorder(Exception):
    """This torch has no Flight Recorder, or torch is not there."""


def job_id(env: Mapping[str, str] = os.environ) -> str:
    """Job and attempt, from torchelastic, SLURM or Kubernetes; else from the address of the rendezvous."""
    where = ":".join(filter(None, (env.get("MASTER_ADDR"), env.get("MASTER_PORT"))))
    parts: list[str] = []
    for name, counters in _JOBS:
        if env.get(name) and env[name] != "none":  # torchrun's run id without a rendezvous
            parts += [env[name], *(env[c] for c in counters if env.get(c))]
            break
    if not parts:
        parts = [where or f"{socket.gethostname()}:{os.getpid()}", env.get("TORCHELASTIC_RESTART_COUNT", "")]
    return "/".join(filter(None, parts))


def identity(env: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """rank, world_size, local_rank, host, pid, job_id, versions, backend, recorder_entries; None is unknown."""
    dist = _distributed()
    ready = _ready(dist)
    rank = dist.get_rank() if ready else _number(env, "RANK", "SLURM_PROCID")
    size = dist.get_world_size() if ready else _number(env, "WORLD_SIZE", "SLURM_NTASKS")
    return {
        "rank": rank,
        "world_size": size,
        "local_rank": _number(env, "LOCAL_RANK", "SLURM_LOCALID"),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "job_id": job_id(env),
        "torch_version": str(getattr(sys.modules.get("torch"), "__version__", "")) or None,
        "nccl_version": _nccl_version(),
        "backend": str(dist.get_backend()) if ready else None,
        "recorder_entries": _number(env, *BUFFER_SIZE),
    }


def groups() -> dict[str, dict[str, Any]]:
    """Groups of this process as torch knows them: name -> {name, desc, ranks (global, in group order)}."""
    dist = _distributed()
    if not _ready(dist):
        return {}
    world = dist.distributed_c10d._world
    found = {}
    for group, ranks in dict(world.pg_group_ranks).items():
        name = str(world.pg_names.get(group) or getattr(group, "group_name", ""))
        desc = str(getattr(group, "group_desc", "") or "")
        found[name] = {"name": name, "desc": desc, "ranks": [r for r, _ in sorted(ranks.items(), key=lambda kv: kv[1])]}
    return found


def dumps(*, stacks: bool, only_active: bool = False) -> dict[str, bytes]:
    """Dumps of every recorder of this process that holds entries: source -> pickle. Raises NoRecorder.

    NCCL's own recorder and the general one may be the same object or two; with torch >= 2.15 each backend has one.
    """
    module = sys.modules.get("torch._C._distributed_c10d")
    if module is None:
        raise NoRecorder("torch.distributed is not imported in this process")
    found: dict[str, bytes] = {}
    for name in ("_dump_nccl_trace", "_dump_fr_trace", "_dump_xccl_trace"):
        function = getattr(module, name, None)
        if function is not None:
            found |= _ask(name, function, stacks, only_active)
    if not found:
        raise NoRecorder(f"this torch has no Flight Recorder (needs 2.5 or newer); then {TURN_ON}")
    return found


def answer(*, stacks: bool) -> tuple[dict[str, Any], bytes]:
    """Who we are with what `flight_recorder_answer` wants in a head, and the recorders one behind the other.

    Never raises: an answer without entries still says that this process is alive. A process without a rank is not asked
    for its recorder.
    """
    head: dict[str, Any] = {**identity(), "snapshot_ns": time.time_ns(), "groups": {}, "parts": [], "notes": []}
    rank, parts = head["rank"], []
    if rank is None:
        return head, b""
    try:
        parts = list(dumps(stacks=stacks).values())
        head["groups"] = groups()
    except NoRecorder as error:
        head["notes"].append({"kind": "no_recorder", "message": f"rank {rank}: {error}"})
    except Exception as error:
        message = f"rank {rank}: {type(error).__name__}: {error}"
        head["notes"].append({"kind": "recorder_failed", "message": message})
    if recorder_off():
        message = f"rank {rank}: the Flight Recorder is off: {TURN_ON}"
        head["notes"].append({"kind": "recorder_off", "message": message})
    head["parts"] = [len(part) for part in parts]
    return head, b"".join(parts)


def answer_text(*, stacks: bool) -> str:
    """The same in one line of JSON, the recorders in base64 under `body`, for those who can only carry text."""
    head, body = answer(stacks=stacks)
    return json.dumps(head | {"body": base64.b64encode(body).decode()})


def ready() -> bool:
    """Whether torch.distributed has been initialised in this process."""
    return _ready(_distributed())


def warm_up() -> None:
    """Make torch load what it needs to name stacks: the first time costs a second of CPU, without the GIL."""
    profiler = sys.modules.get("torch._C._profiler")
    gather, symbolize = getattr(profiler, "gather_traceback", None), getattr(profiler, "symbolize_tracebacks", None)
    if gather and symbolize:
        symbolize([gather(True, False, False)])


def raised_in(error: BaseException) -> str | None:
    """`collective` where a call of torch.distributed raised it: then the newest operation is the one that failed."""
    if isinstance(error, RuntimeError) and _COMMUNICATION.search(str(error)):
        return "collective"  # from Work.wait() or a backward pass, which leave no frame of torch.distributed
    return _in_collective(frame for frame, _ in traceback.walk_tb(error.__traceback__))


def main_thread_in() -> str | None:
    """`collective` where the main thread is in a call of torch.distributed, or on its way out of a failed one."""
    return _in_collective(
        f for f, _ in traceback.walk_stack(sys._current_frames().get(threading.main_thread().ident or 0))
    )


def _in_collective(frames: Iterable[FrameType]) -> str | None:
    names = {frame.f_globals.get("__name__") for frame in frames}
    return "collective" if not names.isdisjoint(_IN_COLLECTIVE) else None


def recorder_off(env: Mapping[str, str] = os.environ) -> bool:
    """Whether a variable, or the default before torch 2.11, keeps the recorder off."""
    said = next((env[name] for name in BUFFER_SIZE if name in env), None)
    if said is not None:
        return said.strip() == "0"
    version = str(getattr(sys.modules.get("torch"), "__version__", ""))
    parts = [int(p) for p in version.split("+")[0].split(".")[:2] if p.isdigit()]
    return len(parts) == 2 and tuple(parts) < (2, 11)


def _ask(name: str, function: Callable[..., bytes], stacks: bool, only_active: bool) -> dict[str, bytes]:
    flags = {"includeCollectives": True, "includeStackTraces": stacks, "onlyActive": only_active}
    backends = _backends() if "backend" in (getattr(function, "__doc__", "") or "") else []
    if not backends:
        return {name: _call(function, flags)}
    found = {}
    for backend in backends:  # one recorder each, since torch 2.15
        try:
            found[f"{name}:{backend}"] = function(**flags, backend=backend)
        except (RuntimeError, TypeError, ValueError):
            continue  # a backend without a recorder
    return found or {name: _call(function, flags)}


def _call(function: Callable[..., bytes], flags: dict[str, bool]) -> bytes:
    try:
        return function(**flags)
    except TypeError:
        return function(*flags.values())  # older bindings have no names


def _backends() -> list[str]:
    dist = _distributed()
    if not _ready(dist):
        return []
    world = dist.distributed_c10d._world
    named = {str(value[0]) for value in dict(world.pg_map).values() if value}
    return sorted({part.rpartition(":")[2] for name in named for part in name.split(",")})


def _distributed() -> Any:
    return sys.modules.get("torch.distributed")


def _ready(dist: Any) -> bool:
    started = getattr(dist, "is_initialized", None)  # absent while another thread still imports torch
    return bool(started and getattr(dist, "distributed_c10d", None) and started())


def _nccl_version() -> str | None:
    cuda = sys.modules.get("torch.cuda.nccl")
    if cuda is None:
        return None
    try:
        return ".".join(str(part) for part in cuda.version())
    except Exception:  # whatever a build without NCCL raises
        return None


def _number(env: Mapping[str, str], *names: str) -> int | None:
    return next((int(env[name]) for name in names if env.get(name, "").isdigit()), None)
