"""`ncclras -f json` -> `nccl.ras_status`: one answer or several in a file, whole or cut off.

The text that ncclras prints by default names only the ranks it takes for outliers, in words that change from release to
release: it is recognised, and refused with the command that asks for JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whichrank.batch import Batch, note, notes_batch, rows_to_arrow
from whichrank.collectors.flight_recorder_files import LoadError, contents, shown
from whichrank.tables import RAS_STATUS

Progress = Callable[[int, int], None]

_STARTS = re.compile(rb'"communicators(?:_count)?"\s*:|"secondary_hash"\s*:')
_TEXT = re.compile(rb"^(?:Job summary\s+=+|Communicators\.\.\. \(\d|RAS Monitor Mode)", re.MULTILINE)
_COMMUNICATOR = re.compile(r'\{\s*"hash"\s*:')
_TIMESTAMP = re.compile(r'"timestamp"\s*:\s*"([^"]{1,40})"')
_ASK_AGAIN = "ask again: ncclras -f json > ras.json (NCCL 2.28.7 or later), and give that file"
_FLAGS = ("finalize_called", "destroy_flag", "abort_flag")


def recognises(path: Path, head: bytes, named: bool) -> bool:
    """Whether it is an answer of RAS: JSON with communicators, or the text that ncclras prints by default."""
    if head.lstrip()[:1] == b"{":
        return _STARTS.search(head) is not None
    return _TEXT.search(head[:4096]) is not None


def read(paths: Sequence[Path], *, on_progress: Progress | None = None) -> Iterator[Batch]:
    """A batch for each answer; its snapshot_id is the time of the question and a hash of the answer."""
    for number, path in enumerate(sorted(paths, key=shown), 1):
        yield from _file(path)
        if on_progress:
            on_progress(number, len(paths))


def _file(path: Path) -> Iterator[Batch]:
    try:
        text = contents(path).decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error, LoadError) as error:
        yield _note("", path, "unreadable", f"cannot be read: {error}")
        return
    if text.lstrip()[:1] != "{":
        yield _note(text, path, "ras_text", f"is the text of ncclras, which names outliers only; {_ASK_AGAIN}")
        return
    found = False
    for answer, whole, raw in _answers(text):
        rows = [row for comm in _dicts(answer.get("communicators")) for row in _communicator(comm)]
        found = True
        yield _batch(path, answer, rows, raw)
        if not whole:
            said = "was cut off: communicators that are whole are read"
            yield _note(raw, path, "cut_off", said if rows else f"was cut off; {_ASK_AGAIN}")
    if not found:
        yield _note(text, path, "ras_foreign", f"holds no communicator; {_ASK_AGAIN}")


def _answers(text: str) -> Iterator[tuple[Mapping[str, Any], bool, str]]:
    """(answer, whether it is whole, its text) for each JSON document; a broken one ends the file."""
    decoder = json.JSONDecoder()
    at = 0
    while (at := text.find("{", at)) >= 0:
        try:
            document, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            rest = text[at:]
            time = _TIMESTAMP.search(rest)
            yield {"timestamp": time and time[1], "communicators": list(_whole(rest, decoder))}, False, rest
            return
        if isinstance(document, dict) and "communicators" in document:
            yield document, True, text[at:end]
        at = end


def _whole(text: str, decoder: json.JSONDecoder) -> Iterator[Any]:
    """The communicators that are whole in an answer that is not."""
    for match in _COMMUNICATOR.finditer(text):
        try:
            yield decoder.raw_decode(text, match.start())[0]
        except (ValueError, RecursionError):
            return


def _communicator(comm: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    hashed = _text(comm.get("hash"))
    shared = {
        "comm_hash": _hash(hashed) if hashed else None,
        "secondary_hash": _text(comm.get("secondary_hash")),
        "n_ranks": _count(comm.get("size")),
    }
    for missing, ranks in ((False, comm.get("ranks")), (True, comm.get("missing_ranks"))):
        for rank in _dicts(ranks):
            status = rank.get("status")
            status = status if isinstance(status, dict) else {}
            yield {
                **shared,
                "rank": _count(rank.get("rank")),
                "node": _text(rank.get("host")),
                **{key: _count(rank.get(key)) for key in ("pid", "cuda_dev", "nvml_dev")},
                "missing": missing,
                **(_missing(status) if missing else {**_present(status), **_counts(rank.get("collective_counts"))}),
            }


def _missing(status: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _flag(status.get(key)) for key in ("unresponsive", "considered_dead")}


def _present(status: Mapping[str, Any]) -> dict[str, Any]:
    states = {key: _count(status.get(key)) for key in ("init_state", "async_error")}
    return {**states, **{key: _flag(status.get(key)) for key in _FLAGS}}


def _counts(counts: Any) -> dict[str, Any]:
    known = {str(k): n for k, v in counts.items() if (n := _count(v)) is not None} if isinstance(counts, dict) else {}
    total = sum(known.values())
    if not known or total >= 1 << 63:
        return {}
    return {"launched": total, "coll_funcs": list(known), "coll_counts": list(known.values())}


def _batch(path: Path, answer: Mapping[str, Any], rows: list[dict[str, Any]], raw: str) -> Batch:
    asked = _time(answer.get("timestamp"))
    snapshot = _snapshot_id(asked, raw)
    shared = {
        "snapshot_id": snapshot,
        "path": shown(path),
        "asked_ns": asked,
        "nccl_version": _text(answer.get("nccl_version")),
    }
    rows = [{**shared, **row} for row in rows]
    return Batch(snapshot, None, {RAS_STATUS.name: rows_to_arrow(RAS_STATUS, rows)} if rows else {})


def _note(text: str, path: Path, kind: str, said: str) -> Batch:
    row = note(kind, f"{shown(path)} {said}", severity="warning", source=shown(path))
    return notes_batch(_snapshot_id(None, text or shown(path)), None, [row])


def _snapshot_id(asked_ns: int | None, text: str) -> str:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    when = datetime.fromtimestamp((asked_ns or 0) // 10**9, UTC)
    return f"{when:%Y%m%dT%H%M%S}000Z-ras-{digest}"


def _time(text: Any) -> int | None:
    """Nanoseconds since epoch of `2026-09-23 11:55:37`, as if it were UTC; None where it is no such text."""
    try:
        when = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except (TypeError, ValueError):
        return None
    return int(when.timestamp()) * 10**9 if when.year >= 1970 else None


def _hash(text: str) -> str:
    digits = text.lower().removeprefix("0x")
    return f"0x{digits:0>16}" if len(digits) <= 16 else text[:64]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _count(value: Any) -> int | None:
    """A number that is not negative and fits 64 bits."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value[:4096].encode("utf-8", "replace").decode() if isinstance(value, str) else None
