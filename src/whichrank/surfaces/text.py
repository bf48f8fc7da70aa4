"""A diagnosis as the first screen: the verdict, its findings, what was not seen, how much was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from whichrank.engine.chain import Step
from whichrank.engine.diagnosis import INSUFFICIENT, Diagnosis, Finding
from whichrank.surfaces.columns import columns, padded, plain, wrapped

_SEVERITY = 10  # column of the labels
_TEXT = 28  # column of the texts
_ROOTS, _GAPS, _STEPS, _LABELS = 5, 5, 2, 6  # how many are shown without --all
_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


def screen(
    diagnosis: Diagnosis,
    *,
    everything: bool = False,
    width: int = 80,
    colour: bool = False,
    seconds: float | None = None,
) -> str:
    """The screen as text, without a newline at its end.

    everything: with the findings that others explain, meanings, and every gap.
    seconds:    time taken, for the last line; None leaves it out (goldens).
    """
    headline = wrapped(f"{diagnosis.skill}: {diagnosis.verdict}", width)
    lines = [click.style(line, bold=True) if colour else line for line in headline]
    roots = [finding for finding in diagnosis.findings if finding.root]
    others = [finding for finding in diagnosis.findings if not finding.root]
    shown = [*roots, *others] if everything or not roots else roots[:_ROOTS]
    for finding in shown:
        lines += ["", *_finding(finding, everything, width, colour)]
    lines += _folded(roots, shown, len(diagnosis.findings), everything, width)
    lines += [] if shown else [""]
    lines += _collected(diagnosis, width)
    lines += _not_seen(diagnosis, everything, width)
    if not shown and diagnosis.category == INSUFFICIENT:  # the same evidence can tell something else
        lines += [f"  next: {plain(step.command)}" for step in diagnosis.next if step.skill]
    lines.append(_footer(diagnosis, seconds))
    return "\n".join(line.rstrip() for line in lines)


def path_of(steps: Sequence[Step], width: int = 80) -> str:
    """The way of a chain, in a line or two."""
    return "\n".join(wrapped("path: " + " -> ".join(step.label for step in steps), width))


def _finding(finding: Finding, everything: bool, width: int, colour: bool) -> Iterator[str]:
    severity = f"  {finding.severity:<{_SEVERITY - 2}}"
    if colour:
        severity = click.style(severity, fg=_COLOURS.get(finding.severity))
    rows = [(finding.category, finding.says), *finding.shows.items()]
    rows += [("means", finding.means)] if everything and finding.means else []
    rows += [("could be wrong if" if i == 0 else "", text) for i, text in enumerate(finding.could_be_wrong_if)]
    steps = finding.next if everything else finding.next[:_STEPS]
    rows += [("next" if i == 0 else "", step.command) for i, step in enumerate(steps)]
    for number, (label, text) in enumerate(rows):
        first, *rest = _row(label, text, width)
        yield (severity if number == 0 else " " * _SEVERITY) + first
        yield from (" " * _SEVERITY + line for line in rest)


def _row(label: str, text: str, width: int) -> list[str]:
    """Label and text side by side; a label that is too long, or a command, gets a line of its own."""
    column = _TEXT - _SEVERITY
    label, text = plain(label), plain(text)
    if text.startswith("whichrank ") and len(text) > width - _TEXT:
        return [label, text] if label else [text]  # a command that was cut in two cannot be copied
    lines = wrapped(text, width - _TEXT)
    if columns(label) >= column:
        return [label, *(" " * column + line for line in lines)]
    return [padded(label if number == 0 else "", column) + line for number, line in enumerate(lines)]


def _folded(roots: Sequence[Finding], shown: Sequence[Finding], total: int, everything: bool, width: int) -> list[str]:
    """What the shown findings explain, and how many findings are not shown."""
    lines = []
    labels = list(dict.fromkeys(label for finding in roots for label in finding.explains))
    if labels:
        named = labels if everything else labels[:_LABELS]
        rest = f", +{len(labels) - len(named)}" if len(named) < len(labels) else ""
        line = f"explains {_count(len(labels), 'more finding')} ({', '.join(named)}{rest})"
        lines += _indented(line + ("" if everything else ": --all"), width)
    hidden_roots = len(roots) - sum(finding.root for finding in shown)
    hidden_others = total - len(shown) - hidden_roots
    if hidden_roots:
        lines += _indented(f"{_count(hidden_roots, 'more finding')}: --all", width)
    if hidden_others:
        lines += _indented(f"{_count(hidden_others, 'finding')} beside the verdict: --all", width)
    return lines


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _collected(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    for label, rows in diagnosis.coverage.collected.items():
        for number, row in enumerate(rows):
            first, *rest = wrapped(row["says"], width - 12)
            yield f"  {label if number == 0 else '':<10}{first}"
            yield from (" " * 14 + line for line in rest)


def _not_seen(diagnosis: Diagnosis, everything: bool, width: int) -> Iterator[str]:
    gaps, coverage, seen_by = diagnosis.gaps, diagnosis.coverage, diagnosis.seen_by
    if not gaps and not coverage.ranks_seen:
        return
    seen, expected = len(coverage.ranks_seen), len(coverage.ranks_expected)
    left = f"{seen} of {max(expected, seen)} ranks {seen_by}" if expected else f"{seen} ranks {seen_by}"
    ordered = sorted(gaps, key=lambda gap: not gap.matters)
    shown = ordered if everything else ordered[:_GAPS]
    if not gaps:
        complete = "" if coverage.ranks_missing else "nothing missing; "
        yield from _indented(f"not seen: {complete}{left}", width)
        return
    texts = [gap.says + (" (could change the verdict)" if gap.matters else "") for gap in shown]
    hidden = len(gaps) - len(shown)
    texts += [f"{hidden} more: --all"] if hidden else []
    yield from _indented(f"not seen: {left}" if seen else "not seen:", width)
    for text in texts:
        yield from _indented(text, width, indent=12)


def _footer(diagnosis: Diagnosis, seconds: float | None) -> str:
    coverage = diagnosis.coverage
    parts = []
    if coverage.ranks_seen:
        parts = [_count(len(coverage.ranks_seen), "rank"), _count(coverage.records, "record")]
    parts += [] if seconds is None else [f"{seconds:.1f} s"]
    read = ", ".join(parts) + ". " if parts else ""
    return read + ("The statements: --sql" if diagnosis.ran else "No statement was run.")


def _indented(line: str, width: int, indent: int = 2) -> list[str]:
    return [" " * indent + part for part in wrapped(line, width - indent)]
