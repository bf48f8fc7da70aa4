"""Whether a played job could have been recorded at all.

NCCL makes a communicator at the first operation of a group (of a pair, for transfers), and an entry is recorded only
after that: a first operation that somebody never comes to leaves no entry, unless groups were initialised eagerly.
"""

from __future__ import annotations

from tests.jobs.builder import Job
from tests.jobs.model import Group


def unrecordable(job: Job) -> list[str]:
    """Groups and pairs whose first operation would have left no entry, in words; [] for a plausible job."""
    if job.lib in ("gloo", "torchcomms") or job.recording.eager_init:
        return []
    came_first: dict[Group, set[int]] = {}
    posted: set[tuple[object, ...]] = set()
    for rank, issued in job.play().issued.items():
        for entered in issued:
            group = entered.op.group
            if entered.keys:
                posted.update(entered.keys)
            elif entered.collective_seq_id == 1:
                came_first.setdefault(group, set()).add(rank)
    lonely = [f"{g.desc} {list(g.ranks)}" for g, came in came_first.items() if came != set(g.ranks)]
    for kind, where, source, target, nth in posted:
        other = ("recv" if kind == "send" else "send", where, source, target, nth)
        used = isinstance(where, Group) and (where in came_first or where.already)
        if nth == 0 and other not in posted and not used:
            lonely.append(f"{kind} {source}->{target}")
    return lonely
