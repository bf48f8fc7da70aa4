"""The groups and the program of a made-up job, and changes to the call that was added last."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Self

from tests.jobs.model import Frame, Group, Mark, Move, Op, Part, Sizes, Step, frame

TORCH = "/opt/venv/lib/python3.11/site-packages/torch/distributed/"
PYTHON_LINES = {
    "all_reduce": 3245,
    "broadcast": 3145,
    "reduce": 3392,
    "all_gather": 4280,
    "gather": 4660,
    "scatter": 4778,
}
ALIASES = {
    "all_reduce_barrier": ("barrier", 5349),
    "barrier": ("barrier", 5349),
    "_all_gather_base": ("all_gather_into_tensor", 4413),
    "_reduce_scatter_base": ("reduce_scatter_tensor", 4962),
    "all_to_all": ("all_to_all_single", 5131),
    "coalesced": ("batch_isend_irecv", 2978),
    "ALLGATHER_coalesced": ("all_gather", 4280),
    "REDUCE_SCATTER_coalesced": ("reduce_scatter", 4850),
    "send": ("isend", 2677),
    "recv": ("irecv", 2714),
}
MAIN = ("train.py:210 in main", "train.py:233 in <module>")


def stack_of(op_name: str, at: str | Sequence[str]) -> tuple[Frame, ...]:
    """The stack of a call from `at` (one call site, or several from the innermost outwards), innermost frame first."""
    first = op_name.split()[0]
    function, line = ALIASES.get(first, (first, PYTHON_LINES.get(first, 3000)))
    torch = (Frame(function, TORCH + "distributed_c10d.py", line), Frame("wrapper", TORCH + "c10d_logger.py", 83))
    sites = (at,) if isinstance(at, str) else tuple(at)
    return torch + tuple(frame(text) for text in (*sites, *MAIN))


def sites_of(op: Op) -> list[str]:
    """The call sites that an operation's stack was made from."""
    user = op.stack[2 : len(op.stack) - len(MAIN)]
    return [f"{f.filename}:{f.line} in {f.name}" for f in user]


def _first(*choices: Sizes | None) -> Sizes:
    """The first choice that was made; a list without tensors is one."""
    return next(choice for choice in choices if choice is not None)


def _resized(old: Op, sizes: Sizes) -> tuple[Move, ...]:
    """The moves of a single transfer with other sizes; those of a batch are as they were."""
    if len(old.moves) != 1 or old.parts:
        return old.moves
    return (replace(old.moves[0], sizes=tuple(tuple(shape) for shape in sizes)),)


