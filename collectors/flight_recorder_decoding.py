"""The bytes of a dump -> its payload, whoever wrote them.

A dump is a pickle from someone else's machine. The unpickler here knows no classes and no functions at all: the first
mention of one ends the file. PyTorch writes plain dicts, lists, tuples, texts and numbers, so nothing is lost by that.

Nothing is read from a dump that was cut off, although its first entries could be: the newest are the ones that are
missing, and a rank without them looks as if it had stopped there.
"""

from __future__ import annotations

import copyreg
import gzip
import json
import pickle
import zlib
from pathlib import Path
from typing import Any, NoReturn

from whichrank.collectors.flight_recorder_files import HEAD, Kind, LoadError, contents, kind_of

# What a damaged pickle makes the C unpickler raise, and damaged JSON the decoder.
_DAMAGED = (
    pickle.UnpicklingError,
    gzip.BadGzipFile,
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    zlib.error,
)
_CUT_OFF = ("truncated", "Unterminated", "end-of-stream marker", "Ran out of input")


def load(path: Path) -> Any:
    """The decoded payload of a pickle or JSON file, gzipped or not. Raises LoadError, and nothing else."""
    try:
        content = contents(path)
        kind = kind_of(content[:HEAD])
        if kind is Kind.EMPTY:
            raise LoadError("empty", "it is empty")
        if kind is Kind.FOREIGN:
            raise LoadError("foreign", "it is neither a pickle nor JSON of the Flight Recorder", "info")
        if content.startswith(b"\x80"):
            copyreg.clear_extension_cache()  # an object that is in there would be handed out without asking us
            return _Unpickler(_Whole(content)).load()
        return json.loads(content)
    except EOFError:
        raise _truncated() from None
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc.rstrip()) or error.msg.startswith(_CUT_OFF):
            raise _truncated() from None
        raise LoadError("malformed", f"it is damaged JSON: {error}") from None
    except _DAMAGED as error:
        if any(words in str(error) for words in _CUT_OFF):
            raise _truncated() from None
        # The text may repeat what the file says, half surrogate pairs and all.
        text = " ".join(str(error)[:200].encode("utf-8", "replace").decode().split())
        raise LoadError("malformed", f"it is damaged ({type(error).__name__}: {text})") from None
    except OSError as error:
        raise LoadError("unreadable", f"it cannot be read: {error.strerror or error}") from None


def _truncated() -> LoadError:
    return LoadError("truncated", "it ends too early; the job may have died while writing it")


class _Whole:
    """Bytes as the file of an unpickler, which takes what `peek` shows without a copy.

    io.BytesIO has no `peek` and makes it read value by value: 2.5 times slower. A buffered file copies twice: 10 %.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def peek(self, _: int) -> bytes:
        return self._content[self._at :]

    def read(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        return self._content[start : self._at]

    def readline(self) -> bytes:
        end = self._content.find(b"\n", self._at) + 1
        return self.read((end or len(self._content)) - self._at)


class _Unpickler(pickle.Unpickler):
    """The C unpickler without any global. Persistent ids are refused by the base class."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        named = f"{module[:100]}.{name[:100]}".encode("utf-8", "replace").decode()
        raise LoadError("refused_global", f"it names {named}, which no dump does; nothing in it was executed")
