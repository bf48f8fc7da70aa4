"""The first screen at 80 columns, as people see it."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

from whichrank.engine.diagnosis import Coverage, Diagnosis, Finding, Gap, Next, Ran
from whichrank.surfaces.text import screen

ROOT = Finding(
    severity="error",
    category="rank_not_joined",
    group="default_pg",
    seq=25,
    op="all_reduce",
    ranks=[2],
    root=True,
    headline="rank 2 never joined all_reduce #25 of default_pg (4 ranks).",
    says="ranks 0, 1, 3 have waited in default_pg #25 for 12 s; rank 2 stopped after #24",
    means="rank 2 waits for nothing in NCCL. Look at the host.",
    shows={"last on rank 2": "all_reduce dp #12, train.py:88 in backward"},
    could_be_wrong_if=["the recorder of rank 2 was reset after #24"],
    next=[Next("whichrank diagnose STORE --skill training_hang", "training_hang", {"rank": 2})],
    explains=["dp #12", "tp #19"],
    evidence=[],
    evidence_rows=0,
    details={},
    check="checks.rank_not_joined",
)
VICTIM = replace(
    ROOT,
    severity="warning",
    category="collective_dtype_mismatch",
    root=False,
    ranks=[3],
    says="in dp #12 rank 3 brought Float, the others BFloat16; it finished all the same",
    shows={},
    next=[],
    explains=[],
)
SEEN = Coverage(ranks_seen=[0, 1, 2, 3], ranks_expected=[0, 1, 2, 3], records=612, groups=3)
FOUND = Diagnosis(
    skill="watchdog_timeout",
    category="rank_not_joined",
    culprit_ranks=[2],
    verdict=ROOT.headline,
    findings=[ROOT, VICTIM],
    gaps=[],
    coverage=SEEN,
    next=ROOT.next,
    ran=[Ran("statements.verdict", "", {}, 1, 0.0, lambda: "SELECT 1;")],
)


def _is(text: str, expected: str) -> None:
    assert text == dedent(expected).strip("\n")
    assert max(map(len, text.splitlines())) <= 80


def test_a_verdict() -> None:
    _is(
        screen(FOUND, seconds=0.31),
        """
        watchdog_timeout: rank 2 never joined all_reduce #25 of default_pg (4 ranks).

          error   rank_not_joined   ranks 0, 1, 3 have waited in default_pg #25 for 12
                                    s; rank 2 stopped after #24
                  last on rank 2    all_reduce dp #12, train.py:88 in backward
                  could be wrong if the recorder of rank 2 was reset after #24
                  next              whichrank diagnose STORE --skill training_hang
          explains 2 more findings (dp #12, tp #19): --all
          1 finding beside the verdict: --all
          not seen: nothing missing; 4 of 4 ranks left a dump
        4 ranks, 612 records, 0.3 s. The statements: --sql
        """,
    )


def test_all_shows_what_is_folded() -> None:
    _is(
        screen(FOUND, everything=True),
        """
        watchdog_timeout: rank 2 never joined all_reduce #25 of default_pg (4 ranks).

          error   rank_not_joined   ranks 0, 1, 3 have waited in default_pg #25 for 12
                                    s; rank 2 stopped after #24
                  last on rank 2    all_reduce dp #12, train.py:88 in backward
                  means             rank 2 waits for nothing in NCCL. Look at the host.
                  could be wrong if the recorder of rank 2 was reset after #24
                  next              whichrank diagnose STORE --skill training_hang

          warning collective_dtype_mismatch
                                    in dp #12 rank 3 brought Float, the others BFloat16;
                                    it finished all the same
                  means             rank 2 waits for nothing in NCCL. Look at the host.
                  could be wrong if the recorder of rank 2 was reset after #24
          explains 2 more findings (dp #12, tp #19)
          not seen: nothing missing; 4 of 4 ranks left a dump
        4 ranks, 612 records. The statements: --sql
        """,
    )


def test_nothing_found() -> None:
    healthy = replace(FOUND, category=None, culprit_ranks=[], findings=[], verdict="no_fault, nothing is open.")
    _is(
        screen(healthy),
        """
        watchdog_timeout: no_fault, nothing is open.

          not seen: nothing missing; 4 of 4 ranks left a dump
        4 ranks, 612 records. The statements: --sql
        """,
    )


def test_gaps_that_matter_come_first_and_the_list_is_bounded() -> None:
    gaps = [Gap("version", [], None, False, f"something small {i}") for i in range(6)]
    gaps.append(Gap("rank_without_dump", [3], None, True, "rank 3 left no dump"))
    missing = replace(SEEN, ranks_seen=[0, 1, 2], ranks_missing=[3])
    _is(
        screen(replace(FOUND, findings=[], gaps=gaps, coverage=missing)),
        """
        watchdog_timeout: rank 2 never joined all_reduce #25 of default_pg (4 ranks).

          not seen: 3 of 4 ranks left a dump
                    rank 3 left no dump (could change the verdict)
                    something small 0
                    something small 1
                    something small 2
                    something small 3
                    2 more: --all
        3 ranks, 612 records. The statements: --sql
        """,
    )


def test_a_command_is_never_cut_in_two() -> None:
    command = "whichrank diagnose /a/rather/long/path/to/the/dumps --skill training_hang --param rank=2"
    text = screen(replace(FOUND, findings=[replace(ROOT, next=[Next(command)], explains=[])]))
    assert f"\n          next\n          {command}\n" in text


def test_many_roots_and_labels_are_bounded() -> None:
    roots = [replace(ROOT, explains=[f"dp #{i}", f"tp #{i}"]) for i in range(9)]
    text = screen(replace(FOUND, findings=roots))
    assert text.count("rank_not_joined   ") == 5
    assert "explains 18 more findings (dp #0, tp #0, dp #1, tp #1, dp #2, tp #2, +12): --all" in " ".join(text.split())
    only = [replace(ROOT, explains=[]) for _ in range(9)]
    assert "4 more findings: --all" in screen(replace(FOUND, findings=only))
    beside = replace(FOUND, findings=[replace(ROOT, explains=[]), VICTIM])
    assert "1 finding beside the verdict: --all" in screen(beside)


def test_warnings_without_a_root_are_shown() -> None:
    assert "warning collective_dtype_mismatch" in screen(replace(FOUND, findings=[VICTIM]))


def test_colour_changes_no_character() -> None:
    coloured = screen(FOUND, colour=True)
    assert "\x1b[31m" in coloured
    plain = coloured
    for code in ("\x1b[31m", "\x1b[1m", "\x1b[0m"):
        plain = plain.replace(code, "")
    assert plain == screen(FOUND)


def test_what_a_file_says_cannot_command_the_terminal() -> None:
    evil = "ev\x1b[2J\x1b]0;title\x07il\u202e\x00"
    finding = replace(ROOT, headline=f"{evil} 中文", says=evil, shows={evil: evil}, next=[Next(f"whichrank {evil}")])
    gap = Gap("foreign", [], None, False, evil)
    text = screen(replace(FOUND, verdict=evil, findings=[finding], gaps=[gap]), everything=True)
    assert all(c.isprintable() for line in text.split("\n") for c in line)
    assert "ev [2J ]0;title il" in text
