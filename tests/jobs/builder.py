"""Made-up training jobs that read like the story they tell.

    Job(4).group("dp", [0, 2]).all_reduce().all_reduce("dp").stop(2).all_reduce().write(folder)

The methods come in four layers: groups and changes to the last call (plan.py), collectives (collectives.py), sends and
receives (transfers.py), faults and ways of recording (recording.py). `playing.py` decides what finishes, and
`dump_format.py` writes what each rank's recorder would have shown, so that a dump holds only what a real job could
have left behind.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.jobs.dump_format import Dumper, dump_times, files, write
from tests.jobs.model import Part, recv_from, send_to
from tests.jobs.playing import Played, Playing
from tests.jobs.recording import Recorded

__all__ = ["Job", "Part", "recv_from", "send_to"]


class Job(Recorded):
    """A job of `ranks` processes: `lib` is "nccl", "gloo", "nccl2", "torchcomms" or "xccl", `version` the dump format.

    `ahead` is how many unfinished operations a host may have: 1 waits for each, as gloo does.
    """

    def play(self) -> Played:
        """What happens; the plan itself does not change, so it can be played again."""
        return Playing(self).play()

    def payloads(self) -> dict[int, Any]:
        """Global rank -> its dump as plain data, for the ranks that left one (truncated files count as whole)."""
        played = self.play()
        times = dump_times(self, played)
        left = [rank for rank in self.world if rank not in self.recording.no_file]
        return {rank: Dumper(self, played, rank, times[rank]).payload() for rank in left}

    def dump_times(self) -> dict[int, int]:
        """Global rank -> when its dump was taken, ns since the epoch, on its host's own clock."""
        times = dump_times(self, self.play())
        return {rank: t + self.recording.clock_ns.get(rank, 0) for rank, t in times.items()}

    def files(self) -> dict[str, bytes]:
        """File name -> content of what the job leaves in its dump folder."""
        return files(self, self.play())

    def write(self, folder: Path) -> Path:
        """Write the dump folder and return it."""
        return write(self, self.play(), folder)
