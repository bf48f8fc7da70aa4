"""The runner on the smallest pack: order, words, verdict, gaps, what is lacking."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.mini import FILES, batches, write_pack
from whichrank.engine.manifest import Pack
from whichrank.engine.runner import Runner
from whichrank.errors import QueryFailed, UsageError
from whichrank.store.evidence import Evidence


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    return Pack(write_pack(tmp_path / "pack"))


def test_a_rank_behind_is_found_and_said(pack: Pack) -> None:
    with Evidence(batches({0: 3, 1: 3, 2: 2})) as evidence:
        diagnosis = Runner(pack, evidence, "dumps").run("mini")
    assert diagnosis.category == "behind"
    assert diagnosis.culprit_ranks == [2]
    assert diagnosis.verdict == "rank 2 is behind at nccl:all_reduce #3."
    (finding,) = diagnosis.findings
    assert finding.says == "ranks 0, 1 wait at #3 for 12 s"
    assert finding.could_be_wrong_if == ["the recorder of rank 2 was reset"]
    assert finding.evidence == [{"rank": 2}]
    assert finding.shows == {}
    assert [step.command for step in diagnosis.next] == [
        "look at the host of rank 2",
        "whichrank diagnose dumps --skill stacks --param rank=2",
    ]
    assert diagnosis.next[1].parameters == {"rank": 2}
    assert diagnosis.coverage.records == 8
    assert diagnosis.exit_code == 1


def test_a_healthy_job_is_silent(pack: Pack) -> None:
    with Evidence(batches({0: 3, 1: 3})) as evidence:
        diagnosis = Runner(pack, evidence).run("mini")
    assert (diagnosis.category, diagnosis.culprit_ranks, diagnosis.findings) == (None, [], [])
    assert diagnosis.verdict == "Nobody is behind."
    assert diagnosis.exit_code == 0


def test_parameters_reach_the_facts_and_are_checked(pack: Pack) -> None:
    with Evidence(batches({0: 3, 1: 2})) as evidence:
        runner = Runner(pack, evidence)
        assert runner.run("mini").category == "behind"
        assert runner.run("mini", {"slack": "1"}).category is None, "the fact was made again for another value"
        assert runner.run("mini", {"slack": 1}).ran[0].name == "checks.behind", "and is not made twice"
        with pytest.raises(UsageError, match="no parameter slak") as unknown:
            runner.run("mini", {"slak": 1})
        assert "slack (integer, default 0)" in str(unknown.value.looked_for)
        with pytest.raises(UsageError, match="'many' is not of type integer"):
            runner.run("mini", {"slack": "many"})
        with pytest.raises(UsageError, match="there is no skill nimi"):
            runner.run("nimi")


def test_local_means_this_host(pack: Pack) -> None:
    with Evidence(batches({0: 3, 1: 2}, {0: "here", 1: "there"}), host="here") as evidence:
        runner = Runner(pack, evidence)
        assert runner.run("mini").category == "behind"
        local = runner.run("mini", {"use_global": False})
    assert local.category is None
    assert local.coverage.ranks_seen == [0]


def test_a_skill_without_rows_says_what_it_lacks(pack: Pack) -> None:
    with Evidence(batches({0: 3})) as evidence:
        diagnosis = Runner(pack, evidence).run("stacks")
    assert diagnosis.category == "insufficient_evidence"
    assert diagnosis.exit_code == 2
    assert diagnosis.verdict == "stacks cannot tell anything here: there are no rows in python.backtrace."
    assert [(gap.kind, gap.says) for gap in diagnosis.gaps] == [("no_rows", "python.backtrace has no rows: run py-spy")]
    assert [step.command for step in diagnosis.next] == ["run py-spy"]


def test_broken_words_do_not_cost_the_verdict(tmp_path: Path) -> None:
    words = (
        FILES["skill/mini/skill.yaml"]
        .replace("{{ op }} #{{ seq }}.", "{{ opp }}")
        .replace("{{ ranks[0] }}", "{{ ranks[9] }}")
    )
    pack = Pack(write_pack(tmp_path, {"skill/mini/skill.yaml": words}))
    with Evidence(batches({0: 3, 1: 2})) as evidence:
        diagnosis = Runner(pack, evidence).run("mini")
    assert diagnosis.culprit_ranks == [1]
    assert diagnosis.verdict == "behind: rank 1"
    assert [gap.kind for gap in diagnosis.gaps] == ["broken_words"] * 2
    assert "checks.behind.headline: 'opp' is undefined" in diagnosis.gaps[0].says


def test_broken_sql_names_the_file(tmp_path: Path) -> None:
    sql = FILES["sql/facts/late.sql"].replace("FROM facts.newest WHERE", "FROM facts.newest WERE")
    pack = Pack(write_pack(tmp_path, {"sql/facts/late.sql": sql}))
    with Evidence(batches({0: 3})) as evidence, pytest.raises(QueryFailed, match=r"facts/late\.sql: Parser Error"):
        Runner(pack, evidence).run("mini")
