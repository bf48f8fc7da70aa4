"""Words of a skill: jinja2 templates over the columns of a row, and the few filters they may use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

# A template is broken into lines where it is long; Chinese has no blank there, nor beside its punctuation.
_HAN, _STOPS = "\u4e00-\u9fff", "，。；：、（）"
_BLANK = re.compile(f"(?<=[{_HAN}{_STOPS}]) (?=[{_HAN}{_STOPS}])|(?<=[{_STOPS}]) | (?=[{_STOPS}])")
LANGUAGES = ("en", "zh")
_PIECES = 8  # runs of ranks shown before the rest is only counted


def numbers(ranks: Sequence[int], pieces: int = _PIECES) -> str:
    """Ranks as compact runs: `0, 1, 3`, `0-14, 16`; after `pieces` runs the rest is counted: `0, 2, 4 (+61)`."""
    runs: list[tuple[int, int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    shown: list[str] = []
    rest = 0
    for first, last in runs:
        parts = [f"{first}-{last}"] if last - first > 1 else [str(rank) for rank in range(first, last + 1)]
        if len(shown) + len(parts) <= pieces:
            shown += parts
        else:
            rest += last - first + 1
    return ", ".join(shown) + (f" (+{rest})" if rest else "")


def ranks_text(ranks: Sequence[int] | None) -> str:
    """`rank 2`, `ranks 0, 1, 3`, `ranks 0-14, 16`, `no rank`, `unknown ranks`."""
    if ranks is None:
        return "unknown ranks"
    if not ranks:
        return "no rank"
    return f"{'rank' if len(set(ranks)) == 1 else 'ranks'} {numbers(ranks)}"


def agree(ranks: Sequence[object] | None, one: str, many: str) -> str:
    """The verb that fits the ranks: `{{ waiting|agree('has', 'have') }}`."""
    return one if ranks is not None and len(ranks) == 1 else many


def seconds_text(seconds: float | None) -> str:
    """A duration as people say it: `0.4 ms`, `0.4 s`, `12 s`, `11 min`, `2.5 h`; `an unknown time` for None."""
    if seconds is None:
        return "an unknown time"
    if 0 < seconds < 0.1:
        return f"{seconds * 1000:.2g} ms"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def at(group: str | None, seq: int | None) -> str:
    """A place: `dp #12`, or `dp` for p2p, which has no common number."""
    return f"{group or 'unknown group'} #{seq}" if seq is not None else group or "unknown group"


FILTERS = {"ranks": ranks_text, "numbers": numbers, "agree": agree, "seconds": seconds_text, "at": at}


def _ranks_zh(ranks: Sequence[int] | None) -> str:
    if ranks is None:
        return "未知的 rank"
    return f"rank {numbers(ranks)}" if ranks else "没有 rank"


def _seconds_zh(seconds: float | None) -> str:
    if seconds is None:
        return "未知时长"
    said = seconds_text(seconds)
    for unit, chinese in ((" min", " 分钟"), (" s", " 秒"), (" h", " 小时")):
        said = said.removesuffix(unit) + chinese if said.endswith(unit) else said
    return said


def _at_zh(group: str | None, seq: int | None) -> str:
    return at(group or "未知的组", seq)


FILTERS_ZH = FILTERS | {"ranks": _ranks_zh, "seconds": _seconds_zh, "at": _at_zh}


@cache
def templates(language: str = "en") -> SandboxedEnvironment:
    """The environment of all words: sandboxed, undefined names are errors, NULL prints as `unknown`."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    unknown = "未知" if language == "zh" else "unknown"
    environment = SandboxedEnvironment(
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=lambda value: unknown if value is None else value,
    )
    environment.filters.update(FILTERS_ZH if language == "zh" else FILTERS)
    return environment


def render(template: str, row: Mapping[str, Any], language: str = "en") -> str:
    """One line of words. Raises jinja2.TemplateError (a name the row lacks, a syntax error)."""
    text: str = templates(language).from_string(template).render(row) if "{" in template else template
    line = " ".join(text.split())
    return line if language == "en" else _BLANK.sub("", line)


@cache
def variables(template: str) -> frozenset[str]:
    """The names a template needs; none for one that cannot be parsed, which rendering then says."""
    from jinja2 import TemplateSyntaxError, meta

    try:
        return frozenset(meta.find_undeclared_variables(templates().parse(template)))
    except TemplateSyntaxError:
        return frozenset()
