"""What a story is: a made-up job and the truth about it, which a careful expert would find in the dumps alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.jobs.builder import Job

CATEGORIES = (
    "rank_not_joined",
    "rank_without_dump",
    "collective_type_mismatch",
    "collective_size_mismatch",
    "collective_dtype_mismatch",
    "collective_skipped",
    "stuck_on_device",
    "p2p_unmatched",
    "group_order_deadlock",
    "late_arrival",
    "all_joined_none_finished",
    "rank_died",
    "device_error",
    "network_error",
    "insufficient_evidence",
    "no_fault",
)


@dataclass(frozen=True)
class Truth:
    """Category and culprits (global ranks), and why; `also_*` are other honest answers, each on its own."""

    category: str
    culprit_ranks: tuple[int, ...]
    why: str
    also_accept: tuple[str, ...] = ()
    also_culprits: tuple[tuple[int, ...], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The content of truth.json; the `also` keys only where there is something to say."""
        truth: dict[str, Any] = {"category": self.category, "culprit_ranks": list(self.culprit_ranks), "why": self.why}
        if self.also_accept:
            truth["also_accept"] = list(self.also_accept)
        if self.also_culprits:
            truth["also_culprits"] = [list(ranks) for ranks in self.also_culprits]
        return truth

    def accepts(self, category: str, culprits: Iterable[int]) -> bool:
        """Whether a verdict is the truth or one of the other honest answers."""
        right = (self.culprit_ranks, *self.also_culprits)
        return category in (self.category, *self.also_accept) and tuple(sorted(culprits)) in right


@dataclass(frozen=True)
class Story:
    """A named job with its truth; `rules` are the numbers of the diagnosis rules it exercises."""

    name: str
    build: Callable[[], Job]
    truth: Truth
    rules: frozenset[str]

    def write(self, folder: Path) -> Path:
        """Write the dumps and truth.json into `folder` and return it."""
        self.build().write(folder)
        (folder / "truth.json").write_text(json.dumps(self.truth.as_json(), indent=1) + "\n")
        return folder


class Stories(dict[str, Story]):
    """Name -> story; a decorator for the functions that build them."""

    def __call__(
        self,
        category: str,
        culprits: Iterable[int],
        why: str,
        *,
        also: Iterable[str] = (),
        also_culprits: Iterable[Iterable[int]] = (),
    ) -> Callable[[Callable[[], Job]], Callable[[], Job]]:
        """Keep the decorated function as a story; its docstring names the rules."""
        unknown = {category, *also} - set(CATEGORIES)
        if unknown:
            raise ValueError(f"no such category: {sorted(unknown)}")
        others = tuple(tuple(sorted(ranks)) for ranks in also_culprits)
        truth = Truth(category, tuple(sorted(culprits)), " ".join(why.split()), tuple(also), others)

        def keep(build: Callable[[], Job]) -> Callable[[], Job]:
            name = build.__name__
            if name in self:
                raise ValueError(f"two stories are called {name}")
            self[name] = Story(name, build, truth, frozenset(re.findall(r"\b[PLV]\d+\b", build.__doc__ or "")))
            return build

        return keep


story = Stories()
"""Jobs that are over: their dumps were written because something was wrong, or after the end."""

live_story = Stories()
"""Jobs that were asked while they ran: the truth holds only with the times of the dumps, `Job.dump_times()`."""
