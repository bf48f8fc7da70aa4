"""Writes what the recorders of a played job show: one dump per rank, and the folder of them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.jobs.layouts import Entry, Payload, encode, in_version, is_at_least, json_entry, json_status
from tests.jobs.model import Frame, Group, Op, Part
from tests.jobs.playing import FLIGHT_NS, START_NS, Issued, Played
from tests.jobs.recording import Recorded

POLL_NS = 100_000_000  # how often the watchdog looks
NEVER = 1 << 62
COMM_LIB = {"gloo": "", "nccl": "2.27.5", "nccl2": "2.28.9", "torchcomms": "2.28.3", "xccl": "2021.15"}


class Dumper:
    """The dump of one rank, taken at `at_ns` on the true clock (default: long after the last thing happened)."""

    def __init__(self, job: Recorded, played: Played, rank: int, at_ns: int | None = None) -> None:
        self.job, self.how, self.played, self.rank = job, job.recording, played, rank
        self.at_ns = NEVER if at_ns is None else at_ns
        self.version = self.how.version[rank]
        self.mine = [g for g in job.groups if rank in g.ranks]
        self.issued = [o for o in played.issued[rank] if o.created_ns <= self.at_ns]
        done = sorted((o for o in self.issued if o.op.recorded and self._finished(o)), key=lambda o: o.done_ns or 0)
        self.unnoticed = set(done[len(done) - self.how.unnoticed.get(rank, 0) :])
        self.frames: dict[Frame, dict[str, Any]] = {}

    def payload(self) -> Payload:
        """The whole dump as plain data."""
        entries = self._entries()
        if self.version == "list":
            return entries
        dump: dict[str, Any] = {"version": self.version, "pg_config": self._pg_config()}
        if is_at_least(self.version, "2.9"):
            key = "comm_lib_version" if is_at_least(self.version, "2.10") else "nccl_version"
            dump[key] = COMM_LIB[self.job.lib]
        as_json = self.rank in self.how.json
        if is_at_least(self.version, "2.4"):
            status = self._pg_status()
            dump["pg_status"] = json_status(status) if as_json else status
        if self.rank not in self.how.no_entries_key and (entries or not as_json):
            dump["entries"] = entries
        if as_json:
            dump["nccl_comm_state"] = {}
        return dump

    # ---- what was seen

    def _finished(self, o: Issued) -> bool:
        return o.done_ns is not None and o.done_ns <= self.at_ns

    def _seen_done(self, o: Issued) -> bool:
        """Finished, and the recorder knows it."""
        return self._finished(o) and o not in self.unnoticed

    def _noticed_ns(self, o: Issued) -> int:
        """When the watchdog, or else the dump itself, looked at a finished operation."""
        polled = ((o.done_ns or 0) // POLL_NS + 1) * POLL_NS + 1_000 * self.rank
        return min(polled, self.at_ns)

    def _retired(self, o: Issued) -> bool:
        if self.rank in self.how.after_exception or o.op.error_retired:
            return True
        if self.job.lib in ("gloo", "torchcomms"):
            return self._seen_done(o)
        if self._seen_done(o):
            return self._noticed_ns(o) < self.at_ns
        first_open = next(x for x in self.issued if x.op.recorded and not self._seen_done(x))
        return o is first_open and self.rank in self.how.retired_on_timeout

    # ---- entries

    def _entries(self) -> list[Entry]:
        if self.rank in self.how.empty:
            return []
        entries: list[Entry] = []
        reset = self.played.resets.get(self.rank)
        record_id = self.how.first_record.get(self.rank, 0) if reset is None else 0
        for o in self.issued:
            if not o.op.recorded or (reset is not None and o.created_ns <= reset):
                continue
            parts = self._parts(o)
            whole: list[Part | None] = [None] if self._closes(o) else []
            for nth, part in enumerate([*parts, *whole]):
                if part is not None or self.rank not in self.how.only_active or not self._left_out(o):
                    entries.append(self._entry(o, part, record_id + nth, nth))
            record_id += len(parts) + len(whole)
        return entries[-self.how.ring.get(self.rank, len(entries)) :]

    def _closes(self, o: Issued) -> bool:
        """XCCL leaves the closing entry of a coalesced call out."""
        return self.job.lib != "xccl" or not o.op.parts

    def _left_out(self, o: Issued) -> bool:
        """onlyActive drops an entry once its completion was seen; torchcomms once it is retired; gloo never."""
        return self.job.lib != "gloo" and self._seen_done(o)

    def _parts(self, o: Issued) -> tuple[Part, ...]:
        """Inner entries; those of collectives are recorded since PyTorch 2.7, which still says 2.4."""
        recorded = self.how.parts_recorded
        if recorded is None:
            recorded = is_at_least(self.version, "2.9")
        return tuple(p for p in o.op.parts if p.is_p2p or recorded)

    def _entry(self, o: Issued, part: Part | None, record_id: int, nth: int) -> Entry:
        """One entry: `part` is an inner one, which never gets a state of its own; else the operation itself."""
        what = part or o.op
        done = part is None and self._seen_done(o)
        gid = self.mine.index(o.op.group)
        entry: Entry = {} if self._frameless() else {"frames": self._frames(o.op)}
        entry |= {
            "record_id": record_id,
            "pg_id": gid,
            "process_group": (o.op.group.name, self._desc(o.op.group)),
            "thread_name": o.op.thread,
            "thread_id": str(140_000_000_000_000 + 4096 * self.rank + sum(map(ord, o.op.thread))),
            "collective_seq_id": o.collective_seq_id,
            "p2p_seq_id": o.p2p_seq_id,
            "op_id": o.op_id if part is None else o.op_id - len(o.op.parts) + 1 + nth,
            "profiling_name": f"{'nccl' if self.job.lib == 'torchcomms' else self.job.lib}:{what.name}",
            "time_created_ns": o.created_ns + self.how.clock_ns.get(self.rank, 0),
        }
        if done and self._has_duration(o):
            entry["duration_ms"] = ((o.done_ns or 0) - (o.begun_ns or 0)) / 1e6
        entry |= {
            "input_sizes": [list(s) for s in what.ins],
            "input_dtypes": [what.dtype for s in what.ins if s],
            "output_sizes": [list(s) for s in what.outs],
            "output_dtypes": [what.dtype for s in what.outs if s],
            **self._states(o, part, done),
            "retired": part is None and self._retired(o),
            "timeout_ms": self.how.timeout_ms,
            "is_p2p": part.is_p2p if part else len(o.op.moves) == 1 and not o.op.parts,
        }
        if self.job.lib == "torchcomms":
            entry |= {"collective_seq_id": o.process_seq, "p2p_seq_id": 0, "op_id": o.process_seq, "is_p2p": False}
        entry = in_version(entry, self.version, o.mixed_seq)
        return json_entry(entry) if self.rank in self.how.json else entry

    def _has_duration(self, o: Issued) -> bool:
        return self._retired(o) and (self.job.lib == "torchcomms" or (self.how.timing and self.job.lib != "gloo"))

    def _states(self, o: Issued, part: Part | None, done: bool) -> Entry:
        """state and the times of discovery: gloo never leaves `scheduled`, `started` needs timing."""
        begun = o.begun_ns is not None and o.begun_ns <= self.at_ns
        watched = self.job.lib != "gloo" and part is None
        started = watched and self.how.timing and begun
        shift = self.how.clock_ns.get(self.rank, 0)
        state = "completed" if done and watched else "started" if started else "scheduled"
        return {
            "state": state,
            "time_discovered_started_ns": (o.begun_ns or 0) + FLIGHT_NS // 10 + shift if started else None,
            "time_discovered_completed_ns": self._noticed_ns(o) + shift if state == "completed" else None,
        }

    def _frameless(self) -> bool:
        return self.rank in self.how.no_frames or self.rank in self.how.json

    def _frames(self, op: Op) -> list[dict[str, Any]]:
        """Equal frames are one object, as the recorder's own pickler has it."""
        return [self.frames.setdefault(f, asdict(f)) for f in op.stack]

    # ---- beside the entries

    def _desc(self, group: Group) -> str:
        return self.how.descs.get((self.rank, group.name), "nccl" if self.job.lib == "torchcomms" else group.desc)

    def _used(self) -> list[Group]:
        """Groups whose communicator exists: those with a first operation."""
        called = {o.op.group for o in self.issued}
        return [g for g in self.mine if g in called or g.already or self.how.eager_init]

    def _pg_config(self) -> dict[Any, Any]:
        """Members by name: a later group of the same name takes the place of the earlier one."""
        if self.rank in self.how.no_pg_config:
            return {}
        if self.version == "1.4":
            return {self.mine.index(g): list(g.ranks) for g in self._used()}
        if self.job.lib == "gloo":
            ranks = str(self.job.world) if len(self.job.groups) == 1 else "[]"
            return {"": {"name": "", "desc": "", "ranks": ranks}}
        join = ("," if self.job.lib == "torchcomms" else ", ").join
        ranks_of = {g: "[" + join(map(str, g.ranks)) + "]" for g in self._used()}
        return {g.name: {"name": g.name, "desc": self._desc(g), "ranks": text} for g, text in ranks_of.items()}

    def _pg_status(self) -> dict[str, dict[str, int]]:
        """Last enqueued, started and completed of each pg_id; NCCL mixes its two counters, gloo counts op_id."""
        if self.job.lib == "torchcomms" or self.rank in self.how.no_pg_status:
            return {}
        if not self.how.empty.get(self.rank, True):
            return {}
        status: dict[str, dict[str, int]] = {}
        for o in self.issued:
            if not o.op.recorded:
                continue
            number = o.op_id if self.job.lib == "gloo" else o.p2p_seq_id if o.op.moves else o.collective_seq_id
            names = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
            state = status.setdefault(str(self.mine.index(o.op.group)), dict.fromkeys(names, -1))
            state["last_enqueued_collective"] = number
            if self.how.timing and self.job.lib != "gloo" and o.begun_ns is not None and o.begun_ns <= self.at_ns:
                state["last_started_collective"] = number
            if self._seen_done(o) or self.rank in self.how.after_exception or o.op.error_retired:
                state["last_completed_collective"] = number
        return status


def dump_times(job: Recorded, played: Played) -> dict[int, int]:
    """When each rank's dump was taken, ns since the epoch on the true clock."""
    times = dict.fromkeys(job.world, played.end_ns + job.recording.timeout_ms * 1_000_000)
    times |= {r: START_NS + int(s * 1e9) for r, s in job.recording.dump_after_s.items()}
    return times | played.dump_ns


def files(job: Recorded, played: Played) -> dict[str, bytes]:
    """File name -> content of everything that lies in the folder afterwards."""
    how = job.recording
    found: dict[str, bytes] = {}
    for rank, at_ns in dump_times(job, played).items():
        if rank not in how.no_file:
            data = encode(Dumper(job, played, rank, at_ns).payload(), rank in how.json)
            found[how.file_name[rank]] = data[: max(8, len(data) // 3)] if rank in how.truncated else data
    for rank, name, at_ns in played.copies:
        found[name] = encode(Dumper(job, played, rank, at_ns).payload(), rank in how.json)
    return found | how.extra_files


def write(job: Recorded, played: Played, folder: Path) -> Path:
    """Write all files of a played job below `folder` and return it."""
    for name, data in files(job, played).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder
