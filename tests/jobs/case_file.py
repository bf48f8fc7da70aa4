"""Writes `case.yaml` of a fixture: what happened, how the evidence was made, and the truth."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.jobs.story import Truth

FIXTURES = Path(__file__).parents[2] / "fixtures"


def write_case(
    folder: Path,
    told: str,
    made_by: str,
    how: str,
    torch: str | None,
    ranks: int,
    truth: Truth,
    skill: str | None = None,
) -> None:
    """`made_by` is "recorded" (by PyTorch `torch`) or "built"; `how` is the command that makes the evidence again.

    skill: whose fixture it is; None is watchdog_timeout.
    """
    verdict = truth.as_json()
    why = verdict.pop("why")
    case = {"name": folder.name, "story": " ".join(told.split()), "made_by": made_by, "how": how, "torch": torch}
    case |= {"skill": skill} if skill else {}
    text = yaml.safe_dump(case | {"ranks": ranks, "truth": verdict, "why": why}, sort_keys=False, width=110)
    (folder / "case.yaml").write_text(text)
