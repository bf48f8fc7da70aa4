"""A row of a check and the words of its skill -> a Finding, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whichrank.engine.diagnosis import Coverage, Finding, Gap, Next
from whichrank.engine.language import sayings
from whichrank.engine.words import ranks_text, render, variables

if TYPE_CHECKING:
    from whichrank.engine.manifest import Check, Pack, Skill

Row = Mapping[str, Any]
EVIDENCE_ROWS = 100  # an agent reads it; the statement gives all
CONTRACT = ("severity", "category", "group_name", "seq", "op", "ranks", "root", "explains", "evidence")


class Speaker:
    """Renders the words of one skill.

    A template that fails must not cost the reader the verdict: plain words stand in for it and `broken` says where.
    """

    def __init__(self, pack: Pack, skill: Skill, path: str, language: str = "en") -> None:
        self.pack = pack
        self.skill = skill
        self.path = path
        self.language = language
        self.broken: list[str] = []
        self._sayings = sayings(pack.skill_path(skill.id), language) if language != "en" else {}

    def finding(self, check: Check, row: Row) -> Finding:
        """The finding for one row of `check`."""
        known = {**row, "path": self.path, "skill": self.skill.id}
        known |= {name: row.get(name) or [] for name in ("ranks", "explains", "evidence")}
        ranks = sorted(known["ranks"])
        plain = f"{row['category']}: {ranks_text(ranks)}"

        def say(key: str, template: str, otherwise: str = "") -> str:
            return self._render(f"checks.{check.check}.{key}", template, known, otherwise)

        return Finding(
            severity=row["severity"],
            category=row["category"],
            group=row["group_name"],
            seq=row["seq"],
            op=row["op"],
            ranks=ranks,
            root=bool(row["root"]),
            headline=" ".join(
                filter(None, (say("headline", check.headline, plain), say("verdict_also", self.skill.verdict_also)))
            ),
            says=self._saying(check, known) or say("says", check.says, plain),
            means=say("means", check.means),
            shows=self._labelled(self.skill.shows, known, say),
            could_be_wrong_if=[text for t in check.might_be_wrong_if if (text := say("might_be_wrong_if", t))],
            next=self._next(check, say),
            explains=list(known["explains"]),
            evidence=list(known["evidence"])[:EVIDENCE_ROWS],
            evidence_rows=len(known["evidence"]),
            details={name: value for name, value in row.items() if name not in CONTRACT},
            check=f"checks.{check.check}",
        )

    def gap(self, row: Row) -> Gap:
        """The gap for one row of the gaps statement; without words for its kind it says kind and ranks."""
        ranks = sorted(row["ranks"] or [])
        plain = row["detail"] or f"{row['kind'].replace('_', ' ')}: {ranks_text(ranks)}"
        template = self.skill.gap_words.get(row["kind"], "")
        says = self._render(f"gap_words.{row['kind']}", template, {**row, "ranks": ranks, "path": self.path}, "")
        return Gap(row["kind"], ranks, row["detail"], bool(row["matters"]), says or plain)

    def verdict(self, row: Row, findings: Sequence[Finding]) -> str:
        """The sentence for the row of the verdict: the headline of the first root of its category."""
        category: str | None = row["category"]
        if category is None:
            return self._render("nothing_found", self.skill.nothing_found, row, "nothing was found.")
        roots = [finding for finding in findings if finding.root]
        named = [finding for finding in roots if finding.category == category]
        return next((finding.headline for finding in (*named, *roots)), category.replace("_", " "))

    def coverage(self, row: Row) -> Coverage:
        """The row of the coverage, with words for what it lists."""
        seen, expected, missing = (sorted(row[f"ranks_{which}"] or []) for which in ("seen", "expected", "missing"))
        collected = {
            label: [{**item, "says": self._render(f"collected.{label}", text, item, str(item))} for item in row[label]]
            for label, text in self.skill.collected.items()
        }
        return Coverage(seen, expected, missing, row["records"] or 0, row["groups"] or 0, collected)

    def broken_gaps(self) -> list[Gap]:
        """A gap for each template that failed."""
        return [Gap("broken_words", [], text, False, f"words missing: {text}") for text in dict.fromkeys(self.broken)]

    def _labelled(self, shows: dict[str, str], row: Row, say: Callable[..., str]) -> dict[str, str]:
        """Label -> text, where the row has the columns of both."""
        lines = {
            say("shows", label): say(f"shows.{label}", text)
            for label, text in shows.items()
            if variables(f"{label} {text}") <= row.keys()
        }
        return {label: text for label, text in lines.items() if label and text}

    def _next(self, check: Check, say: Callable[..., str]) -> list[Next]:
        """The commands of `do_next`, then the chain with the command that runs it."""
        steps = [Next(text) for template in check.do_next if (text := say("do_next", template))]
        if check.next:
            target = self.pack.skill(say("next.skill", check.next.skill))
            words = {name: say(f"next.parameters.{name}", text) for name, text in check.next.parameters.items()}
            given = {name: text for name, text in words.items() if text and name in target.parameters}
            values = {name: target.parameter(name).parse(text) for name, text in given.items()}
            parameters = "".join(f" --param {name}={words[name]}" for name in values)
            command = f"whichrank diagnose {self.path} --skill {target.id}{parameters}"
            steps.append(Next(command, target.id, values))
        return steps

    def _saying(self, check: Check, row: Row) -> str:
        """What the check says in the reader's language; empty where nobody has said it in that."""
        template = self._sayings.get(check.check, "")
        return self._render(f"{self.language}: {check.check}", template, row, "", self.language)

    def _render(self, key: str, template: str, row: Row, otherwise: str, language: str = "en") -> str:
        from jinja2 import TemplateError

        try:
            return render(template, row, language)
        except (TemplateError, TypeError, ValueError) as error:
            self.broken.append(f"{self.pack.skill_path(self.skill.id)}: {key}: {error}")
            return otherwise
