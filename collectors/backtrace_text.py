"""The texts in which stacks come: py-spy's JSON and text, faulthandler's text, the pages of torch.distributed.debug.

Text may stand inside a log, with a prefix in front of every line (`[rank3]:`, `[default3]:`, `3: `) and lines of other
ranks in between; each prefix is followed on its own. Pages have sections: `<h2>Rank 3: http://...</h2>` as HTML, or
`=== Rank 3: http://... ===` as torch writes them to files.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from whichrank.collectors.backtrace import Frame, Look, Thread, bare

_LIST = re.compile(rb"\s*\[\s*\{")
_SPY_KEYS = (b'"thread_id"', b'"thread_name"', b'"os_thread_id"', b'"owns_gil"', b'"active"', b'"pid"')
_PREFIX = r"(?P<prefix>[^\n]{0,200}?)"
_FAULT = re.compile(_PREFIX + r"(?P<what>Current thread|Thread) (?:0x)?(?P<id>[0-9a-f]+)(?: \[(?P<name>[^\]]*)\])? "
                    r"\(most recent call first\):\s*$")  # fmt: skip
_FAULT_FRAME = re.compile(r'\s{0,4}File "(?P<file>.*)", line (?P<line>\d+|\?\?\?)(?: in (?P<func>.+?))?\s*$')
_FAULT_NONE = re.compile(r"\s*<(?:no Python frame|freed thread state|tstate is freed)>\s*$")
_DUMP_BEGINS = re.compile(_PREFIX + r"(?:Timeout \(\d+:\d\d:\d\d|Fatal Python error: )")
_FAULT_CUT = re.compile(r"\s*\.\.\.\s*$")
_SPY_PROCESS = re.compile(_PREFIX + r"Process (?P<pid>\d+): ")
_SPY = re.compile(_PREFIX + r"Thread (?P<id>0x[0-9A-Fa-f]+|\d+) \((?P<flags>(?:idle|active)[a-z+]*)\)"
                  r'(?:: "(?P<name>.*)")?\s*$')  # fmt: skip
_SPY_FRAME = re.compile(r"\s{4}(?P<func>\S.*?) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)\s*$")
_SECTION = re.compile(r"\s*(?:<h2>Rank (?P<html>\d+): .*</h2>|=== Rank (?P<text>\d+): .* ===)\s*$")
_PRE = re.compile(r"^\s*<pre>|</pre>\s*$")
_FAILED = re.compile(r"\s*(?:<p>Failed to fetch: status=|Error: \d{3}\s*$)")
_RANK = re.compile(r"\[(?:rank|default)?(\d{1,7})\](?::|$)|(?:^|\s)(\d{1,7}): $|\brank[ =:]?(\d{1,7})\b")
_RANK_ARGUMENT = re.compile(r"--(?:local[-_])?rank[= ](\d{1,7})\b")


@dataclass(slots=True)
class Text:
    """What a text holds. silent: ranks whose section says that they did not answer."""

    looks: list[Look] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)


def is_json(head: bytes) -> bool:
    """Whether a file that begins so is `py-spy dump --json`: of any version, and even if it ends early."""
    known = sum(key in head for key in _SPY_KEYS)
    return bool(_LIST.match(head)) and (known >= 2 or b'"frames"' in head) and b'"traceEvents"' not in head


def is_text(part: bytes) -> bool:
    """Whether a part of a file holds a stack in one of the texts."""
    lines = part.decode("utf-8", "replace").splitlines()
    return any(_FAULT.match(line) or _SPY.match(line) for line in lines if "Thread" in line or "thread" in line)


def parse_json(text: str) -> list[Look]:
    """`py-spy dump --json`, or several of them one after the other. Raises ValueError: cut off, or foreign."""
    decoder = json.JSONDecoder()
    looks: list[Look] = []
    place = 0
    while text[place:].strip():
        place += len(text[place:]) - len(text[place:].lstrip())
        value, place = decoder.raw_decode(text, place)
        looks += _processes(value)
    return looks


def _processes(value: Any) -> list[Look]:
    """A list of threads; with --subprocesses those of several processes, of which the first is the rank's own."""
    if not isinstance(value, list) or not all(isinstance(thread, dict) and "frames" in thread for thread in value):
        raise ValueError("it is not a list of threads")
    pids = list(dict.fromkeys(_number(thread.get("pid")) for thread in value))
    threads = [thread for thread in value if _number(thread.get("pid")) == _top(value, pids)]
    said = (info.get("command_line") for thread in threads if isinstance(info := thread.get("process_info"), dict))
    rank = next((int(match[1]) for line in said if (match := _RANK_ARGUMENT.search(str(line)))), None)
    return [Look([_thread(thread) for thread in threads], rank, _top(value, pids))] if threads else []


def _top(threads: list[dict[str, Any]], pids: list[int | None]) -> int | None:
    parents = {
        _number(thread.get("pid")): _number(info.get("ppid"))
        for thread in threads
        if isinstance(info := thread.get("process_info"), dict)
    }
    return next((pid for pid in pids if parents.get(pid) not in pids), pids[0] if pids else None)


