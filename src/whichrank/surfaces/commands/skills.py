"""whichrank skills: which questions can be asked, and with which parameters."""

from __future__ import annotations

import json

import click


@click.command(short_help="List the skills, or describe one.")
@click.argument("skill_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(skill_id: str | None, as_json: bool) -> None:
    """List the skills, or describe one: its question, what it needs, its parameters, what it can find."""
    from whichrank.engine.manifest import Pack
    from whichrank.surfaces.complaint import left_out
    from whichrank.surfaces.grid import grid

    pack = Pack()
    if skill_id is None:
        skills = list(pack.skills())
        left_out(pack)
        if as_json:
            click.echo(json.dumps([skill.summary() for skill in skills], indent=2, ensure_ascii=False))
            return
        click.echo(
            grid(["id", "category", "question"], [[s.id, s.category, s.question] for s in skills], 100), nl=False
        )
        return
    skill = pack.skill(skill_id)
    if as_json:
        click.echo(json.dumps(skill.as_dict(), indent=2, ensure_ascii=False))
        return
    click.echo(f"{skill.id}: {skill.question}\n{skill.description}\n")
    rows = [("needs", ", ".join(skill.needs))]
    rows += [("parameter", f"{n} ({p.type}, default {p.default}): {p.doc}") for n, p in skill.parameters.items()]
    rows += [("can find", ", ".join(check.check for check in skill.checks) or "nothing yet")]
    rows += [("see also", f"{name}: {when}") for name, when in skill.related.items()]
    rows += [("run", f"whichrank diagnose PATH --skill {skill.id}")]
    for label, text in rows:
        click.echo(f"  {label:<11}{text}")
