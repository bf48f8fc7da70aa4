"""Writes the fixtures of NCCL's own files: `python -m tests.jobs.nccl_fixtures [CASE ...]` (all without names)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from tests.jobs.case_file import FIXTURES, write_case
from tests.jobs.ring import Ring
from tests.jobs.story import Truth

RINGS: dict[str, tuple[str, Ring, Truth]] = {
    "nccl_ring_balanced": (
        "Eight ranks in a ring, four reductions; all GPUs and links are alike.",
        Ring(),
        Truth("balanced", (), "What they wait is even."),
    ),
    "nccl_ring_slow_gpu": (
        "Eight ranks in a ring, four reductions. The GPU of rank 3 takes twenty times as long for a step.",
        Ring(gpu_us={3: 200.0}),
        Truth(
            "culprit", (3,), "The proxy of rank 3 waits for its GPU; rank 4 for rank 3, rank 5 for rank 4 and so on."
        ),
    ),
    "nccl_ring_congested_receiver": (
        "Eight ranks in a ring, four reductions. Rank 5 posts its receive buffers slowly.",
        Ring(post_us={5: 180.0}),
        Truth("receiver_congested", (5,), "Rank 4 has data and no credit of rank 5, whose GPU takes all at once."),
    ),
    "nccl_ring_slow_link": (
        "Eight ranks in a ring, four reductions. The network from rank 1 to rank 2 is slow.",
        Ring(link_us={1: 200.0}),
        Truth("network", (1, 2), "Rank 1 has data and credit and waits for the network; nobody else is late."),
    ),
}


def main(names: Sequence[str]) -> int:
    """Write the named fixtures (all); expected outputs beside them stay. 64 where a name is unknown."""
    if unknown := set(names) - RINGS.keys():
        print(f"no such fixture: {' '.join(unknown)}; there are: {' '.join(RINGS)}", file=sys.stderr)
        return 64
    for name in names or RINGS:
        told, ring, truth = RINGS[name]
        folder = FIXTURES / name
        shutil.rmtree(folder / "evidence", ignore_errors=True)
        ring.write(folder / "evidence", packed=True)
        how = f"python -m tests.jobs.nccl_fixtures {name}"
        write_case(folder, told, "built", how, None, ring.ranks, truth, skill="nccl_culprit_victim")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
