"""Run a skill on evidence: facts, checks, words, verdict. SQL decides, YAML speaks; nothing is compared here."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from whichrank.engine import intake
from whichrank.engine.beforehand import lent
from whichrank.engine.chain import LONGEST, Step, follow
from whichrank.engine.diagnosis import INSUFFICIENT, Coverage, Diagnosis, Finding, Gap, Next, Ran
from whichrank.engine.manifest import Pack, Skill
from whichrank.engine.parameter import Value
from whichrank.engine.query import Query, parameters_used
from whichrank.engine.side_by_side import WORKERS, side_by_side
from whichrank.engine.speech import Speaker
from whichrank.engine.survey import Survey
from whichrank.engine.witnesses import Progress
from whichrank.errors import BrokenPack, QueryFailed, ShardGone
from whichrank.store.evidence import Evidence
from whichrank.tables import FLIGHT_RECORD

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from whichrank.engine.ray_cluster import RayCluster

OPENINGS = 5  # of a store whose shards go away while they are read
Values = Mapping[str, Value]


def diagnose(
    paths: Sequence[Path] | intake.Reading,
    skill: str = "watchdog_timeout",
    parameters: Mapping[str, Any] | None = None,
    *,
    pack: Pack | None = None,
    on_progress: Progress | None = None,
    cluster: RayCluster | None = None,
    language: str = "en",
) -> Diagnosis:
    """Read the paths and run one skill on them. A `Reading` is one that has begun.

    parameters: name -> value, as text or typed. cluster: where the facts of single ranks are made.
    language: in which findings say what they say (see language.py).
    Raises UsageError (unknown skill or parameter), NoEvidence, BrokenPack.
    """
    steps = diagnose_chain(
        paths,
        skill,
        parameters,
        chain=False,
        pack=pack,
        on_progress=on_progress,
        cluster=cluster,
        language=language,
    )
    return steps[0].diagnosis


def diagnose_chain(
    paths: Sequence[Path] | intake.Reading,
    skill: str = "health_overview",
    parameters: Mapping[str, Any] | None = None,
    *,
    chain: bool = True,
    pack: Pack | None = None,
    on_progress: Progress | None = None,
    cluster: RayCluster | None = None,
    language: str = "en",
) -> list[Step]:
    """The same, and then the next step of each verdict (see chain.py); at least one step."""
    pack = pack or Pack()

    def meanwhile() -> None:
        chosen = pack.skill(skill)
        chosen.resolve(dict(parameters or {}))  # a typing mistake is said before everything is read
        pack.library.facts_for(chosen.query_ids(frozenset()), frozenset())

    given = paths.paths if isinstance(paths, intake.Reading) else paths
    for left in reversed(range(OPENINGS)):
        try:
            begun = paths if isinstance(paths, intake.Reading) else intake.begin(paths, on_progress, cluster=cluster)
            with intake.open_evidence(begun, meanwhile=meanwhile) as evidence:
                if cluster:
                    cluster.take_stock(evidence)
                runner = Runner(pack, evidence, shlex.join(map(str, given)), cluster, language)
                steps = follow(runner, skill, parameters, longest=LONGEST if chain else 1)
                evidence.check_nothing_went()
                return steps
        except ShardGone:  # somebody tidies the store up; what stays is a whole snapshot
            if not left:
                raise
            paths = given
            if cluster:
                cluster.forget()
    raise AssertionError("unreachable")


class Runner:
    """Runs skills on one evidence; facts are made once per set of parameters."""

    def __init__(
        self,
        pack: Pack,
        evidence: Evidence,
        path: str = "STORE",
        cluster: RayCluster | None = None,
        language: str = "en",
    ) -> None:
        self.pack = pack
        self.evidence = evidence
        self.path = path
        self.cluster = cluster
        self.language = language
        self._made: dict[str, object] = {}
        self._ran: list[Ran] = []

    def run(self, skill_id: str, parameters: Mapping[str, Any] | None = None) -> Diagnosis:
        """One skill -> its diagnosis. Raises UsageError, BrokenPack, QueryFailed."""
        skill = self.pack.skill(skill_id)
        values = skill.resolve(dict(parameters or {}))
        survey = self._survey(skill, values) if skill.surveys else None
        self._ran = survey.ran if survey else []
        speaker = Speaker(self.pack, skill, self.path, self.language)
        lacking = self._lacking(skill)
        if lacking or not skill.verdict:
            return self._cannot(skill, lacking)
        self.make_facts(skill.query_ids(self.evidence.present), values)
        verdict = self._one_row(skill, values)
        told = self._ran.pop()  # it comes last in a printed script: that is what a client then shows
        found = verdict.get("found")  # a verdict that tells which checks have rows saves running the others
        findings = [
            speaker.finding(check, row)
            for check in skill.checks_given(self.evidence.present)
            if found is None or check.check in found
            for row in self.rows(f"checks.{check.check}", values)
        ]
        findings.sort(key=lambda finding: not finding.root)  # stable: within both, the order of the skill
        gaps = [speaker.gap(row) for row in self._statement(skill.gaps, values)]
        gaps += [Gap("left_out", [], text, False, text) for text in (survey.broken if survey else [])]
        coverage = [speaker.coverage(row) for row in self._statement(skill.coverage, values)]
        sentence = speaker.verdict(verdict, findings)
        gaps += speaker.broken_gaps()
        self._ran.append(told)
        return Diagnosis(
            skill=skill.id,
            category=verdict["category"],
            culprit_ranks=sorted(verdict["culprit_ranks"] or []),
            verdict=sentence,
            findings=findings,
            gaps=gaps,
            coverage=coverage[0] if coverage else Coverage(),
            next=_steps(findings),
            ran=self._ran,
            prelude=self._prelude(skill, bool(values.get("use_global", True))),
            seen_by=skill.seen_by,
        )

    def _survey(self, skill: Skill, values: dict[str, Value]) -> Survey:
        """Run the other skills, and add what they found to the values."""
        survey = Survey(self.pack, skill)
        survey.run(lambda other: not self._lacking(other), self.run, everywhere=bool(values.get("use_global", True)))
        values |= survey.values()
        return survey

    def _lacking(self, skill: Skill) -> list[str]:
        """The tables that it needs and that have no rows."""
        lacking = [table for table in skill.needs if not self.evidence.count(table)]
        if skill.needs_any and not any(map(self.evidence.count, skill.needs_any)):
            lacking += skill.needs_any
        return lacking

    def make_facts(self, ids: Iterable[str], values: Values) -> None:
        """Make the facts these queries read, unless they stand already for the same values."""
        ids = list(ids)
        has = self.evidence.present
        self._bring_entries(ids, has)
        made = dict(self._made)
        todo: dict[str, Query] = {}
        facts = self.pack.library.facts_for(ids, has)
        for fact in facts:
            read = tuple(made[read] for read in fact.reads_given(has) if read in made)
            recipe = (values.get("use_global", True), tuple(fact.values(values).items()), read)
            if made.get(fact.id) != recipe:
                todo[fact.id] = fact
                made[fact.id] = recipe
        ready = [id for id in lent(facts, values, has, self.evidence.facts_held) if id in todo]
        reading = [*map(self.pack.library.get, ids), *(fact for id, fact in todo.items() if id not in ready)]
        tables = {read for query in reading for read in query.reads_given(has) if not read.startswith("facts.")}
        self.evidence.load(sorted(tables), entries=False)
        ran = {id: self._lend(todo[id], values) for id in ready}
        ran |= self._make({id: fact for id, fact in todo.items() if id not in ran}, values)
        self._ran += [ran[id] for id in todo]
        self._made = made

    def _lend(self, fact: Query, values: Values) -> Ran:
        """A fact that stands in a compacted file."""
        started = perf_counter()
        rows = self.evidence.lend(fact.id)
        return self._told(fact, values, rows, perf_counter() - started)

    def _make(self, todo: Mapping[str, Query], values: Values) -> dict[str, Ran]:
        """Make these facts, two at a time."""
        has = self.evidence.present
        self.evidence.take_back(todo)
        needs = {id: [read for read in fact.reads_given(has) if read in todo] for id, fact in todo.items()}
        cursors = [self.evidence.connection.cursor() for _ in range(min(WORKERS, len(todo)))]
        free = list(cursors)

        def make(id: str) -> Ran:
            cursor = free.pop()
            try:
                return self._execute(todo[id], values, cursor)[1]
            finally:
                free.append(cursor)

        def stop() -> None:
            for cursor in cursors:
                cursor.interrupt()

        return side_by_side(needs, make, stop)

    def _bring_entries(self, ids: list[str], has: AbstractSet[str]) -> None:
        """Entries that lie on a cluster are fetched where something else than the facts made there reads them."""
        if self.cluster is None:
            return
        queries = [*self.pack.library.facts_for(ids, has), *map(self.pack.library.get, ids)]
        if any(FLIGHT_RECORD.full_name in q.reads_given(has) for q in queries if not self.cluster.makes(q)):
            self.evidence.add(self.cluster.entries())
            self.cluster = None

    def rows(self, id: str, values: Values) -> list[dict[str, Any]]:
        """The rows of a check or statement, whose facts were made; column name -> value."""
        rows, ran = self._execute(self.pack.library.get(id), values, self.evidence.connection)
        self._ran.append(ran)
        return rows

    def make_tables(self, ids: Iterable[str], values: Values) -> None:
        """Make these queries tables of their own name (`statements.collective_alignment`), and the facts they read."""
        queries = [self.pack.library.get(id) for id in ids]
        self.make_facts([query.id for query in queries], values)
        for query in queries:
            if query.kind != "facts":
                self._ran.append(self._execute(query, values, self.evidence.connection, as_table=True)[1])

    def _execute(
        self, query: Query, values: Values, connection: DuckDBPyConnection, as_table: bool = False
    ) -> tuple[list[dict[str, Any]], Ran]:
        import duckdb

        use_global = bool(values.get("use_global", True))
        has = self.evidence.present
        sql = query.statement(use_global, has, as_table)
        bound = query.values(values)
        used = set(parameters_used(sql))  # DuckDB refuses a value that the chosen structure does not use
        given = {n: v for n, v in bound.items() if n in used}
        started = perf_counter()
        try:
            if self.cluster and self.cluster.makes(query):
                select = query.render(use_global, has)
                rows = [{"Count": self.cluster.make(query, select, given, self.evidence, connection)}]
            else:
                result = connection.execute(sql, given)
                columns = [column[0] for column in result.description or ()]
                rows = [dict(zip(columns, row, strict=True)) for row in result.fetchall()]
        except duckdb.IOException as error:
            raise ShardGone(f"{query.path}: {error}", looked_for=query.summary) from None
        except duckdb.Error as error:
            raise QueryFailed(f"{query.path}: {error}", looked_for=query.summary) from None
        count = rows[0]["Count"] if as_table or query.kind == "facts" else len(rows)
        return rows, self._told(query, values, count, perf_counter() - started)

    def _told(self, query: Query, values: Values, rows: int, seconds: float) -> Ran:
        shown = {n: values.get(n, p.default) for n, p in query.params.items()}
        printed = partial(query.printable, bool(values.get("use_global", True)), values, self.evidence.present)
        return Ran(query.id, query.summary, shown, rows, seconds, printed)

    def _statement(self, name: str | None, values: Values) -> list[dict[str, Any]]:
        return self.rows(f"statements.{name}", values) if name else []

    def _one_row(self, skill: Skill, values: Values) -> dict[str, Any]:
        rows = self._statement(skill.verdict, values)
        if len(rows) != 1:
            raise BrokenPack(f"statements.{skill.verdict}: a verdict is one row, not {len(rows)}")
        return rows[0]

    def _prelude(self, skill: Skill, use_global: bool) -> str:
        path = " ".join(self.path.split())  # a comment is one line
        comment = [f"-- whichrank diagnose {path} --skill {skill.id}"]
        if self.evidence.holds_dumps:
            comment.append(f"-- The rows came from dumps. First: whichrank collect {path} --into STORE")
        tables = self.pack.library.tables_for(skill.query_ids(self.evidence.present), self.evidence.present)
        ddl = self.evidence.prelude(tables, use_global=use_global)
        return "\n".join([*comment, *(f"{statement};" for statement in ddl)])

    def _instead(self, skill: Skill) -> Iterator[Next]:
        """The related skills that can tell something here."""
        for id in skill.related:
            other = self.pack.skill(id)
            if other.verdict and not self._lacking(other):
                yield Next(f"whichrank diagnose {self.path} --skill {id}", id)

    def _cannot(self, skill: Skill, lacking: list[str]) -> Diagnosis:
        """The diagnosis of a skill whose evidence is not there: what it lacks, and how to get it."""
        ways = {table: self.pack.manifest.tables.get(table, "nothing collects it yet") for table in lacking}
        if lacking:
            why = f"{skill.id} cannot tell anything here: there are no rows in {', '.join(lacking)}"
        else:
            why = f"{skill.id} has no checks yet"
        return Diagnosis(
            skill=skill.id,
            category=INSUFFICIENT,
            culprit_ranks=[],
            verdict=f"{why}.",
            findings=[],
            gaps=[Gap("no_rows", [], table, True, f"{table} has no rows: {way}") for table, way in ways.items()],
            coverage=Coverage(),
            next=[*self._instead(skill), *(Next(way) for way in dict.fromkeys(ways.values()))],
            ran=[],
        )


def _steps(findings: list[Finding]) -> list[Next]:
    steps = {step.command: step for finding in findings if finding.root for step in finding.next}
    return list(steps.values())
