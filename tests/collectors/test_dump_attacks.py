"""Pickles from someone else's machine: nothing in them is executed, and none of them stops the reading."""

from __future__ import annotations

import copyreg
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.dumps import convert, entry, notes, payload, rows, write_pickle
from whichrank.collectors.flight_recorder_dump import read

TOUCHED = "touched-by-a-pickle"
RUN = f"touch {TOUCHED}".encode()
MARK = b"X\x09\x00\x00\x00pg_config0"  # looks like a dump to whoever looks for words only
P2, P4 = b"\x80\x02", b"\x80\x04"
OBJECT = b"c__builtin__\nobject\n"


class Reduced:
    """What `__reduce__` gives is called by an unpickler that allows it."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {TOUCHED}",)


def text(value: bytes) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value


ATTACKS: dict[str, tuple[bytes, str]] = {
    "GLOBAL and REDUCE": (P2 + b"cos\nsystem\n(" + text(RUN) + b"tR.", "refused_global"),
    "GLOBAL in a dump's clothes": (P2 + MARK + b"cposix\nsystem\n(" + text(RUN) + b"tR.", "refused_global"),
    "STACK_GLOBAL": (b"\x80\x04" + text(b"os") + text(b"system") + b"\x93" + text(RUN) + b"\x85R.", "refused_global"),
    "STACK_GLOBAL of no texts": (b"\x80\x04K\x01K\x02\x93)R.", "malformed"),
    "STACK_GLOBAL with dots": (b"\x80\x04" + text(b"os") + text(b"path.os.system") + b"\x93.", "refused_global"),
    "INST": (P2 + b"(" + text(RUN) + b"ios\nsystem\n.", "refused_global"),
    "OBJ": (P2 + b"(cos\nsystem\n" + text(RUN) + b"o.", "refused_global"),
    "OBJ of a text": (P2 + b"(" + text(b"os.system") + text(RUN) + b"o.", "malformed"),
    "NEWOBJ": (P2 + b"c__builtin__\nlist\n)\x81.", "refused_global"),
    "NEWOBJ of a text": (P2 + text(b"a") + b")\x81.", "malformed"),
    "NEWOBJ_EX": (b"\x80\x04}})\x92.", "malformed"),
    "REDUCE of a text": (P2 + text(b"os.system") + text(RUN) + b"\x85R.", "malformed"),
    "REDUCE of a dict": (P2 + b"})R.", "malformed"),
    "BUILD on a dict": (P2 + b"}}" + text(b"a") + b"I1\nsb.", "malformed"),
    "BUILD on a list with slots": (P2 + b"]N}" + text(b"__class__") + b"Ns\x86b.", "malformed"),
    "builtins.eval": (P2 + b"c__builtin__\neval\n" + text(b"open('" + RUN + b"', 'w')") + b"\x85R.", "refused_global"),
    "builtins.exec": (P4 + text(b"builtins") + text(b"exec") + b"\x93" + text(b"1") + b"\x85R.", "refused_global"),
    "copyreg._reconstructor": (P2 + b"ccopy_reg\n_reconstructor\n(" + OBJECT + OBJECT + b"NtR.", "refused_global"),
    "functools.partial": (P2 + b"cfunctools\npartial\ncos\nsystem\n\x85R.", "refused_global"),
    "collections.OrderedDict, which is harmless": (P2 + b"ccollections\nOrderedDict\n)R.", "refused_global"),
    "numpy": (P2 + b"cnumpy.core.multiarray\n_reconstruct\n)R.", "refused_global"),
    "EXT1": (P2 + b"\x82\x07.", "malformed"),
    "EXT2": (P2 + b"\x83\x07\x01.", "malformed"),
    "EXT4": (P2 + b"\x84\xff\xff\xff\x7f.", "malformed"),
    "PERSID": (P2 + b"Pmodule\n.", "malformed"),
    "BINPERSID": (P2 + b"K\x01Q.", "malformed"),
    "NEXT_BUFFER": (b"\x80\x05\x97.", "malformed"),
    "READONLY_BUFFER": (b"\x80\x05K\x01\x98.", "malformed"),
    "an unknown protocol": (b"\x80\x05\x80\x09N.", "malformed"),
    "a memo of nothing": (P2 + b"h\x07.", "malformed"),
    "APPENDS to a number": (P2 + b"K\x01(K\x02e.", "malformed"),
    "SETITEMS with a list as key": (P2 + b"}(]K\x01u.", "malformed"),
    "an empty stack": (P2 + b".", "malformed"),
    "pops of nothing": (P2 + b"000.", "malformed"),
    "a frame longer than the file": (b"\x80\x04\x95" + b"\xff" * 7 + b"\x7f.", "malformed"),
    "half a surrogate pair as name": (P4 + text(b"\xed\xa0\x80") + text(b"x") + b"\x93.", "refused_global"),
    "inside an entry": (pickle.dumps(payload([entry(frames=Reduced())]), 2), "refused_global"),
    "in a list, behind another": (pickle.dumps([["a"], {"x": Reduced()}], 4), "refused_global"),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_is_executed_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    content, kind = ATTACKS[name]
    write_pickle(tmp_path / "job/rank_0", payload())
    (tmp_path / "job/rank_1").write_bytes(content)
    batches = list(read([tmp_path / "job"]))
    assert not (tmp_path / TOUCHED).exists()
    assert [batch.rank for batch in batches if "torch_nccl_dump" in batch.tables] == [0]
    (note,) = notes(batches)
    assert (note["kind"], note["severity"], note["rank"]) == (kind, "error", 1)


def test_the_message_names_what_was_refused(tmp_path: Path) -> None:
    (tmp_path / "rank_1").write_bytes(ATTACKS["GLOBAL and REDUCE"][0])
    (note,) = notes(list(read([tmp_path])))
    assert "names os.system" in note["message"]
    assert "nothing in it was executed" in note["message"]


def test_an_extension_that_was_used_before_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unpickler hands out what is in this cache without asking find_class."""
    monkeypatch.chdir(tmp_path)
    copyreg.add_extension("os", "system", 0xF7)
    try:
        pickle.loads(b"\x80\x02\x82\xf7.")
        (tmp_path / "rank_1").write_bytes(b"\x80\x02\x82\xf7" + text(RUN) + b"\x85R.")
        (note,) = notes(list(read([tmp_path])))
    finally:
        copyreg.remove_extension("os", "system", 0xF7)
    assert note["kind"] == "refused_global"
    assert not (tmp_path / TOUCHED).exists()