class Plan:
    """Groups and steps of a job of `ranks` processes. Every method returns the job, so that calls can be chained."""

    def __init__(self, ranks: int, *, lib: str = "nccl", ahead: int = 1) -> None:
        self.world = list(range(ranks))
        self.lib = lib
        self.may_run_ahead = dict.fromkeys(self.world, ahead)
        self.groups = [Group("0", "default_pg", tuple(self.world))]
        self.calls: list[list[Step]] = []

    # ---- groups

    def group(self, desc: str, ranks: Iterable[int], *, name: str | None = None, stream: str = "") -> Self:
        """Create a group. Its name is the job-wide counter that PyTorch gives, unless `name` is said."""
        self.groups.append(Group(str(len(self.groups)) if name is None else name, desc, tuple(ranks), stream=stream))
        return self

    def grid(self, **axes: int) -> Self:
        """Create the groups of a grid: `grid(tp=2, dp=2)` makes tp groups, then dp groups; the first varies fastest."""
        names, sizes = list(axes), list(axes.values())
        coordinates = [tuple(reversed(c)) for c in itertools.product(*(range(n) for n in reversed(sizes)))]
        if len(coordinates) != len(self.world):
            raise ValueError(f"a grid of {sizes} does not fill {len(self.world)} ranks")
        for axis, name in enumerate(names):
            lines: dict[tuple[int, ...], list[int]] = {}
            for rank, place in enumerate(coordinates):
                lines.setdefault(place[:axis] + place[axis + 1 :], []).append(rank)
            for ranks in lines.values():
                self.group(name, ranks)
        return self

    def groups_called(self, group: str | Group, of: int | None = None) -> list[Group]:
        """The group itself, or all groups with this desc (only the one that rank `of` belongs to)."""
        if isinstance(group, Group):
            return [group]
        found = [g for g in self.groups if g.desc == group and (of is None or of in g.ranks)]
        if not found:
            raise ValueError(f"no group is called {group!r}")
        return found

    def already(self, count: int, group: str = "default_pg", p2p: dict[int, int] | None = None) -> Self:
        """`count` collectives (and `p2p[rank]` transfers) of these groups had finished before the recorder's window."""
        for found in self.groups_called(group):
            found.already = count
            found.p2p_already = dict(p2p or {})
        return self

    # ---- the program

    def add(self, steps: Iterable[Step]) -> Self:
        """Append one call, which may be several steps where a rank takes part more than once."""
        self.calls.append([step for step in steps if step])
        return self

    def program(self, rank: int) -> list[Op | Mark]:
        """What one rank would do if nothing held it up."""
        return [step[rank] for call in self.calls for step in call if rank in step]

    def mark(self, mark: Mark, ranks: Iterable[int]) -> Self:
        """Put a mark into the program of these ranks."""
        return self.add([dict.fromkeys(ranks, mark)])

    # ---- changes to the last call

    def skip(self, *ranks: int) -> Self:
        """These ranks do not take part in the last call."""
        for step in self.calls[-1]:
            for rank in ranks:
                step.pop(rank, None)
        return self

    def only(self, *ranks: int) -> Self:
        """Nobody but these ranks takes part in the last call."""
        return self.skip(*(r for r in self.world if r not in ranks))

    def but(
        self,
        *ranks: int,
        op: str | None = None,
        shape: Sequence[int] | None = None,
        ins: Sizes | None = None,
        outs: Sizes | None = None,
        dtype: str | None = None,
        at: str | Sequence[str] | None = None,
        parts: Sequence[Part] | None = None,
    ) -> Self:
        """These ranks issue the last call with other arguments; `shape` stands for one tensor in and one out."""

        def change(old: Op) -> Op:
            name = op or old.name
            sizes = [list(shape)] if shape is not None else None
            stack = old.stack if at is None and op is None else stack_of(name, at or sites_of(old))
            new_ins, new_outs = _first(ins, sizes, old.ins), _first(outs, sizes, old.outs)
            new_parts = old.parts if parts is None else tuple(parts)
            new = replace(old, name=name, ins=new_ins, outs=new_outs, dtype=dtype or old.dtype)
            return replace(new, stack=stack, parts=new_parts, moves=_resized(old, new_ins))

        return self._change(ranks, change)

    def late(self, rank: int, seconds: float) -> Self:
        """This rank issues the last call `seconds` later than it could."""
        return self._change([rank], lambda op: replace(op, delay_ns=int(seconds * 1e9)))

    def stuck_on(self, *ranks: int) -> Self:
        """The last call begins on these ranks and never finishes there, while their peers finish it."""
        return self._change(ranks, lambda op: replace(op, stuck=True))

    def never_finishes(self) -> Self:
        """Nobody finishes the last call."""
        return self._change(self.world, lambda op: replace(op, lost=True))

    def finishes_anyway(self) -> Self:
        """The last call finishes although its members disagree, as NCCL may do with unequal sizes."""
        return self._change(self.world, lambda op: replace(op, forced=True))

    def error_on(self, *ranks: int) -> Self:
        """These ranks get an error from the last call: it is retired there, and the host goes on."""
        return self._change(ranks, lambda op: replace(op, error_retired=True))

    def on_thread(self, name: str, *ranks: int) -> Self:
        """The last call is issued by this thread (on these ranks, or on all)."""
        return self._change(ranks or self.world, lambda op: replace(op, thread=name))

    def swapped(self, *ranks: int) -> Self:
        """These ranks issue the last two calls in the other order."""
        for rank in ranks:
            earlier = next(s for s in self.calls[-2] if rank in s)
            later = next(s for s in self.calls[-1] if rank in s)
            earlier[rank], later[rank] = later[rank], earlier[rank]
        return self

    def _change(self, ranks: Iterable[int], change: Callable[[Op], Op]) -> Self:
        for step in self.calls[-1]:
            for rank in ranks:
                op = step.get(rank)
                if isinstance(op, Op):
                    step[rank] = change(op)
        return self
