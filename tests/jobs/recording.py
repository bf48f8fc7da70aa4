"""Faults of a made-up job, and how its ranks are recorded and dumped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from tests.jobs.model import Mark
from tests.jobs.transfers import Transfers

VERSIONS = ("list", "1.4", "2.1", "2.4", "2.9", "2.10")
"""Formats from PyTorch 2.2 (a bare list) to today."""


@dataclass
class Recording:
    """Choices of recorder and writer; the sets and keys are global ranks."""

    version: dict[int, str]
    timeout_ms: int = 600_000
    timing: bool = False  # TORCH_NCCL_ENABLE_TIMING
    eager_init: bool = False  # pg_config lists groups that were never used
    parts_recorded: bool | None = None  # inner entries of coalesced collectives; None: as the version does
    json: set[int] = field(default_factory=set)
    only_active: set[int] = field(default_factory=set)
    no_frames: set[int] = field(default_factory=set)
    ring: dict[int, int] = field(default_factory=dict)
    no_file: set[int] = field(default_factory=set)
    truncated: set[int] = field(default_factory=set)
    empty: dict[int, bool] = field(default_factory=dict)  # rank -> pg_status still there
    no_entries_key: set[int] = field(default_factory=set)
    unnoticed: dict[int, int] = field(default_factory=dict)
    after_exception: set[int] = field(default_factory=set)
    retired_on_timeout: set[int] = field(default_factory=set)
    no_pg_config: set[int] = field(default_factory=set)
    no_pg_status: set[int] = field(default_factory=set)
    dump_after_s: dict[int, float] = field(default_factory=dict)  # since the job began
    clock_ns: dict[int, int] = field(default_factory=dict)
    first_record: dict[int, int] = field(default_factory=dict)
    descs: dict[tuple[int, str], str] = field(default_factory=dict)
    file_name: dict[int, str] = field(default_factory=dict)
    extra_files: dict[str, bytes] = field(default_factory=dict)


class Faults(Transfers):
    """What goes wrong from here on, and when the recorders are asked."""

    def stop(self, *ranks: int) -> Self:
        """The host of these ranks comes no further (asleep, dead, or gone)."""
        return self.mark(Mark("stop"), ranks)

    def pause(self, rank: int, seconds: float) -> Self:
        """The host of this rank is busy for so long before it issues anything more."""
        return self.mark(Mark("pause", seconds), [rank])

    def wait(self, *ranks: int) -> Self:
        """The host of these ranks (all) waits for everything it issued, like `.item()` or a device synchronisation."""
        return self.mark(Mark("wait"), ranks or self.world)

    def run_ahead(self, operations: int, *ranks: int) -> Self:
        """Let these hosts (all) have so many unfinished operations; holds for the whole job."""
        self.may_run_ahead.update(dict.fromkeys(ranks or self.world, operations))
        return self

    def dumped_here(self, rank: int, after: float = 0.0) -> Self:
        """This rank's dump shows it `after` seconds after it issued the operation before: an older snapshot."""
        return self.mark(Mark("dump", after), [rank])

    def copied_here(self, rank: int, file: str, after: float = 0.0) -> Self:
        """A dump of this rank was also taken here, and lies beside the others as `file`."""
        return self.mark(Mark("copy", after, file), [rank])

    def recorder_reset(self, *ranks: int) -> Self:
        """The recorder of these ranks is emptied here; record_id starts at 0 again, the sequence numbers go on."""
        return self.mark(Mark("reset"), ranks)


