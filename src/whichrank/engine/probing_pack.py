"""Our skills in the form in which probing finds packs: catalog.yaml, and steps.yaml with SKILL.md per skill.

probing (after 0.2.4) loads the entry point `probing.skills` and runs the steps on its own tables, with its own engine
(DataFusion). Our facts are DuckDB and need rows of all ranks, so a step shows what is there and where ranks differ, and
names the command that gives the verdict. Everything is generated from the manifest.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whichrank.engine.manifest import Entry, Pack, Skill
from whichrank.engine.query import Query, load

API = "probing.dev/v1"
CATALOG = "catalog.yaml"
STEPS = "steps.yaml"
# What probing has under a name of ours, and what stands for what it lacks.
_TABLES = frozenset(
    {
        "python.torch_nccl_flight_record", "python.torch_nccl_pg_status", "python.backtrace", "python.torch_trace",
        "cpu.utilization", "gpu.utilization", "nccl.proxy_ops", "nccl.net_qp", "nccl.coll_perf",
    }
)  # fmt: skip
_STANDS_FOR = {"python.torch_nccl_dump": "python.torch_nccl_flight_record"}
_RECORDER = "python.torch_nccl_flight_record"
_TYPES = {"integer": "integer", "boolean": "boolean", "double": "string", "text": "string"}
_GLOBAL = re.compile(r"\bglobal\.(?=[a-z]+\.)")


def probing_pack() -> Path:
    """The folder of the pack, in the cache of the user; written when it is not there or not ours any more.

    A cache that cannot be written is replaced by a temporary folder.
    """
    files = dict(_files(Pack()))
    digest = hashlib.sha256("\0".join(part for item in sorted(files.items()) for part in item).encode()).hexdigest()[
        :16
    ]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "whichrank"
    folder = cache / f"probing-{digest}"
    if _same(folder, files):
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".probing-", dir=cache))
    except OSError:
        return _write(Path(tempfile.mkdtemp(prefix="whichrank-probing-pack-")), files)
    _write(made, files)
    if folder.exists():  # somebody has changed it
        folder.rename(Path(tempfile.mkdtemp(prefix=".probing-old-", dir=cache)) / "pack")
    try:
        return made.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(made, ignore_errors=True)
        return folder


def _same(folder: Path, files: dict[str, str]) -> bool:
    try:
        return all((folder / name).read_text(encoding="utf-8") == text for name, text in files.items())
    except OSError:
        return False


def _write(folder: Path, files: dict[str, str]) -> Path:
    folder.chmod(0o755)
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def _files(pack: Pack) -> Iterator[tuple[str, str]]:
    """Relative path -> text."""
    entries = [(entry, pack.skill(entry.id)) for entry in pack.manifest.skills]
    yield CATALOG, _yaml(_catalog(pack, entries))
    for entry, skill in entries:
        yield f"{entry.id}/{STEPS}", _yaml(_steps(pack, skill))
        yield f"{entry.id}/SKILL.md", (pack.skill_path(entry.id).parent / "SKILL.md").read_text(encoding="utf-8")


def _catalog(pack: Pack, entries: list[tuple[Entry, Skill]]) -> dict[str, Any]:
    categories = {entry.category: {"label": entry.category.capitalize()} for entry, _ in entries}
    skills = [
        {
            "id": entry.id,
            "category": entry.category,
            "priority": 100 - place,
            "entry": entry.entry,
            "description": skill.description,
            "tables": tables_of(skill),
            "pages": [],
            "related": [id for id in skill.related if any(id == other.id for other, _ in entries)],
            "path": f"{entry.id}/{STEPS}",
        }
        for place, (entry, skill) in enumerate(entries)
    ]
    return {"apiVersion": API, "kind": "Catalog", "categories": categories, "skills": skills}


def _steps(pack: Pack, skill: Skill) -> dict[str, Any]:
    command = f"probing -t PID whichrank diagnose --skill {skill.id}"
    metadata = {
        "id": skill.id,
        "title": skill.question,
        "title_en": skill.question,
        "category": skill.category,
        "tags": skill.tags,
        "triggers": {"keywords": skill.keywords},
        "docs": f"{skill.description}\nThese steps show what probing has. The verdict: {command}\n",
    }
    parameters = [
        {
            "name": name,
            "type": _TYPES[spec.type],
            "default": "" if spec.default is None else spec.default,
            "description": spec.doc,
        }
        for name, spec in skill.parameters.items()
    ]
    steps = list(_sql_steps(pack, skill))
    rules = [
        {
            "id": "ranks_differ",
            "when": f"step:{step['id']} | rows > 0",
            "severity": "warning",
            "message": f"Ranks differ, or have not come as far as others. If the job stands still: {command}",
        }
        for step in steps
        if step["id"] == "collective_alignment"
    ]
    followers = [f"{chain.when} -> skill: {chain.to}" for chain in pack.manifest.chains if chain.source == skill.id]
    spec = {
        "parameters": parameters,
        "steps": steps,
        "interpretation": {"rules": rules},
        "next_steps": [f"The verdict over all ranks: {command}", *followers],
    }
    return {"apiVersion": API, "kind": "Skill", "metadata": metadata, "spec": spec}


def tables_of(skill: Skill) -> list[str]:
    """What the skill needs, as far as probing has it."""
    named = (_STANDS_FOR.get(name, name) for name in (*skill.needs, *skill.needs_any))
    return list(dict.fromkeys(name for name in named if name in _TABLES))


def _sql_steps(pack: Pack, skill: Skill) -> Iterator[dict[str, Any]]:
    tables = tables_of(skill)
    if _RECORDER in tables:
        yield _step(skill, load(pack.library.root / "probing/collective_alignment.sql"))
    if not tables:
        yield _step(skill, load(pack.library.root / "probing/tables_there.sql"))
    sample = load(pack.library.root / "probing/sample.sql")
    for table in tables:
        step = _step(skill, sample, table)
        said = f"{table} has no rows here. For whichrank: {pack.manifest.tables.get(table, 'see its SKILL.md')}"
        yield step | {"id": table.replace(".", "_"), "title": table, "on_empty": "warn", "empty_message": said}


def _step(skill: Skill, query: Query, table: str = "") -> dict[str, Any]:
    return {
        "id": query.name,
        "title": query.summary,
        "type": "sql",
        "sql": _sql(skill, query, table),
        "on_empty": "skip",
    }


def _sql(skill: Skill, query: Query, table: str) -> str:
    """The statement as probing fills it in: `{name}` for a parameter, `{global_prefix}` for all ranks or this one."""
    values = {
        name: f"{{{name}}}" if name in skill.parameters else str(parameter.default)
        for name, parameter in query.params.items()
    }
    every_rank = "use_global" in skill.parameters
    if table:
        text = query.body.replace("{{ table }}", f"{'global.' if every_rank else ''}{table}")
    else:
        text = query.render(every_rank)
    text = _GLOBAL.sub("{global_prefix}", text)
    return re.sub(r"\$([a-z_]+)", lambda match: values[match[1]], text) + "\n"


def _yaml(data: dict[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)
    return text
