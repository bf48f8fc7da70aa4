"""Whatever the bytes are: no exception, one note at least where something is wrong, and the other ranks are read."""

from __future__ import annotations

import json
import pickle
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.collectors.dumps import all_rows, convert, entries, kinds, payload, records, rows
from whichrank.batch import Batch
from whichrank.collectors.flight_recorder import Origin, is_payload, plain_version, to_batch, to_batch_together
from whichrank.collectors.flight_recorder_dump import read
from whichrank.collectors.flight_recorder_texts import TEXTS

PICKLE = pickle.dumps(payload(entries(4)), protocol=2)
JSON = json.dumps(payload(entries(4, frames=...))).encode()
HEADS = (b"", b"\x80\x02", b"\x80\x04", b"{", b"[", b"\x1f\x8b", PICKLE[:200], JSON[:200])


def read_bytes(content: bytes) -> list[Batch]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rank_0").write_bytes(PICKLE)
        (Path(folder) / "rank_1").write_bytes(content)
        return list(read([Path(folder)]))


def check(batches: list[Batch]) -> None:
    read_ranks = [batch.rank for batch in batches if "torch_nccl_dump" in batch.tables]
    assert read_ranks[0] == 0
    assert len(rows(batches[0], "torch_nccl_flight_record")) == 4
    assert read_ranks == [0, 1] or kinds(batches)
    for batch in batches:
        for table in batch.tables.values():
            table.validate(full=True)


@settings(deadline=None)
@given(st.sampled_from(HEADS), st.binary(max_size=300))
def test_junk(head: bytes, junk: bytes) -> None:
    check(read_bytes(head + junk))


@settings(deadline=None)
@given(
    st.sampled_from([PICKLE, JSON]),
    st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=4), st.integers(0, 4)), min_size=1, max_size=5),
)
def test_a_dump_with_other_bytes_in_it(dump: bytes, changes: list[tuple[int, bytes, int]]) -> None:
    for place, new, gone in changes:
        at = place % len(dump)
        dump = dump[:at] + new + dump[at + gone :]
    check(read_bytes(dump))


@settings(deadline=None)
@given(st.sampled_from([PICKLE, JSON]), st.integers(0, 10_000))
def test_a_dump_that_is_cut_off(dump: bytes, length: int) -> None:
    check(read_bytes(dump[: length % len(dump)]))


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.binary(max_size=5)
    | st.sampled_from([-1, 1 << 63, -(1 << 63) - 1, "", "send 0->1", "[0, 1]"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = [*sorted(entries(1)[0]), "duration_ms", "seq_id", "time_created_us"]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(FIELDS), ANYTHING), max_size=6), st.data())
def test_entries_that_hold_anything(changes: list[tuple[int, str, Any]], data: st.DataObject) -> None:
    calls = entries(6)
    changed = {place for place, _, _ in changes}
    for place, field, value in changes:
        if value is None and data.draw(st.booleans()):
            calls[place].pop(field, None)
        else:
            calls[place][field] = value
    dump = payload(calls)
    if not is_payload(dump):
        return
    found = records(dump)
    assert [row["entry_index"] for row in found] == list(range(6))
    before = records(payload(entries(6)))
    for place in set(range(6)) - changed:
        assert found[place] == before[place]


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(st.sampled_from(["version", "pg_config", "pg_status", "entries", "comm_lib_version"]), ANYTHING))
@example({"pg_config": {"0": {"ranks": "[1]", "desc": "\ud800"}}})
@example({"pg_status": {"0": {}, "00": {}, " 0 ": {}}})
def test_a_head_that_holds_anything(changes: dict[str, Any]) -> None:
    dump = payload(**changes)
    if not is_payload(dump):
        return
    for table in convert(dump).tables.values():
        table.validate(full=True)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.lists(st.sampled_from(TEXTS), max_size=2))
def test_the_order_of_calls_does_not_change_their_rows(picks: list[int], without: list[str]) -> None:
    """The short cuts (guessing the next call, looking at each text once) must not show."""
    kinds_of_calls = [
        {"frames": [{"name": "f", "filename": "/job/a.py", "line": pick}], "input_sizes": [[pick % 2]], "pg_id": pick}
        for pick in range(4)
    ]
    calls = [entries(1, **kinds_of_calls[pick], **dict.fromkeys(without, ...))[0] for pick in picks]
    alone = [records(payload([call]))[0] for call in calls]
    together = [row | {"entry_index": 0} for row in records(payload(calls))]
    assert together == alone


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 15), st.sampled_from(FIELDS), ANYTHING | st.just(...)), max_size=3),
    st.dictionaries(st.sampled_from(["pg_config", "pg_status", "comm_lib_version"]), ANYTHING, max_size=1),
)
@example([1, 2], [(0, "process_group", ("9", "other"))], {})
@example([2, 1], [(1, "is_p2p", ...), (1, "profiling_name", "nccl:send 0->1")], {})
@example([1, 1], [(1, "frames", [])], {"pg_config": {}})
def test_dumps_give_together_what_each_gives_alone(
    sizes: list[int], changes: list[tuple[int, str, Any]], head: dict[str, Any]
) -> None:
    """Unless they refuse to go together, which dumps with nothing odd in them do not."""
    calls = [entries(size, thread_id=str(rank), pg_id=rank) for rank, size in enumerate(sizes)]
    flat = [call for dump in calls for call in dump]
    for place, field, value in changes:
        flat[place % len(flat)].update({field: value})
        if value is ...:
            del flat[place % len(flat)][field]
    dumps = [
        (payload(dump, **(head if rank == 0 else {})), Origin("s", rank, "file")) for rank, dump in enumerate(calls)
    ]
    if not all(plain_version(dump) for dump, _ in dumps):
        return
    alone = [to_batch(dump, origin) for dump, origin in dumps]
    try:
        together = to_batch_together(dumps)
    except Exception:  # the caller then converts each alone
        assert changes or head
        return
    assert all_rows([together]) == all_rows(alone)
    for table in together.tables.values():
        table.validate(full=True)
