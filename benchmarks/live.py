"""What the collector costs a training process. Needs torch; part of `make bench`.

    python -m benchmarks.live [--runs N]

idle      CPU time between snapshots, as a share of one core: a process with 2,000 entries waits, watched and not
snapshot  one answer to a request (without stacks, then with, each safe on the disk) against the bare dump with stacks
          and the writing of the same bytes, in turn
verdict   `whichrank diagnose STORE --snapshot` on a real job of four ranks that hangs, from the request to the end
step      a small all_reduce of two ranks, watched and not, in turn; `noise`: the same with two unwatched runs
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

ENTRIES = 2000
IDLE_S = 30.0
STEPS = 2000
WARM_UP_S = 6.0


def join_a_job_of_one() -> None:
    """A gloo group of this process alone, and a full ring."""
    import torch
    import torch.distributed as dist

    os.environ.update({"RANK": "0", "WORLD_SIZE": "1", "TORCH_FR_BUFFER_SIZE": str(ENTRIES)})
    dist.init_process_group("gloo", init_method=f"file://{tempfile.mkdtemp()}/rendezvous", rank=0, world_size=1)
    x = torch.ones(8)
    for _ in range(ENTRIES):
        dist.all_reduce(x)


def idle(watched: bool) -> float:
    """Share of a core that a waiting process takes; the start is not counted."""
    join_a_job_of_one()
    if watched:
        from whichrank.watching import watch

        watch(tempfile.mkdtemp())
    time.sleep(10.0)  # warm-up, first heartbeat, first look for something suspicious
    before = time.process_time()
    time.sleep(IDLE_S)
    return (time.process_time() - before) / IDLE_S


def snapshot(runs: int) -> tuple[float, float]:
    """Median seconds of an answer, and of the bare dump with stacks and one fsynced file of the same bytes."""
    from torch._C import _distributed_c10d

    from whichrank.answering import Answerer
    from whichrank.store import live

    join_a_job_of_one()
    dump: Callable[[], bytes] = getattr(_distributed_c10d, "_dump_fr_trace")  # noqa: B009 - torch has no stub for it
    store = Path(tempfile.mkdtemp())
    answerer = Answerer(store, "job")
    dump()  # the symbols are loaded once

    def answer() -> None:
        answerer.answer(live.new_request("job", "asked"))

    def bare() -> None:
        data = dump()
        with (store / "bare").open("wb") as file:
            file.write(data)
            os.fsync(file.fileno())

    pairs = [(_seconds(answer), _seconds(bare)) for _ in range(runs + 1)][1:]
    return median(a for a, _ in pairs), median(b for _, b in pairs)


def step() -> float:
    """Median seconds of an all_reduce, on rank 0 of two."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    x = torch.ones(1024)
    begun = time.monotonic()
    go_on = torch.ones(1)
    while go_on:  # the first seconds, in which symbols are loaded once, are not counted
        dist.all_reduce(x)
        go_on[0] = time.monotonic() - begun < WARM_UP_S
        dist.broadcast(go_on, 0)
    taken = []
    for _ in range(STEPS):
        started = time.perf_counter()
        dist.all_reduce(x)
        taken.append(time.perf_counter() - started)
    dist.barrier()  # gloo aborts a process whose peer is gone before it
    dist.destroy_process_group()
    return median(taken)


def verdict(runs: int) -> float:
    """Median seconds from the request to the end of the diagnosis, as a whole process."""
    from tests.live.running import start, whichrank
    from whichrank.store import live

    job = start("asleep", Path(tempfile.mkdtemp()) / "asleep")
    try:
        job.wait_for_hang({0, 1, 2, 3})
        taken = []
        for _ in range(runs + 1):
            _, said, _ = whichrank("diagnose", job.store, "--snapshot", "--json")
            taken.append((time.time_ns() - live.requests(job.store)[-1].asked_ns) / 1e9)
            assert said["culprit_ranks"] == [2], said
        return median(taken[1:])
    finally:
        job.end()


def _seconds(call: Callable[[], None]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _apart(*arguments: str) -> float:
    """One number from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.live", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def _two_ranks(watched: bool) -> float:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    module = ["-m", "whichrank.watch"] if watched else []
    command = [*torchrun, *module, "-m", "benchmarks.live", "--one", "step"]
    env = os.environ | {"WHICHRANK_STORE": tempfile.mkdtemp(), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return float(done.stdout.split()[-1])


def report(runs: int) -> Iterator[str]:
    """All four, a line each."""
    watched, bare = _apart("--one", "idle-watched"), _apart("--one", "idle")
    share = (watched - bare) * 100
    yield f"idle      {share:.4f} % of a core (at most 0.1): {watched:.5f} against {bare:.5f}"
    ours, dump = snapshot(max(runs, 10))
    yield f"snapshot  {ours / dump:.2f} (at most 2.5): {ours * 1e3:.1f} ms against {dump * 1e3:.1f} ms"
    yield f"verdict   {verdict(runs):.2f} s after the request (at most 5)"
    rows = [(_two_ranks(False), _two_ranks(True), _two_ranks(False)) for _ in range(runs)]
    ratio = median(w / ((a + b) / 2) for a, w, b in rows)
    noise = max(max(a / b, b / a) for a, _, b in rows)
    yield f"step      {ratio:.3f} (noise up to {noise:.3f}): " + ", ".join(f"{w * 1e6:.0f} us" for _, w, _ in rows)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="What the collector costs a training process.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--one", choices=["idle", "idle-watched", "step"])
    given = parser.parse_args()
    if given.one == "step":
        taken = step()
        if os.environ["RANK"] == "0":
            print(taken)
    elif given.one:
        print(idle(given.one == "idle-watched"))
    else:
        for line in report(given.runs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
