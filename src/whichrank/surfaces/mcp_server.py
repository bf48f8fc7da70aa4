"""The MCP server: five tools over one place of evidence, for an agent that has three calls.

    ask          words -> skill
    run_skill    skill -> verdict, with the rows that prove it
    query        one SELECT on the same rows
    list_skills, describe_tables    what there is

Nothing is written anywhere. Each call reads the evidence anew: a store grows, and dumps come late. A result is data
(structured content, with a schema) and text for a model, together at most as long as the operator allows.
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field, ValidationError

from whichrank import __version__
from whichrank.engine.manifest import Pack
from whichrank.engine.reference import describe, relations
from whichrank.engine.routing import route
from whichrank.engine.runner import diagnose
from whichrank.errors import WhichrankError
from whichrank.store.guard import Limits
from whichrank.surfaces.mcp_query import query
from whichrank.surfaces.mcp_results import Matches, Relations, Rows, Skills, Verdict, first, fitting
from whichrank.surfaces.text import screen

ADVICE = """\
whichrank says which rank hung a distributed PyTorch job, at which collective, and why, from Flight Recorder dumps, logs
and stacks. Begin with run_skill: without arguments it gives the verdict of watchdog_timeout, with the rows that prove
it. `ask` finds the skill for other words. `query` reads the same rows with SQL; describe_tables says their names.
insufficient_evidence is an answer: its gaps say what would settle it. Name no rank that the verdict does not name."""
_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_TEXT_SHARE = 0.4  # of the characters of a result; the rest is for the data


class Server(MCPServer[Any]):
    """An MCP server whose errors are a JSON object `error`, `looked_for`, `next`, whoever noticed them."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:
        """A tool by its name."""
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError as error:
            cause = error.__cause__
            if not isinstance(cause, WhichrankError):
                raise  # a bug of ours; the SDK logs it, and tells the client nothing of it
            return _failure(_for_tools(cause.as_dict(), name))
        except ToolError as error:
            return _failure(await self._misuse(name, error))

    async def _misuse(self, name: str, error: ToolError) -> dict[str, str | None]:
        tools = {tool.name: tool for tool in await self.list_tools()}
        if name not in tools:
            return {"error": f"there is no tool {name}", "looked_for": ", ".join(tools), "next": "list_skills"}
        cause = error.__cause__
        what = str(error)
        if isinstance(cause, ValidationError):
            what = "; ".join(f"{'.'.join(map(str, e['loc'])) or name}: {e['msg']}" for e in cause.errors())
        wanted = json.dumps(tools[name].input_schema.get("properties", {}), ensure_ascii=False)
        return {"error": what, "looked_for": wanted[:2000], "next": f"{name} with such arguments"}


def make(store: Path, limits: Limits | None = None) -> Server:
    """A server over dumps, logs or a store at that path; each call may find something else there."""
    tools = _Tools(store, limits or Limits.from_environment())
    server = Server("whichrank", title="whichrank", version=__version__, instructions=ADVICE, log_level="WARNING")
    for function in (tools.ask, tools.run_skill, tools.query, tools.list_skills, tools.describe_tables):
        server.add_tool(function, annotations=_READS)
    return server


