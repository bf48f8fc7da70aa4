"""Ids are content: equal in every process, and different where the content is."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.collectors.dumps import convert, entry, frame, payload, records, rows
from whichrank.collectors.flight_recorder_lookups import is_user_frame, ranks_of, signature_of, stack_of

FRAMES = (("wait", "/v/site-packages/torch/distributed/c10d.py", 7), ("step", "/job/train.py", 88))
CALL = ("nccl:all_reduce", [[4, 2]], ["Float"], [[4, 2]], ["Float"])


def ids() -> list[int]:
    return [stack_of(FRAMES).stack_id, signature_of(CALL).signature_id, ranks_of("[0, 1]").ranks_id]


def test_ids_are_the_same_for_ever() -> None:
    """A store may hold shards of several releases: a changed id would split what is one stack."""
    assert ids() == [-5187428606942473526, 8374608686442920796, -2264575105203018354]
    assert stack_of(FRAMES).call_site_id == 6930020442985142133


def test_ids_are_the_same_in_another_process() -> None:
    program = "from tests.collectors.test_lookups import ids; print(ids())"
    env = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run([sys.executable, "-c", program], env=env, text=True, capture_output=True, check=True).stdout
    assert out.strip() == str(ids())


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((0, name) for name in ("nccl:reduce", None)),
        *((1, sizes) for sizes in ([[2, 4]], [[4], [2]], [[4, 2], []], None, [])),
        (2, ["Half"]),
        (3, [[8]]),
        (4, None),
        (4, []),
    ],
)
def test_another_signature_has_another_id(place: int, value: object) -> None:
    other = (*CALL[:place], value, *CALL[place + 1 :])
    assert signature_of(other).signature_id != signature_of(CALL).signature_id


def test_sharing_does_not_matter() -> None:
    """torch's pickle shares its frame dicts and texts, JSON does not: the rows are the same."""
    shared = [frame("inner"), frame("outer")]
    sizes = [[4, 2]]
    together = [entry(frames=list(shared), input_sizes=sizes, output_sizes=sizes, record_id=i) for i in range(4)]
    apart = [entry(frames=[frame("inner"), frame("outer")], record_id=i) for i in range(4)]
    assert records(payload(together)) == records(payload(apart))
    assert len(rows(convert(payload(apart)), "torch_nccl_stack")) == 1


def test_stacks_that_alternate_are_told_apart() -> None:
    calls = [
        entry(frames=[frame(line=line)], input_sizes=[[size]]) for line, size in [(1, 1), (2, 1), (1, 2), (2, 2)] * 3
    ]
    found = [(row["frames"][0]["line"], row["input_sizes"]) for row in records(payload(calls))]
    assert found == [(1, [[1]]), (2, [[1]]), (1, [[2]]), (2, [[2]])] * 3


def test_true_is_not_one() -> None:
    calls = [entry(input_sizes=[[1]]), entry(input_sizes=[[True]])]
    first, second = records(payload(calls))
    assert first["input_sizes"] == [[1]]
    assert second["input_sizes"] in ([[1]], None)


TORCH = "/v/lib/python3.11/site-packages/torch"


@pytest.mark.parametrize(
    ("name", "filename", "user"),
    [
        ("step", "/job/train.py", True),
        ("step", "train.py", True),
        ("<module>", "<stdin>", True),
        ("f", "<ipython-input-3-abc>", True),
        ("f", "/tmp/ipykernel_7/12.py", True),
        ("forward", "/v/lib/python3.11/site-packages/megatron/core/layers.py", True),
        ("forward", "/v/lib/python3.11/site-packages/torchvision/models/resnet.py", True),
        ("forward", "/home/me/torch/train.py", True),  # a project that is called like this
        ("forward", "C:\\job\\train.py", True),
        ("forward", "/usr/lib/python3/dist-packages/deepspeed/engine.py", True),
        ("all_reduce", f"{TORCH}/distributed/distributed_c10d.py", False),
        ("_call_impl", f"{TORCH}/nn/modules/module.py", False),
        ("f", f"{TORCH}/_tensor.py", False),
        ("f", "/usr/lib/python3/dist-packages/torch/distributed/c10d_logger.py", False),
        ("f", "/opt/pytorch/torch/distributed/distributed_c10d.py", False),  # built from source
        ("f", "/opt/pytorch/torch/_dynamo/eval_frame.py", False),
        ("f", "/v/site-packages/torch_npu/distributed/x.py", False),
        ("f", "C:\\v\\Lib\\site-packages\\torch\\nn\\modules\\module.py", False),
        ("inner", "/usr/lib/python3.11/contextlib.py", False),
        ("run", "/usr/lib/python3.11/threading.py", False),
        ("_run_code", "<frozen runpy>", False),
        ("forward", "<eval_with_key>.3", False),
        ("<module>", "<string>", False),
        ("c10d::ProcessGroupNCCL::allreduce", "??", False),
        ("c10d::ProcessGroup::x(at::Tensor&)", "/pytorch/torch/csrc/distributed/c10d/ProcessGroup.cpp", False),
        ("_PyEval_EvalFrameDefault", "/usr/src/Python/ceval.c", False),
        ("call", "/lib/x86_64-linux-gnu/libc.so.6", False),
        ("call", "", False),
    ],
)
def test_user_frames(name: str, filename: str, user: bool) -> None:
    assert is_user_frame(name, filename) is user


def stack(*frames: dict[str, Any]) -> dict[str, Any]:
    (row,) = rows(convert(payload([entry(frames=list(frames))])), "torch_nccl_stack")
    return row


def test_the_call_site_is_the_whole_user_part_of_the_stack() -> None:
    wrapper = frame("all_reduce", f"{TORCH}/distributed/distributed_c10d.py", 1)
    newer = frame("all_reduce", f"{TORCH}/distributed/distributed_c10d.py", 2)
    here, there = stack(wrapper, frame("f"), frame("main", line=1)), stack(wrapper, frame("f"), frame("main", line=2))
    assert here["call_site_id"] != there["call_site_id"]
    assert here["call_site_id"] == stack(newer, frame("f"), frame("main", line=1))["call_site_id"]
    assert here["user_frame"] == "train.py:88 in f"


def test_a_stack_without_user_frames_has_no_call_site() -> None:
    row = stack(frame("all_reduce", f"{TORCH}/distributed/distributed_c10d.py", 1))
    assert (row["user_frame"], row["call_site_id"]) == (None, None)
    assert row["top_frame"] == f"all_reduce ({TORCH}/distributed/distributed_c10d.py:1)"


def test_no_frames_are_no_stack() -> None:
    assert records(payload([entry(frames=[])]))[0]["stack_id"] is None
