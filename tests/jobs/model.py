"""What a made-up job consists of: groups, operations as one rank issues them, and marks in a rank's program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

Sizes = list[list[int]]
"""Shapes of the tensors of one list, one inner list per tensor."""

ONE_WAY = frozenset({"broadcast", "reduce", "gather", "scatter"})
"""Operations with a root, which some members may finish before others have come."""
SIZES_DIFFER = frozenset({"gather", "scatter", "all_to_all", "all_to_all_v_single"})
"""Operations whose sizes legally differ between members."""


@dataclass(frozen=True)
class Frame:
    """One Python stack frame: function name, absolute file, line."""

    name: str
    filename: str
    line: int


def frame(text: str, folder: str = "/srv/job/") -> Frame:
    """Read `"train.py:88 in backward"`; a file without a leading slash lies in `folder`."""
    match = re.fullmatch(r"(\S+):(\d+) in (\S+)", text)
    if match is None:
        raise ValueError(f"a call site looks like 'train.py:88 in backward', not {text!r}")
    filename, line, name = match.groups()
    return Frame(name, filename if filename.startswith("/") else folder + filename, int(line))


@dataclass(eq=False)
class Group:
    """A process group; compared by identity, because two groups may share name, desc and ranks.

    `name` and `desc` are what the recorder prints; `ranks` are global ranks in group order. `already` operations had
    finished before the recorder's window begins (the first one played is `already + 1`); `p2p_already` alike per rank.
    `stream` other than "" runs beside the compute stream.
    """

    name: str
    desc: str
    ranks: tuple[int, ...]
    already: int = 0
    p2p_already: dict[int, int] = field(default_factory=dict)
    stream: str = ""

    def local(self, rank: int) -> int:
        """Group-local number of a global rank."""
        return self.ranks.index(rank)


@dataclass(frozen=True)
class Move:
    """One half of a point-to-point transfer; `peer` is a global rank."""

    kind: str  # "send" or "recv"
    peer: int
    sizes: tuple[tuple[int, ...], ...] = ((512,),)
    dtype: str = "BFloat16"


def send_to(peer: int, *shape: int, dtype: str = "BFloat16") -> Move:
    """The sending half of a transfer, for `Job.batch`."""
    return Move("send", peer, (shape or (512,),), dtype)


def recv_from(peer: int, *shape: int, dtype: str = "BFloat16") -> Move:
    """The receiving half of a transfer, for `Job.batch`."""
    return Move("recv", peer, (shape or (512,),), dtype)


@dataclass(frozen=True)
class Part:
    """One operation inside a coalesced call; it never gets a state of its own."""

    name: str
    ins: Sizes
    outs: Sizes
    dtype: str = "BFloat16"
    is_p2p: bool = False


@dataclass(frozen=True)
class Op:
    """One operation as one rank issues it."""

    group: Group
    name: str
    ins: Sizes
    outs: Sizes
    dtype: str = "BFloat16"
    stack: tuple[Frame, ...] = ()
    root: int | None = None  # global rank
    moves: tuple[Move, ...] = ()  # point-to-point: one, or several in a batch
    parts: tuple[Part, ...] = ()  # recorded before the closing entry, which is the operation itself
    recorded: bool = True
    thread: str = "pt_main_thread"
    # what happens to it
    delay_ns: int = 0  # host time before it is issued
    stuck: bool = False  # begins here, peers finish, this rank never does
    lost: bool = False  # nobody ever finishes it
    forced: bool = False  # finishes although its members disagree
    error_retired: bool = False  # the recorder shows it retired although it never finished

    def signature(self) -> tuple[object, ...]:
        """What must be equal on all members for the operation to finish."""
        if self.parts:
            return (self.name, tuple((p.name, str(p.ins), str(p.outs), p.dtype) for p in self.parts))
        if self.name in SIZES_DIFFER:
            return (self.name, self.dtype)
        if self.name in ("broadcast", "reduce"):
            return (self.name, numel(self.ins), self.dtype)
        return (self.name, str(self.ins), str(self.outs), self.dtype)


@dataclass(frozen=True)
class Mark:
    """A point in a rank's program that is not an operation.

    kind: "stop" (the host comes no further), "wait" (the host waits for all it issued), "pause" (`seconds` of host
    time), "dump" (the rank's dump is taken here, not at the end), "copy" (a dump is taken here as well, as `file`),
    "reset" (the recorder is emptied here).
    """

    kind: str
    seconds: float = 0.0
    file: str = ""


Step = dict[int, Op | Mark]
"""What the ranks do at one place of the program: global rank -> operation or mark."""


def numel(sizes: Sequence[Sequence[int]]) -> int:
    """Number of elements in a list of shapes."""
    total = 0
    for shape in sizes:
        count = 1
        for length in shape:
            count *= length
        total += count
    return total