class _Tools:
    """The docstring of each is what an agent reads of it."""

    def __init__(self, store: Path, limits: Limits) -> None:
        self._store = store
        self._limits = limits
        self._for_text = int(limits.characters * _TEXT_SHARE)
        self._for_data = limits.characters - self._for_text

    async def ask(
        self, text: Annotated[str, Field(description="a question, keywords, or a line of a log; English or Chinese")]
    ) -> Annotated[CallToolResult, Matches]:
        """Find the skill that answers a question or a line of a log ("my job hangs", "NCCL watchdog timeout",
        "训练卡住"). Then call run_skill with the arguments of the best match. Needs no evidence.
        """
        routing = route(text)
        matches = [
            {key: value for key, value in match.items() if key != "command"} | {"arguments": {"skill": match["skill"]}}
            for match in routing.as_dict()["matches"]
        ]
        then = f"run_skill(skill={matches[0]['skill']!r})" if matches else "list_skills"
        lines = [f"{m['skill']}: {m['question']} (matched {', '.join(m['matched'])})" for m in matches]
        told = "\n".join([*(lines or ["no skill fits these words", f"searched: {routing.searched}"]), f"next: {then}"])
        return self._result(told, {"matches": matches, "searched": routing.searched, "next": then})

    async def run_skill(
        self,
        context: Context[Any, Any],
        skill: Annotated[str, Field(description="id of a skill, from ask or list_skills")] = "watchdog_timeout",
        parameters: Annotated[
            dict[str, Any] | None, Field(description="of that skill, by name; list_skills says which")
        ] = None,
    ) -> Annotated[CallToolResult, Verdict]:
        """Diagnose the job: which rank is to blame, at which collective, why. The answer is a verdict, findings with
        the rows that prove them, gaps (what was not seen), and next steps. The default skill, watchdog_timeout, is
        right for "my job hangs", "NCCL timeout" and Flight Recorder dumps. Takes seconds; reads, never writes.
        """

        def progress(done: int, total: int) -> None:
            anyio.from_thread.run(partial(context.report_progress, done, total, "reading dumps"))

        run = partial(diagnose, [self._store], skill, parameters or {}, on_progress=progress)
        diagnosis = await anyio.to_thread.run_sync(run)
        data = diagnosis.as_dict() | {"exit_code": diagnosis.exit_code}
        return self._result(screen(diagnosis, everything=False, width=100), fitting(data, self._for_data))

    async def query(
        self,
        sql: Annotated[str, Field(description="one SELECT (DuckDB) on global.python.*, facts.*, statements.*")],
        parameters: Annotated[
            dict[str, Any] | None, Field(description="of the facts and statements it names; describe_tables says which")
        ] = None,
    ) -> Annotated[CallToolResult, Rows]:
        """Run one read-only SQL statement on the evidence, for rows behind a verdict or questions no skill asks.
        global.python.* are the rows of every rank, python.* those of this host. Start with
        "FROM statements.collective_alignment" or see describe_tables. Writing, files and settings are refused.
        """
        answer = await query(self._store, sql, parameters or {}, self._limits)
        columns, cut_columns = first(answer["columns"], self._for_data // 2)
        names = [column["name"] for column in columns]
        whole = [{name: row[name] for name in names} for row in answer["rows"]] if cut_columns else answer["rows"]
        rows, cut = first(whole, self._for_data - len(json.dumps(columns)) - 500)
        cut |= cut_columns
        hint = answer["hint"]
        if cut:
            hint = f"cut at {self._limits.characters:,} characters: name columns instead of *, filter, or aggregate"
        elif not rows:
            hint = f"no rows; searched {self._store}"
        lines = ["\t".join(names), *("\t".join(_cell(row[name]) for name in names) for row in rows)]
        data = {"columns": columns, "rows": rows, "truncated": answer["truncated"] or cut, "hint": hint}
        return self._result("\n".join([*lines, *([hint] if hint else [])]), data)

    async def list_skills(self) -> Annotated[CallToolResult, Skills]:
        """List the skills that run_skill can run: the question each answers, its parameters, the tables it needs."""
        pack = Pack()
        keys = ("id", "category", "question", "description", "parameters", "needs", "needs_any", "keywords")
        every = [{key: skill.summary()[key] for key in keys} for skill in pack.skills()]
        skills, cut = first(every, self._for_data - 500)
        if cut:  # rather all of them without their keywords
            skills, _ = first([skill | {"keywords": {}, "description": ""} for skill in every], self._for_data - 500)
        told = [f"{skill['id']}: {skill['question']}" for skill in skills]
        return self._result("\n".join(told), {"skills": skills, "left_out": pack.notes(), "truncated": cut})

    async def describe_tables(
        self, name: Annotated[str | None, Field(description="of one table, for its columns; without it, all")] = None
    ) -> Annotated[CallToolResult, Relations]:
        """Say what `query` can name: tables of evidence (python.*, also as global.python.* for every rank), facts,
        checks and statements made of them; for one name its columns with types, units and meaning.
        """
        library = Pack().library
        every = [describe(library, name)] if name else relations(library)
        tables, cut = first(every, self._for_data - 500)
        hint = (
            "give a name, for its columns" if not name else "cut: SELECT column_name FROM (DESCRIBE …)" if cut else None
        )
        lines = [f"{t['name']}: {t['doc']} One row: {t['grain']}." for t in tables]
        if name:
            lines += [f"  {c['name']} ({c['type'] or '-'}): {c['doc']}" for c in tables[0]["columns"]] if tables else []
        return self._result("\n".join(lines), {"tables": tables, "truncated": cut, "hint": hint})

    def _result(self, text: str, data: dict[str, Any]) -> CallToolResult:
        text = text or "nothing of it fits: the operator allows fewer characters than it has"
        if len(text) > self._for_text:
            text = text[: self._for_text - 60] + "\n… cut here; the structured content holds more"
        plain = json.loads(json.dumps(data, default=str))
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=plain)


# What is a command for a person is a tool for an agent.
_TOOLS_OF = (
    (re.compile(r"`?whichrank tables( \S+)?`?"), "describe_tables"),
    (re.compile(r"`?whichrank skills( \S+)?`?"), "list_skills"),
    (re.compile(r"--param (\w+)=(\S+)"), r'parameters: {"\1": \2}'),
    (re.compile(r"whichrank diagnose \S+(?: --skill (\w+))?"), r"run_skill \1"),
)


def _for_tools(error: dict[str, str | None], tool: str) -> dict[str, str | None]:
    """An error in the words of somebody who has only these tools; it always says what to do next."""
    usual = {"query": "describe_tables", "describe_tables": "describe_tables without a name"}.get(tool, "list_skills")
    said = {key: text and _in_tools(text) for key, text in error.items()}
    return said | {"next": said["next"] or usual}


def _in_tools(text: str) -> str:
    for command, tool in _TOOLS_OF:
        text = command.sub(tool, text)
    return text.strip()


def _failure(error: dict[str, str | None]) -> CallToolResult:
    text = json.dumps(error, ensure_ascii=False, indent=2)
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("\t", " ").replace("\n", " ")
