"""All stories: made-up jobs with known truth, and the command that writes them.

    python -m tests.jobs.stories OUT [NAME ...]     writes OUT/<name>/<dump files> and OUT/<name>/truth.json
    python -m tests.jobs.stories --list             prints names, categories and culprits

`STORIES` are jobs that are over, `LIVE_STORIES` jobs that were asked while they ran.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.jobs import (
    stories_absent,
    stories_absent_recorded,
    stories_beside,
    stories_deadlock,
    stories_device,
    stories_healthy,
    stories_late,
    stories_live,
    stories_mismatch,
    stories_p2p,
    stories_partial,
    stories_recorded_healthy,
    stories_shift,
    stories_shift_groups,
    stories_sizes,
    stories_snapshots_healthy,
    stories_transfers_healthy,
)
from tests.jobs.story import Stories, Story, live_story, story

__all__ = ["LIVE_STORIES", "MODULES", "STORIES", "Story"]

MODULES = (
    stories_healthy,
    stories_transfers_healthy,
    stories_recorded_healthy,
    stories_snapshots_healthy,
    stories_absent,
    stories_absent_recorded,
    stories_mismatch,
    stories_sizes,
    stories_shift,
    stories_shift_groups,
    stories_p2p,
    stories_deadlock,
    stories_device,
    stories_late,
    stories_partial,
    stories_beside,
    stories_live,
)
STORIES: Stories = story
LIVE_STORIES: Stories = live_story


def main(arguments: Sequence[str]) -> int:
    """Write or list stories; 64 for a command that makes no sense."""
    if list(arguments) == ["--list"]:
        for name, told in STORIES.items():
            print(name, told.truth.category, list(told.truth.culprit_ranks), *sorted(told.rules))
        return 0
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 64
    unknown = [name for name in arguments[1:] if name not in STORIES]
    if unknown:
        print(f"no such story: {' '.join(unknown)} (see --list)", file=sys.stderr)
        return 64
    for name in arguments[1:] or STORIES:
        STORIES[name].write(Path(arguments[0]) / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
