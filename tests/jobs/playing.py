"""Plays a plan: who joins, who waits for whom, what finishes, and when.

How a job behaves
  * A rank issues its operations in order; its host may run `ahead` unfinished ones in front of the device.
  * On each rank operations begin and finish in order over all groups, because they share the compute stream; a group
    with a `stream` of its own keeps order only within that stream.
  * A collective finishes when every member has begun it with the same name, sizes and dtype (all_to_all: what is sent
    in total is what is received in total). Of a broadcast or scatter the root needs nobody and the others need the
    root; of a reduce or gather it is the other way round.
  * The k-th send a->b of a group needs the k-th receive b<-a with equal sizes; a batch needs all of its partners.

Nothing here depends on the order in which ranks are visited, so that a plan has exactly one outcome.
All times are nanoseconds since the epoch, on one clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.jobs.model import ONE_WAY, Group, Mark, Op, Sizes, numel
from tests.jobs.plan import Plan

START_NS = 1_796_000_000_000_000_000
STEP_NS = 1_000_000  # host time between two operations of a rank
FLIGHT_NS = 300_000  # device time of an operation
SKEW_NS = 17_000  # every rank begins this much after the one before it


@dataclass(eq=False)
class Issued:
    """An operation that a rank has entered, with the numbers a recorder gives it.

    collective_seq_id, p2p_seq_id and op_id count per group (op_id is that of the last part); mixed_seq counts both
    kinds per group, as FR 1.4 did; process_seq counts all operations of the process, as torchcomms does.
    """

    rank: int
    op: Op
    created_ns: int
    collective_seq_id: int
    p2p_seq_id: int
    op_id: int
    mixed_seq: int
    process_seq: int
    keys: tuple[tuple[object, ...], ...] = ()  # point-to-point: where this operation's halves are posted
    begun_ns: int | None = None
    done_ns: int | None = None


@dataclass
class Played:
    """What happened. `dump_ns[rank]`: when its dump was taken, where that is not the end of everything."""

    issued: dict[int, list[Issued]]
    dump_ns: dict[int, int] = field(default_factory=dict)
    copies: list[tuple[int, str, int]] = field(default_factory=list)  # rank, file name, when
    resets: dict[int, int] = field(default_factory=dict)

    @property
    def end_ns(self) -> int:
        """When the last thing happened, START_NS where nothing did."""
        times = [t for ops in self.issued.values() for o in ops for t in (o.created_ns, o.done_ns) if t is not None]
        return max(times, default=START_NS)


class Playing:
    """One run of a plan; `play` may be called once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.program = {rank: plan.program(rank) for rank in plan.world}
        self.at = dict.fromkeys(plan.world, 0)
        self.clock = {rank: START_NS + SKEW_NS * rank for rank in plan.world}
        self.pause = dict.fromkeys(plan.world, 0)
        self.process_seq = dict.fromkeys(plan.world, 0)
        self.counters: dict[tuple[int, Group], list[int]] = {}
        self.moves_so_far: dict[tuple[object, ...], int] = {}
        self.posted: dict[tuple[object, ...], Issued] = {}
        self.joined: dict[tuple[Group, int], dict[int, Issued]] = {}
        self.out = Played({rank: [] for rank in plan.world})

    def play(self) -> Played:
        """Let hosts and devices go on until nothing moves any more."""
        moved = True
        while moved:
            moved = False
            for rank in self.plan.world:
                while self._host_step(rank):
                    moved = True
                moved |= self._begin(rank)
            for rank in self.plan.world:
                moved |= self._finish(rank)
        return self.out

    # ---- hosts

    def _host_step(self, rank: int) -> bool:
        """Let the host of a rank do the next thing of its program; False where it cannot."""
        program, at = self.program[rank], self.at[rank]
        if at == len(program):
            return False
        item = program[at]
        done = self._do_mark(rank, item) if isinstance(item, Mark) else self._issue(rank, item)
        self.at[rank] += done
        return done

    def _do_mark(self, rank: int, mark: Mark) -> bool:
        now = self.clock[rank] + int(mark.seconds * 1e9)
        if mark.kind == "wait":
            ends = [o.done_ns for o in self.out.issued[rank]]
            if any(end is None for end in ends):
                return False
            self.clock[rank] = max([self.clock[rank], *(end for end in ends if end is not None)])
        elif mark.kind == "pause":
            self.pause[rank] += int(mark.seconds * 1e9)
        elif mark.kind == "dump":
            self.out.dump_ns[rank] = now + FLIGHT_NS // 3
        elif mark.kind == "copy":
            self.out.copies.append((rank, mark.file, now + FLIGHT_NS // 3))
        elif mark.kind == "reset":
            self.out.resets[rank] = now
        return mark.kind != "stop"

    def _issue(self, rank: int, op: Op) -> bool:
        slot = self._slot_ns(rank)
        if slot is None:
            return False
        self.clock[rank] = max(self.clock[rank], slot) + STEP_NS + op.delay_ns + self.pause[rank]
        self.pause[rank] = 0
        keys = self._post_keys(rank, op)
        entered = self._numbered(rank, op, keys)
        self.out.issued[rank].append(entered)
        for kind, group, source, target, nth in keys:
            self.posted[(kind, group, source, target, nth)] = entered
        if not op.moves:
            self.joined.setdefault((op.group, entered.collective_seq_id), {})[rank] = entered
        return True

    def _slot_ns(self, rank: int) -> int | None:
        """When fewer than `ahead` operations of this rank were unfinished; None: not yet."""
        ops = self.out.issued[rank]
        needed = len(ops) - self.plan.may_run_ahead[rank] + 1
        if needed <= 0:
            return self.clock[rank]
        ends = sorted(self.clock[rank] if o.op.error_retired else o.done_ns or 0 for o in ops if _over(o))
        return ends[needed - 1] if len(ends) >= needed else None

    def _numbered(self, rank: int, op: Op, keys: tuple[tuple[object, ...], ...]) -> Issued:
        group, entries = op.group, max(1, len(op.parts))
        p2p = group.p2p_already.get(rank, 0)
        new = [group.already, p2p, group.already + p2p, group.already + p2p]
        count = self.counters.setdefault((rank, group), new)
        count[1 if op.moves else 0] += 1
        count[2] += entries
        count[3] += 1
        self.process_seq[rank] += 1
        process_seq = self.process_seq[rank] - 1
        return Issued(rank, op, self.clock[rank], count[0], count[1], count[2], count[3], process_seq, keys)

    def _post_keys(self, rank: int, op: Op) -> tuple[tuple[object, ...], ...]:
        """(kind, group, source, target, how many before) of every half of a transfer."""
        keys = []
        for move in op.moves:
            pair = (rank, move.peer) if move.kind == "send" else (move.peer, rank)
            nth = self.moves_so_far.get((move.kind, op.group, *pair), 0)
            self.moves_so_far[(move.kind, op.group, *pair)] = nth + 1
            keys.append((move.kind, op.group, *pair, nth))
        return tuple(keys)

    # ---- devices

    def _begin(self, rank: int) -> bool:
        """Begin what has nothing unfinished before it on its stream."""
        moved = False
        free: dict[str, int | None] = {}
        for entered in self.out.issued[rank]:
            stream = entered.op.group.stream
            before = free.get(stream, START_NS)
            if entered.begun_ns is None and before is not None:
                entered.begun_ns = max(entered.created_ns, before)
                moved = True
            free[stream] = entered.begun_ns if entered.op.error_retired else entered.done_ns
        return moved

    def _finish(self, rank: int) -> bool:
        moved = False
        for entered in self.out.issued[rank]:
            if entered.begun_ns is None or entered.done_ns is not None:
                continue
            entered.done_ns = self._done_ns(entered)
            moved |= entered.done_ns is not None
        return moved

    def _done_ns(self, entered: Issued) -> int | None:
        """When an operation that has begun finishes on this rank; None: not as far as is known."""
        op = entered.op
        if op.lost or op.stuck or op.error_retired:
            return None
        others = self._partners(entered) if op.moves else self._members(entered)
        begun = [o.begun_ns for o in others or ()]
        if others is None or any(b is None for b in begun):
            return None
        return max([entered.begun_ns or 0, *(b for b in begun if b is not None)]) + FLIGHT_NS

    def _partners(self, entered: Issued) -> list[Issued] | None:
        """Who must have begun for a transfer or batch to finish; None: a partner is not posted or has another size."""
        found = []
        for move, (kind, *pair) in zip(entered.op.moves, entered.keys, strict=True):
            partner = self.posted.get(("recv" if kind == "send" else "send", *pair))
            if partner is None:
                return None
            nth = partner.keys.index(("recv" if kind == "send" else "send", *pair))
            if partner.op.moves[nth].sizes != move.sizes and not entered.op.forced:
                return None
            found.append(partner)
        return found

    def _members(self, entered: Issued) -> list[Issued] | None:
        """Who must have begun for a collective to finish; None: somebody has not come, or disagrees."""
        op = entered.op
        came = self.joined[(op.group, entered.collective_seq_id)]
        needed = set(op.group.ranks)
        if op.name in ONE_WAY and op.root is not None:
            if (op.name in ("reduce", "gather")) != (entered.rank == op.root):
                needed = {entered.rank}  # gives and goes
            elif entered.rank != op.root:
                needed = {entered.rank, op.root}
        if not needed <= came.keys():
            return None
        members = [came[rank] for rank in sorted(needed)]
        if op.forced:
            return members
        if len({m.op.signature() for m in members}) > 1:
            return None
        if op.name.startswith("all_to_all") and len({sum(numel(s) for s in side) for side in _sides(members)}) > 1:
            return None
        return members


def _sides(members: list[Issued]) -> tuple[list[Sizes], list[Sizes]]:
    """What all members give, and what all members get."""
    return [m.op.ins for m in members], [m.op.outs for m in members]


def _over(entered: Issued) -> bool:
    """The host does not wait for it any more."""
    return entered.done_ns is not None or entered.op.error_retired