class Recorded(Faults):
    """How it is written down. Without ranks, a method speaks of all of them."""

    def __init__(self, ranks: int, *, lib: str = "nccl", version: str = "2.10", ahead: int = 1) -> None:
        super().__init__(ranks, lib=lib, ahead=ahead)
        timeout = 1_800_000 if lib == "gloo" else 600_000
        self.recording = Recording(dict.fromkeys(self.world, version), timeout)
        self.file_names("comm_lib_trace_rank_{rank}")
        if lib == "torchcomms":
            self.without_frames()

    def version(self, version: str, *ranks: int) -> Self:
        """Written in this format: "list" (2.2), "1.4", "2.1", "2.4", "2.9" or "2.10"."""
        if version not in VERSIONS:
            raise ValueError(f"{version!r} is not one of {VERSIONS}")
        self.recording.version.update(dict.fromkeys(self._all(ranks), version))
        return self

    def timeout(self, seconds: float) -> Self:
        """The configured timeout of every group."""
        self.recording.timeout_ms = int(seconds * 1000)
        return self

    def with_timing(self) -> Self:
        """TORCH_NCCL_ENABLE_TIMING: the states `started`, and durations."""
        self.recording.timing = True
        return self

    def eagerly_initialised(self) -> Self:
        """pg_config lists every group of a rank, used or not."""
        self.recording.eager_init = True
        return self

    def parts_recorded(self, yes: bool) -> Self:
        """Whether inner entries of coalesced collectives are recorded; FR 2.4 exists both ways."""
        self.recording.parts_recorded = yes
        return self

    def as_json(self, *ranks: int) -> Self:
        """Dumped as JSON, which has no frames."""
        self.recording.json.update(self._all(ranks))
        return self

    def only_active(self, *ranks: int) -> Self:
        """Dumped with onlyActive: finished entries are left out."""
        self.recording.only_active.update(self._all(ranks))
        return self

    def without_frames(self, *ranks: int) -> Self:
        """Dumped without stacks."""
        self.recording.no_frames.update(self._all(ranks))
        return self

    def ring(self, entries: int, *ranks: int) -> Self:
        """The ring buffer holds so many entries."""
        self.recording.ring.update(dict.fromkeys(self._all(ranks), entries))
        return self

    def no_file(self, *ranks: int) -> Self:
        """These ranks left no dump."""
        self.recording.no_file.update(ranks)
        return self

    def truncated(self, *ranks: int) -> Self:
        """The files of these ranks end after a third."""
        self.recording.truncated.update(ranks)
        return self

    def empty_dump(self, *ranks: int, pg_status: bool = False, entries_key: bool = True) -> Self:
        """These ranks wrote a dump without entries."""
        self.recording.empty.update(dict.fromkeys(ranks, pg_status))
        if not entries_key:
            self.recording.no_entries_key.update(ranks)
        return self

    def unnoticed(self, rank: int, operations: int = 1) -> Self:
        """The recorder of this rank had not seen yet that its newest finished operations are finished."""
        self.recording.unnoticed[rank] = operations
        return self

    def dumped_after_exception(self, *ranks: int) -> Self:
        """gloo: dumped after the exception, which retires every entry."""
        self.recording.after_exception.update(self._all(ranks))
        return self

    def retired_on_timeout(self, *ranks: int) -> Self:
        """NCCL: the watchdog of these ranks has taken the oldest open operation off its list."""
        self.recording.retired_on_timeout.update(self._all(ranks))
        return self

    def without_pg_config(self, *ranks: int) -> Self:
        """Nothing tells the members of groups."""
        self.recording.no_pg_config.update(self._all(ranks))
        return self

    def without_pg_status(self, *ranks: int) -> Self:
        """Nothing tells the last enqueued and completed operations."""
        self.recording.no_pg_status.update(self._all(ranks))
        return self

    def dumped_after(self, seconds: float, *ranks: int) -> Self:
        """The dumps of these ranks show them so many seconds after the job began, perhaps in mid-air."""
        self.recording.dump_after_s.update(dict.fromkeys(self._all(ranks), seconds))
        return self

    def clock_off(self, seconds: float, *ranks: int) -> Self:
        """The clocks of these ranks' hosts are ahead by `seconds`."""
        self.recording.clock_ns.update(dict.fromkeys(ranks, int(seconds * 1e9)))
        return self

    def records_before(self, count: int, *ranks: int) -> Self:
        """The recorders of these ranks had counted so many entries that are not part of the story."""
        self.recording.first_record.update(dict.fromkeys(self._all(ranks), count))
        return self

    def desc_seen(self, rank: int, group: str, desc: str) -> Self:
        """This rank shows another description of the group with this name."""
        self.recording.descs[(rank, group)] = desc
        return self

    def file_names(self, pattern: str, *ranks: int) -> Self:
        """Names of dump files, with `{rank}` in them."""
        self.recording.file_name.update({r: pattern.format(rank=r) for r in self._all(ranks)})
        return self

    def extra_file(self, name: str, content: bytes | str) -> Self:
        """A file that is no dump lies beside the dumps."""
        self.recording.extra_files[name] = content.encode() if isinstance(content, str) else content
        return self

    def dead_process(self, *ranks: int) -> Self:
        """These ranks' processes end here: they issue nothing more and leave no dump."""
        return self.stop(*ranks).no_file(*ranks)

    def _all(self, ranks: Iterable[int]) -> list[int]:
        return list(ranks) or self.world
