"""Who we are, from torch or from the variables of the launcher; which recorder there is, from what torch has."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from whichrank.collectors import flight_recorder_live as recorder


def binding(**functions: Any) -> ModuleType:
    """A stand-in for torch's C module."""
    module = ModuleType("torch._C._distributed_c10d")
    for name, function in functions.items():
        setattr(module, name, function)
    return module


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"TORCHELASTIC_RUN_ID": "abc", "TORCHELASTIC_RESTART_COUNT": "2"}, "abc/2"),
        ({"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "n0", "MASTER_PORT": "29500"}, "n0:29500"),
        ({"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_RESTART_COUNT": "1"}, "17/0/1"),
        ({"TORCHELASTIC_RUN_ID": "none", "SLURM_JOB_ID": "17"}, "17"),
        ({"KUBERNETES_JOB_NAME": "llm"}, "llm"),
    ],
)
def test_the_job_and_its_attempt(env: dict[str, str], expected: str) -> None:
    assert recorder.job_id(env) == expected


def test_two_attempts_are_two_jobs() -> None:
    first, second = ({"TORCHELASTIC_RUN_ID": "abc", "TORCHELASTIC_RESTART_COUNT": n} for n in "01")
    assert recorder.job_id(first) != recorder.job_id(second)


def test_rank_and_size_from_slurm_before_torch_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_distributed", lambda: None)
    who = recorder.identity({"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"})
    assert (who["rank"], who["world_size"], who["local_rank"]) == (3, 8, 1)


def test_every_recorder_is_asked_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def named(includeCollectives: bool, includeStackTraces: bool, onlyActive: bool) -> bytes:  # noqa: N803
        return f"{includeCollectives}{includeStackTraces}{onlyActive}".encode()

    module = binding(_dump_nccl_trace=named, _dump_fr_trace=named)
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", module)
    assert recorder.dumps(stacks=True) == dict.fromkeys(("_dump_nccl_trace", "_dump_fr_trace"), b"TrueTrueFalse")


def test_older_bindings_take_flags_without_names(monkeypatch: pytest.MonkeyPatch) -> None:
    module = binding(_dump_nccl_trace=lambda a, b, c, /: bytes([a, b, c]))
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", module)
    assert recorder.dumps(stacks=False, only_active=True) == {"_dump_nccl_trace": b"\1\0\1"}


def test_since_torch_215_every_backend_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def named(backend: str | None = None, **flags: bool) -> bytes:
        """_dump_fr_trace(includeCollectives, includeStackTraces, onlyActive, backend: str | None = None) -> bytes"""
        if backend == "mpi":
            raise RuntimeError("no recorder")
        return (backend or "default").encode()

    monkeypatch.setattr(recorder, "_backends", lambda: ["gloo", "mpi", "nccl2"])
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", binding(_dump_fr_trace=named))
    assert recorder.dumps(stacks=False) == {"_dump_fr_trace:gloo": b"gloo", "_dump_fr_trace:nccl2": b"nccl2"}


def test_backends_of_a_group_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    world = SimpleNamespace(pg_map={1: ("cpu:gloo,cuda:nccl2", None), 2: ("gloo", None)})
    dist = SimpleNamespace(distributed_c10d=SimpleNamespace(_world=world), is_initialized=lambda: True)
    monkeypatch.setattr(recorder, "_distributed", lambda: dist)
    assert recorder._backends() == ["gloo", "nccl2"]


def test_torch_that_is_still_being_imported_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", ModuleType("torch.distributed"))
    assert not recorder.ready()
    assert recorder.groups() == {}


def test_without_a_recorder_it_says_what_turns_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", binding())
    with pytest.raises(recorder.NoRecorder, match="TORCH_FR_BUFFER_SIZE"):
        recorder.dumps(stacks=False)


@pytest.mark.parametrize(
    ("version", "env", "off"),
    [
        ("2.13.0+cpu", {}, False),
        ("2.10.0", {}, True),
        ("2.10.0", {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}, False),
        ("2.13.0", {"TORCH_FR_BUFFER_SIZE": "0"}, True),
        ("2.5.1", {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}, False),
    ],
)
def test_when_the_recorder_is_off(
    version: str, env: dict[str, str], off: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__=version))
    assert recorder.recorder_off(env) is off


def test_what_failed_in_a_collective() -> None:
    def raised(kind: type[Exception], text: str, module: str = "train") -> str | None:
        try:
            exec("def call(): raise kind(text)\ncall()", {"kind": kind, "text": text, "__name__": module})
        except kind as error:
            return recorder.raised_in(error)
        return "nothing raised"

    assert raised(ValueError, "bad", "torch.distributed.distributed_c10d") == "collective"
    assert raised(ValueError, "bad", "torch.distributed.c10d_logger") == "collective"
    assert raised(RuntimeError, "[gloo/transport/tcp/pair.cc:553] Connection closed by peer") == "collective"
    assert raised(RuntimeError, "CUDA out of memory") is None
    assert raised(ValueError, "gloo") is None