@pytest.mark.parametrize(
    "content",
    [
        P2 + b"]" * 300_000 + b"a" * 299_999 + b".",  # a list in a list in a list …
        P2 + b"]q\x00h\x00a.",  # a list in itself
        P2 + b"]q\x00" + b"(h\x00h\x00h\x00h\x00lq\x00" * 60 + b".",  # 4**60 lists, in 400 bytes
        P2 + b"}q\x00" + text(b"pg_config") + b"h\x00s.",  # a dict in itself
    ],
)
def test_shapes_without_an_end_are_foreign(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rank_1").write_bytes(content)
    (note,) = notes(list(read([tmp_path])))
    assert (note["kind"], note["severity"]) == ("foreign", "info")


def endless(shape: str) -> Any:
    loop: list[object] = []
    loop.append(loop)
    wide: object = [1]
    for _ in range(60):
        wide = [wide] * 4
    deep: object = []
    for _ in range(100_000):
        deep = [deep]
    return {"loop": loop, "wide": wide, "deep": deep}[shape]


@pytest.mark.parametrize("shape", ["loop", "wide", "deep"])
@pytest.mark.parametrize("place", ["frames", "input_sizes", "output_dtypes", "state", "process_group", "record_id"])
def test_shapes_without_an_end_in_an_entry(shape: str, place: str) -> None:
    batch = convert(payload([entry(), entry(**{place: endless(shape)})]))
    assert len(rows(batch, "torch_nccl_flight_record")) == 2
    (note,) = notes(batch)
    assert (note["kind"], note["count"]) == ("malformed_entry", 1)


@pytest.mark.parametrize("shape", ["loop", "wide", "deep"])
@pytest.mark.parametrize("place", ["version", "pg_config", "pg_status", "comm_lib_version", "entries"])
def test_shapes_without_an_end_in_the_head(shape: str, place: str) -> None:
    batch = convert(payload(**{place: endless(shape)}))
    assert len(rows(batch, "torch_nccl_dump")) == 1
