"""Collective calls of a made-up job, recorded as the library in use records them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self, TypedDict, Unpack

from tests.jobs.model import Group, Op, Part, Sizes, Step
from tests.jobs.plan import Plan, stack_of

TRAINING_STEP = "train.py:40 in training_step"
SizesOf = Callable[[int], tuple[Sizes, Sizes]]
"""Sizes in and out of an operation in a group of that many members."""


class More(TypedDict, total=False):
    """What every collective call may say besides its sizes."""

    dtype: str
    at: str | Sequence[str]  # call site, or several from the innermost outwards
    of: int  # only the group of this rank, where several have the same desc


class Collectives(Plan):
    """A method adds one call on all members of `group`: a Group, or all groups with that desc (`of`: one rank's)."""

    def call(
        self,
        name: str,
        group: str | Group = "default_pg",
        ins: Sizes | None = None,
        outs: Sizes | None = None,
        *,
        root: int | None = None,
        ins_of: Mapping[int, Sizes] | None = None,
        outs_of: Mapping[int, Sizes] | None = None,
        parts: Sequence[Part] = (),
        **more: Unpack[More],
    ) -> Self:
        """Add operation `name` as recorded (without the library); `ins_of`/`outs_of` give sizes per global rank."""
        steps: list[Step] = [{}]
        stack = stack_of(name, more.get("at", TRAINING_STEP))
        for found in self.groups_called(group, more.get("of")):
            if any(rank in steps[-1] for rank in found.ranks):
                steps.append({})
            for rank in found.ranks:
                mine = (ins_of or {}).get(rank, [[1024]] if ins is None else ins)
                back = (outs_of or {}).get(rank, mine if outs is None else outs)
                dtype = more.get("dtype", "BFloat16")
                steps[-1][rank] = Op(found, name, mine, back, dtype, stack, root, parts=tuple(parts))
        return self.add(steps)

    def _sized(self, name: str, group: str | Group, sizes: SizesOf, more: More) -> Self:
        """Add `name` where the sizes depend on how many members a group has."""
        ins_of: dict[int, Sizes] = {}
        outs_of: dict[int, Sizes] = {}
        for found in self.groups_called(group, more.get("of")):
            for rank in found.ranks:
                ins_of[rank], outs_of[rank] = sizes(len(found.ranks))
        return self.call(name, group, ins_of=ins_of, outs_of=outs_of, **more)

    def all_reduce(
        self, group: str | Group = "default_pg", shape: Sequence[int] = (1024,), **more: Unpack[More]
    ) -> Self:
        """All-reduce of one tensor in place."""
        return self.call("all_reduce", group, [list(shape)], **more)

    def all_gather(self, group: str | Group = "default_pg", n: int = 256, **more: Unpack[More]) -> Self:
        """all_gather_into_tensor: every member brings `n` elements. gloo records it like the list form."""
        if self.lib == "gloo":
            return self.all_gather_list(group, n, **more)
        name = "all_gather_single" if self.lib == "torchcomms" else "_all_gather_base"
        return self._sized(name, group, lambda size: ([[n]], [[n * size]]), more)

    def all_gather_list(self, group: str | Group = "default_pg", n: int = 256, **more: Unpack[More]) -> Self:
        """all_gather into a list of equal tensors, which is recorded flattened."""
        return self._sized("all_gather", group, lambda size: ([[n]], [[size, n]]), more)

    def reduce_scatter(self, group: str | Group = "default_pg", n: int = 256, **more: Unpack[More]) -> Self:
        """reduce_scatter_tensor: every member keeps `n` elements. gloo records it as an all_reduce."""
        if self.lib == "gloo":
            return self._sized("all_reduce", group, lambda size: ([[n * size]], [[n * size]]), more)
        name = "reduce_scatter_single" if self.lib == "torchcomms" else "_reduce_scatter_base"
        return self._sized(name, group, lambda size: ([[n * size]], [[n]]), more)

    def broadcast(
        self,
        group: str | Group = "default_pg",
        shape: Sequence[int] = (64,),
        *,
        root: int | None = 0,
        **more: Unpack[More],
    ) -> Self:
        """Broadcast from global rank `root`; None: nobody finishes before all have come."""
        return self.call("broadcast", group, [list(shape)], root=root, **more)

    def reduce(
        self,
        group: str | Group = "default_pg",
        shape: Sequence[int] = (64,),
        *,
        root: int | None = 0,
        **more: Unpack[More],
    ) -> Self:
        """Reduce to global rank `root`; None: nobody finishes before all have come."""
        return self.call("reduce", group, [list(shape)], root=root, **more)

    def gather(self, group: str | Group = "default_pg", n: int = 64, *, root: int = 0, **more: Unpack[More]) -> Self:
        """Gather `n` elements of every member on `root` (only in its group); the others record no real output."""
        more["of"] = root
        outs_of = {root: self._list_of_root(group, n, root)}
        return self.call("gather", group, [[n]], self._nothing(), root=root, outs_of=outs_of, **more)

    def scatter(self, group: str | Group = "default_pg", n: int = 64, *, root: int = 0, **more: Unpack[More]) -> Self:
        """Scatter `n` elements to every member from `root` (only in its group); the others record no real input."""
        more["of"] = root
        ins_of = {root: self._list_of_root(group, n, root)}
        return self.call("scatter", group, self._nothing(), [[n]], root=root, ins_of=ins_of, **more)

    def _list_of_root(self, group: str | Group, n: int, root: int) -> Sizes:
        size = len(self.groups_called(group, root)[0].ranks)
        return [[size, n]] if self.lib == "gloo" else [[n] for _ in range(size)]

    def _nothing(self) -> Sizes:
        """What is recorded for the list that only the root has: gloo nothing, NCCL one undefined tensor."""
        return [] if self.lib == "gloo" else [[]]

    def all_to_all(
        self,
        group: str | Group = "default_pg",
        sends: Mapping[int, int] | int = 1024,
        receives: Mapping[int, int] | int = 1024,
        **more: Unpack[More],
    ) -> Self:
        """all_to_all_single; `sends` and `receives` are elements per global rank, or one number for all."""
        ranks = [rank for found in self.groups_called(group, more.get("of")) for rank in found.ranks]
        ins_of = {r: [[sends if isinstance(sends, int) else sends[r]]] for r in ranks}
        outs_of = {r: [[receives if isinstance(receives, int) else receives[r]]] for r in ranks}
        name = "all_to_all_v_single" if self.lib == "torchcomms" else "all_to_all"
        return self.call(name, group, ins_of=ins_of, outs_of=outs_of, **more)

    def barrier(self, group: str | Group = "default_pg", **more: Unpack[More]) -> Self:
        """Barrier: NCCL reduces one float, gloo records no tensors at all."""
        more.setdefault("at", "train.py:61 in checkpoint")
        if self.lib in ("gloo", "torchcomms"):
            return self.call("barrier", group, [], [], **more)
        more["dtype"] = "Float"
        return self.call("all_reduce_barrier", group, [[1]], **more)

    def coalesced(
        self,
        parts: Sequence[Part],
        group: str | Group = "default_pg",
        closer: str = "coalesced",
        **more: Unpack[More],
    ) -> Self:
        """A coalesced call: its parts, and a closing entry without sizes that carries the true state."""
        return self.call(closer, group, [], [], parts=parts, **more)

    def all_gather_uneven(self, sizes: Sequence[int], group: str | Group = "default_pg", **more: Unpack[More]) -> Self:
        """all_gather of unequal tensors: one _broadcast_oop per member, closed by ALLGATHER_coalesced."""
        parts = [Part("_broadcast_oop", [[n]], [[n]]) for n in sizes]
        return self.coalesced(parts, group, "ALLGATHER_coalesced", **more)

    def reduce_scatter_uneven(
        self, sizes: Sequence[int], group: str | Group = "default_pg", **more: Unpack[More]
    ) -> Self:
        """reduce_scatter into unequal tensors: one _reduce_oop per member, closed by REDUCE_SCATTER_coalesced."""
        parts = [Part("_reduce_oop", [[n]], [[n]]) for n in sizes]
        return self.coalesced(parts, group, "REDUCE_SCATTER_coalesced", **more)