def _thread(raw: dict[str, Any]) -> Thread:
    frames = raw.get("frames")
    return Thread(
        [_frame(frame) for frame in frames if isinstance(frame, dict)] if isinstance(frames, list) else [],
        raw["thread_name"] if isinstance(raw.get("thread_name"), str) else None,
        _number(raw.get("os_thread_id")),
        raw["active"] if isinstance(raw.get("active"), bool) else None,
        raw["owns_gil"] if isinstance(raw.get("owns_gil"), bool) else None,
    )


def _frame(raw: dict[str, Any]) -> Frame:
    file = raw.get("filename") or raw.get("module") or ""
    return Frame(bare(str(raw.get("name", ""))), str(file), _number(raw.get("line")) or None)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else None


# ---- text ------------------------------------------------------------------------------------------------------------
class _Reader:
    """Follows the threads of one prefix; a dump ends where a new one, or another section, begins."""

    def __init__(self, found: Text) -> None:
        self.found = found
        self.rank: int | None = None
        self.threads: dict[str, Thread] = {}
        self.thread: Thread | None = None
        self.pid: int | None = None

    def begin(self, key: str, thread: Thread) -> None:
        """A thread begins. One that was there already belongs to the next dump."""
        if key in self.threads:
            self.end()
        self.threads[key] = self.thread = thread

    def add(self, line: str) -> None:
        """A line that is no frame ends the thread."""
        if self.thread is not None and not _frame_of(line, self.thread):
            self.thread = None

    def end(self) -> None:
        """The dump is over."""
        if self.threads:
            self.found.looks.append(Look(list(self.threads.values()), self.rank, self.pid))
        self.threads, self.thread, self.pid = {}, None, None


def parse_text(lines: Iterable[str]) -> Text:
    """All dumps of a text, in order; of a page by rank."""
    found = Text()
    readers: dict[str, _Reader] = {}
    section: int | None = None
    for line in lines:
        line = _PRE.sub("", line.rstrip("\r\n"))
        if match := _SECTION.match(line.strip()):
            for reader in readers.values():
                reader.end()
            section = int(match["html"] or match["text"])
        elif section is not None and _FAILED.match(line):
            found.silent.append(section)
        else:
            _take(html.unescape(line) if section is not None else line, readers, section, found)
    for reader in readers.values():
        reader.end()
    return found


def _take(line: str, readers: dict[str, _Reader], section: int | None, found: Text) -> None:
    if "hread " in line and (begun := _FAULT.match(line) or _SPY.match(line)):
        reader = _reader(begun["prefix"], readers, section, found)
        key, thread = _begun(begun)
        if reader.pid is not None and "flags" not in begun.groupdict():
            reader.end()  # a text of faulthandler after one of py-spy
        reader.begin(key, thread)
    elif process := _SPY_PROCESS.match(line):
        reader = _reader(process["prefix"], readers, section, found)
        reader.end()
        reader.pid = int(process["pid"])
    elif begins := _DUMP_BEGINS.match(line):
        _reader(begins["prefix"], readers, section, found).end()
    elif owner := max((p for p in readers if line.startswith(p)), key=len, default=None) if readers else None:
        readers[owner].add(line[len(owner) :])
    elif "" in readers:
        readers[""].add(line)


def _reader(prefix: str, readers: dict[str, _Reader], section: int | None, found: Text) -> _Reader:
    reader = readers.setdefault(prefix, _Reader(found))
    reader.rank = section if section is not None else _rank_in(prefix)
    return reader


def _begun(match: re.Match[str]) -> tuple[str, Thread]:
    if "flags" not in match.groupdict():
        return match["id"], Thread(name=match["name"])
    flags = match["flags"].split("+")
    os_id = int(match["id"]) if match["id"].isdigit() else None
    return match["id"], Thread([], match["name"], os_id, "active" in flags, "gil" in flags)


def _frame_of(line: str, thread: Thread) -> bool:
    """Whether the line belongs to the thread, whose frame it then adds."""
    if match := _FAULT_FRAME.match(line):
        number = match["line"]
        func = (match["func"] or "").strip()
        thread.frames.append(Frame(bare(func), match["file"], int(number) if number.isdigit() else None))
        return True
    if match := _SPY_FRAME.match(line):
        file = match["file"]
        thread.frames.append(Frame(bare(match["func"]), file, int(match["line"]) if match["line"] else None))
        return True
    return bool(_FAULT_NONE.match(line) or _FAULT_CUT.match(line))


def _rank_in(prefix: str) -> int | None:
    match = _RANK.search(prefix.strip(" ") + (" " if prefix.endswith(" ") else ""))
    return next((int(group) for group in match.groups() if group), None) if match else None


def lines_of(data: bytes) -> Iterator[str]:
    """The lines of a text in whatever encoding; a line that is megabytes long is cut."""
    for line in data.split(b"\n"):
        yield line[:4096].decode("utf-8", "replace")
