"""Dumps that PyTorch wrote: of two public jobs on GPUs, and of a process of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.collectors.dumps import kinds, notes, rows
from whichrank.batch import Batch
from whichrank.collectors.flight_recorder_dump import read, recognise

SHARED = Path(__file__).parents[3] / "shared/data/nvrx/fr_traces"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the public dumps are not beside the repository")


@needs_shared
@pytest.mark.parametrize(
    ("job", "entries"),
    [
        ("gpu_error_1st", [20, 20, 20, 20, 8, 8, 8, 8, 19, 19, 19, 19, 27, 16, 43, 15]),
        ("lock_gil_1st", [11, 11, 11, 11, 11, 11, 11, 11, 9, 0, 9, 9, 9, 9, 0, 9]),  # 9 and 14 hold it up
    ],
)
def test_two_public_jobs(job: str, entries: list[int]) -> None:
    batches = list(read([SHARED / job]))
    assert [batch.rank for batch in batches] == [*range(16), None]
    assert kinds(batches[:-1]) == []
    assert [note["source"].rpartition("/")[2] for note in notes(batches)] == ["fault_injection.log"]
    dumps = [row for batch in batches for row in rows(batch, "torch_nccl_dump")]
    assert {(row["fr_version"], row["comm_lib_version"]) for row in dumps} == {("2.9", "2.27.3")}
    assert [row["entries"] for row in dumps] == entries
    records = [row for batch in batches for row in rows(batch, "torch_nccl_flight_record")]
    assert len(records) == sum(entries)
    assert {row["stack_id"] for row in records} == {None}
    assert all(row["pg_name"] and row["signature_id"] and row["collective_seq_id"] is not None for row in records)
    groups = [row for batch in batches for row in rows(batch, "torch_nccl_pg_status")]
    assert {row["ranks_recorded"] for row in groups if row["ranks_id"]} == {True}


JOB = """
import sys, torch, torch.distributed as dist
import torch._C._distributed_c10d as c10d
dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + "/store", rank=0, world_size=1)
t = torch.ones(4, 2)
for _ in range(2):
    dist.all_reduce(t)
if sys.argv[2] == "group":
    dist.all_reduce(t, group=dist.new_group([0], group_desc="mine"))
dist.barrier()
for name, dump in (("rank_0", c10d._dump_fr_trace), ("rank_1.json", c10d._dump_fr_trace_json)):
    text = dump()
    open(sys.argv[1] + "/" + name, "wb").write(text if isinstance(text, bytes) else text.encode())
"""


@pytest.fixture(scope="module", params=["alone", "group"])
def gloo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Batch]]:
    """A one-process job dumps as pickle (rank 0) and as JSON (rank 1)."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("gloo")
    script = folder / "job.py"
    script.write_text(JOB)
    env = os.environ | {"TORCH_FR_BUFFER_SIZE": "100"}
    subprocess.run([sys.executable, script, folder, request.param], env=env, check=True, capture_output=True)
    assert recognise(folder / "rank_0")
    assert recognise(folder / "rank_1.json")
    return request.param, list(read([folder / "rank_0", folder / "rank_1.json"]))


def test_gloo_writes_what_we_read(gloo: tuple[str, list[Batch]]) -> None:
    what, (pickled, as_json) = gloo
    assert kinds([pickled, as_json]) == []
    names = {row["signature_id"]: row for row in rows(pickled, "torch_nccl_signature")}
    records = rows(pickled, "torch_nccl_flight_record")
    expected = ["gloo:all_reduce"] * (3 if what == "group" else 2) + ["gloo:barrier"]
    assert [names[row["signature_id"]]["profiling_name"] for row in records] == expected
    assert names[records[0]["signature_id"]]["input_sizes"] == [[4, 2]]
    assert {row["state"] for row in records} == {"scheduled"}
    assert [row["user_frame"] for row in rows(pickled, "torch_nccl_stack")] == [
        row["user_frame"] for row in rows(pickled, "torch_nccl_stack") if row["user_frame"].startswith("job.py:")
    ]
    differing = ("rank", "stack_id", "retired")  # gloo may retire the last call between the two dumps
    without = [[{k: v for k, v in row.items() if k not in differing} for row in rows(b, "torch_nccl_flight_record")]
               for b in (pickled, as_json)]  # fmt: skip
    assert without[0] == without[1]


def test_gloo_names_the_default_group_only_while_it_is_alone(gloo: tuple[str, list[Batch]]) -> None:
    what, batches = gloo
    for batch in batches:
        found = [(row["pg_id"], row["pg_desc"]) for row in rows(batch, "torch_nccl_pg_status")]
        ranks = [row["ranks"] for row in rows(batch, "torch_nccl_ranks")]
        if what == "group":
            assert (found, ranks) == ([(0, "default_pg"), (1, "mine")], [])
        else:
            assert (found, ranks) == ([(0, "default_pg"), (None, None)], [[0]])
