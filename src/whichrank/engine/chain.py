"""Follow the next steps of verdicts, from skill to skill, on one evidence. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whichrank.engine.diagnosis import Diagnosis
from whichrank.engine.parameter import Value

if TYPE_CHECKING:
    from whichrank.engine.runner import Runner

LONGEST = 5  # steps


@dataclass(frozen=True, slots=True)
class Step:
    """One skill that was run, and with which parameters (those that were given)."""

    skill: str
    parameters: dict[str, Any]
    diagnosis: Diagnosis

    @property
    def label(self) -> str:
        """`training_hang (rank=2)`."""
        given = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"{self.skill} ({given})" if given else self.skill

    def as_dict(self, *, sql: bool) -> dict[str, Any]:
        """The JSON form: `parameters`, and the diagnosis. sql: with the text of each statement."""
        return {"parameters": self.parameters, **self.diagnosis.as_dict(sql=sql)}


def follow(
    runner: Runner, skill: str, parameters: Mapping[str, Any] | None = None, *, longest: int = LONGEST
) -> list[Step]:
    """Run the skill, then the first next step of its verdict that is a skill, and so on; no step twice.

    Two steps are the same when skill and all values are. Raises what `Runner.run` raises.
    """
    steps: list[Step] = []
    done: set[tuple[str, tuple[tuple[str, Value], ...]]] = set()
    todo: tuple[str, Mapping[str, Any]] | None = (skill, parameters or {})
    while todo and len(steps) < longest:
        id, given = todo
        chosen = runner.pack.skill(id)
        done.add((chosen.id, tuple(chosen.resolve(dict(given)).items())))
        steps.append(Step(chosen.id, dict(given), runner.run(id, given)))
        todo = next(
            (
                (step.skill, step.parameters)
                for step in steps[-1].diagnosis.next
                if step.skill
                and (step.skill, tuple(runner.pack.skill(step.skill).resolve(step.parameters).items())) not in done
            ),
            None,
        )
    return steps
