"""The pack of this package holds together, and a broken one is told with file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.mini import FILES, write_pack
from whichrank.engine.manifest import Manifest, Pack, Skill
from whichrank.engine.query import read_yaml
from whichrank.engine.validation import check_types, problems, validate
from whichrank.errors import BrokenPack

MINI = "skill/mini/skill.yaml"


@pytest.mark.headers
def test_our_pack_holds_together() -> None:
    pack = Pack()
    check_types(Manifest, read_yaml(Path(), (pack.root / "skill.yaml").read_text()), pack.root / "skill.yaml")
    for entry in pack.manifest.skills:
        path = pack.skill_path(entry.id)
        check_types(Skill, read_yaml(path, path.read_text()), path)
    assert list(problems(pack)) == []


@pytest.mark.headers
def test_every_check_belongs_to_a_skill() -> None:
    pack = Pack()
    used = {query for skill in pack.skills() for query in skill.query_ids()}
    used |= {f"statements.{name}" for skill in pack.skills() for name in skill.statements}
    used |= {fact.id for fact in pack.library.facts_for(used)}
    assert set(pack.library.ids()) == used, "every fact is read, every check and statement belongs to a skill"


@pytest.mark.headers
def test_skill_md_follows_the_agent_skills_standard() -> None:
    pack = Pack()
    for entry in pack.manifest.skills:
        text = (pack.skill_path(entry.id).parent / "SKILL.md").read_text()
        _, front, body = text.split("---\n", 2)
        keys = read_yaml(Path("SKILL.md"), front)
        assert set(keys) <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
        assert keys["name"] == entry.folder == entry.id.replace("_", "-")
        assert 40 < len(keys["description"]) <= 1024
        assert len(body.splitlines()) < 150


def test_the_small_pack_has_only_the_problems_of_a_small_pack(tmp_path: Path) -> None:
    """Its statements have empty headers, which is what the columns are compared with."""
    found = list(problems(Pack(write_pack(tmp_path))))
    assert all("lacks the columns" in text or "have no column" in text for text in found)


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("skill.yaml", "version: 0.0.1", "verzion: 0.0.1", r"skill\.yaml: (verzion|version)"),
        ("skill.yaml", "folder: mini,", "", r"skill\.yaml: skills\.0\.folder"),
        (MINI, "question: Who is behind?", "", r"mini/skill\.yaml: question"),
        (MINI, "means: Look at the host.", "meens: x", r"mini/skill\.yaml: checks\.0\.meens"),
        (MINI, "type: integer, default: 0", "type: int, default: 0", r"parameters\.slack\.type"),
        (MINI, "id: mini", "id: minor", r"id, category: minor, distributed differ"),
        (MINI, "keywords: {en: [behind]}", "keywords: [behind]", r"mini/skill\.yaml: keywords"),
        (MINI, "needs: [", "needs: [[", "not YAML"),
    ],
)
def test_broken_manifests_name_file_and_key(tmp_path: Path, file: str, old: str, new: str, says: str) -> None:
    assert old in FILES[file]
    with pytest.raises(BrokenPack, match=says):
        Pack(write_pack(tmp_path, {file: FILES[file].replace(old, new)})).skill("mini")


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("skill.yaml", "to: stacks", "to: stax", r"skill\.yaml: chains: there is no skill stax"),
        (MINI, "check: behind", "check: behint", r"mini/skill\.yaml: there is no query checks\.behint"),
        (MINI, "verdict: verdict", "verdict: sentence", r"there is no query statements\.sentence"),
        (MINI, "{{ op }}", "{{ opp }}", r"checks\.behind\.headline: the rows have no column .*opp"),
        (MINI, "{{ waited_s|seconds }}", "{{ waited_s|secs }}", r"checks\.behind\.says: No filter named 'secs'"),
        (MINI, "skill: stacks", "skill: stax", r"checks\.behind\.next\.skill: there is no skill stax"),
        (MINI, '{rank: "{{', '{rnk: "{{', r"next\.parameters: stacks has no parameter rnk"),
        (MINI, "python.torch_nccl_dump", "python.nope", r"needs: python\.nope is not in skill\.yaml: tables"),
        (MINI, "slack: {type: integer", "slak: {type: integer", r"parameters\.slak: no statement of the skill has it"),
        (
            MINI,
            "{type: integer, default: 0",
            "{type: text, default: a",
            r"parameters\.slack: type text, but statements say integer",
        ),
        ("sql/facts/late.sql", "- $slack", "- $slick", r"late\.sql: params: \$sl[ia]ck is"),
        ("sql/facts/late.sql", "[facts.newest]", "[facts.newes]", r"no query facts\.newes|there is no facts\.newes"),
        (
            "sql/facts/newest.sql",
            "torch_nccl_flight_record]",
            "torch_nccl_fligt]",
            r"reads: there is no python\.torch_nccl_fligt",
        ),
    ],
)
def test_a_pack_that_contradicts_itself(tmp_path: Path, file: str, old: str, new: str, says: str) -> None:
    assert old in FILES[file]
    with pytest.raises(BrokenPack, match=says):
        validate(Pack(write_pack(tmp_path, {file: FILES[file].replace(old, new)})))
