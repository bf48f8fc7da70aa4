"""Point-to-point calls of a made-up job: single sends and receives, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypedDict, Unpack

from tests.jobs.collectives import Collectives
from tests.jobs.model import Group, Move, Op, Part, Sizes, recv_from, send_to
from tests.jobs.plan import stack_of

Where = str | Group


class OfTransfer(TypedDict, total=False):
    """What a send or receive may say besides its ranks."""

    n: int  # elements, 512
    dtype: str
    at: str | Sequence[str]


class Transfers(Collectives):
    """Ranks are global; a group called by desc is the one that both ranks of a transfer belong to."""

    def send(self, rank: int, peer: int, group: Where = "default_pg", **more: Unpack[OfTransfer]) -> Self:
        """`rank` sends to `peer`."""
        return self.add([{rank: self._single("send", rank, peer, group, more)}])

    def recv(self, rank: int, peer: int, group: Where = "default_pg", **more: Unpack[OfTransfer]) -> Self:
        """`rank` receives from `peer`."""
        return self.add([{rank: self._single("recv", rank, peer, group, more)}])

    def transfer(self, source: int, target: int, group: Where = "default_pg", **more: Unpack[OfTransfer]) -> Self:
        """`source` sends and `target` receives, as one call: `.skip(target)` makes a receive that is never posted."""
        sending = self._single("send", source, target, group, more)
        receiving = self._single("recv", target, source, group, more)
        return self.add([{source: sending, target: receiving}])

    def batch(
        self,
        rank: int,
        *moves: Move,
        group: Where = "default_pg",
        at: str | Sequence[str] = "pipeline.py:92 in batch_exchange",
    ) -> Self:
        """batch_isend_irecv on one rank: inner entries that stay scheduled, and a closing entry `coalesced`."""
        found = self._group_of(group, rank, moves[0].peer)
        parts = tuple(Part(self._name(found, rank, m), _sizes(m), _sizes(m), m.dtype, is_p2p=True) for m in moves)
        stack = stack_of("coalesced", at)
        recorded = self.lib != "gloo"
        closer = Op(found, "coalesced", [], [], moves[0].dtype, stack, moves=moves, parts=parts, recorded=recorded)
        return self.add([{rank: closer}])

    def _single(self, kind: str, rank: int, peer: int, group: Where, more: OfTransfer) -> Op:
        make = send_to if kind == "send" else recv_from
        move = make(peer, more.get("n", 512), dtype=more.get("dtype", "BFloat16"))
        found = self._group_of(group, rank, peer)
        name = self._name(found, rank, move)
        stack = stack_of(name, more.get("at", "pipeline.py:80 in exchange"))
        recorded = self.lib != "gloo"
        return Op(found, name, _sizes(move), _sizes(move), move.dtype, stack, moves=(move,), recorded=recorded)

    def _group_of(self, group: Where, rank: int, peer: int) -> Group:
        return next(g for g in self.groups_called(group, rank) if peer in g.ranks)

    def _name(self, group: Group, rank: int, move: Move) -> str:
        """As recorded: group-local numbers, and no peer at all for torchcomms."""
        if self.lib == "torchcomms":
            return move.kind
        arrow = "->" if move.kind == "send" else "<-"
        return f"{move.kind} {group.local(rank)}{arrow}{group.local(move.peer)}"


def _sizes(move: Move) -> Sizes:
    return [list(shape) for shape in move.sizes]
