"""The MCP server with the SDK's own client at both protocol versions, and as a process with the MCP inspector."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.types import CallToolResult

from tests.jobs.builder import Job
from whichrank.store.guard import Limits
from whichrank.surfaces.mcp_server import make

HANG = Path("fixtures/nccl_rank_not_joined/evidence")
MODES = ("legacy", "2026-07-28")  # `legacy` is the handshake of 2025-11-25
INSPECTOR = "@modelcontextprotocol/inspector@0.15.0"

pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.usefixtures("leaky")]


def with_client(
    store: Path, do: Callable[[Client], Awaitable[None]], mode: str = "2026-07-28", limits: Limits | None = None
) -> None:
    async def main() -> None:
        async with Client(make(store, limits), mode=mode) as client:
            await do(client)

    anyio.run(main)


async def call(client: Client, tool: str, **arguments: Any) -> CallToolResult:
    """A call whose result is checked against the schema of the tool, and has text for a model."""
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    text = text_of(result)
    assert text.strip()
    if result.is_error:
        assert set(json.loads(text)) == {"error", "looked_for", "next"}, "and never a stack trace"
    else:
        (schema,) = (t.output_schema for t in (await client.list_tools()).tools if t.name == tool)
        assert schema is not None
        jsonschema.validate(result.structured_content, schema)
    return result


def text_of(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


def data_of(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, text_of(result)
    data: dict[str, Any] = result.structured_content
    return data


@pytest.mark.parametrize("mode", MODES)
def test_five_tools_that_only_read(mode: str) -> None:
    async def do(client: Client) -> None:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else mode)
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"ask", "run_skill", "query", "list_skills", "describe_tables"}
        for tool in tools.values():
            assert tool.annotations is not None
            assert (tool.annotations.read_only_hint, tool.annotations.destructive_hint) == (True, False)
            assert tool.output_schema
            assert len(tool.description or "") < 600
            for schema in tool.input_schema.get("properties", {}).values():
                assert schema["description"]
        for name, arguments in {
            "ask": {"text": "NCCL 超时"},
            "run_skill": {},
            "query": {"sql": "FROM statements.collective_alignment"},
            "list_skills": {},
            "describe_tables": {"name": "python.torch_nccl_dump"},
        }.items():
            data_of(await call(client, name, **arguments))

    with_client(HANG, do, mode)


def test_from_my_job_hangs_to_the_evidence_in_three_calls() -> None:
    """An agent that follows what the tools say of themselves, and nothing else."""

    async def do(client: Client) -> None:
        first = data_of(await call(client, "ask", text="my job hangs"))
        verdict = data_of(await call(client, "run_skill", **first["matches"][0]["arguments"]))
        if verdict["category"] == "insufficient_evidence":  # that skill needs stacks; it names one that can tell
            step = next(step for step in verdict["next"] if step["skill"])
            verdict = data_of(await call(client, "run_skill", skill=step["skill"], parameters=step["parameters"]))
        assert (verdict["category"], verdict["culprit_ranks"]) == ("rank_not_joined", [2])
        evidence = verdict["findings"][0]["evidence"]
        assert {row["rank"] for row in evidence} == {0, 1, 2, 3}

    with_client(HANG, do)

    async def at_once(client: Client) -> None:
        verdict = await call(client, "run_skill")
        assert data_of(verdict)["culprit_ranks"] == [2]
        assert "rank 2 never joined all_reduce #25" in text_of(verdict)
        rows = data_of(await call(client, "query", sql="SELECT DISTINCT rank FROM global.python.torch_nccl_dump"))
        assert sorted(row["rank"] for row in rows["rows"]) == [0, 1, 2, 3]

    with_client(HANG, at_once)


@pytest.mark.parametrize(
    ("tool", "arguments", "error", "following"),
    [
        ("run_skill", {"skill": "nope"}, "there is no skill nope", "list_skills"),
        ("run_skill", {"parameters": {"seq_window": "x"}}, "'x' is not of type integer", 'parameters: {"seq_window"'),
        ("run_skill", {"parameters": {"nope": 1}}, "has no parameter nope", "list_skills"),
        ("run_skill", {"parameters": [1]}, "parameters: Input should be a valid dictionary", "run_skill with"),
        ("query", {"sql": "SELECT * FROM nope"}, "nope does not exist", "describe_tables"),
        ("query", {"sql": "SELEC 1"}, "syntax error", "describe_tables"),
        ("query", {"sql": "DROP TABLE facts.op"}, "DROP statements are not run", "describe_tables"),
        ("query", {"sql": "SELECT 1", "parameters": {"nope": 1}}, "has a parameter nope", "describe_tables"),
        ("query", {"sql": "SELECT 'a\0b'"}, "NUL", "ask for less"),
        ("query", {"sql": 5}, "sql: Input should be a valid string", "query with"),
        ("query", {}, "sql: Field required", "query with"),
        ("describe_tables", {"name": "nope"}, "there is no table nope", "describe_tables"),
        ("nope", {}, "there is no tool nope", "list_skills"),
    ],
)
def test_bad_calls_say_what_to_do(tool: str, arguments: dict[str, Any], error: str, following: str) -> None:
    async def do(client: Client) -> None:
        result = await call(client, tool, **arguments)
        assert result.is_error
        said = json.loads(text_of(result))
        assert error in said["error"]
        assert following in said["next"]
        assert "whichrank diagnose" not in text_of(result), "an agent has tools, no shell"

    with_client(HANG, do)


def test_the_store_goes_away_and_comes_back(tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"

    async def do(client: Client) -> None:
        for tool, arguments in (("run_skill", {}), ("query", {"sql": "SELECT 1"})):
            gone = await call(client, tool, **arguments)
            assert gone.is_error
            assert "does not exist" in json.loads(text_of(gone))["error"]
        Job(2).all_reduce().stop(1).all_reduce().write(dumps)
        assert data_of(await call(client, "run_skill"))["culprit_ranks"] == [1]

    with_client(dumps, do)


def test_results_stay_under_the_cap_and_say_so(tmp_path: Path) -> None:
    job = Job(32, ahead=3)
    for group in range(8):
        job.group(f"g{group}", list(range(group * 4, group * 4 + 4)))
    for group in range(8):
        job.stop(group * 4)
        for _ in range(3):
            job.all_reduce(f"g{group}", [1024, 1024])
    dumps = job.write(tmp_path / "dumps")
    limits = Limits(rows=50, characters=6_000)

    async def do(client: Client) -> None:
        for tool, arguments in (
            ("run_skill", {}),
            ("query", {"sql": "FROM global.python.torch_nccl_flight_record"}),
            ("query", {"sql": "SELECT repeat('é', 20000) AS long"}),
            ("query", {"sql": "SELECT " + ", ".join(f"{n} AS a_rather_long_name_{n}" for n in range(300))}),
            ("list_skills", {}),
            ("describe_tables", {}),
            ("describe_tables", {"name": "torch_nccl_flight_record"}),
        ):
            result = await call(client, tool, **arguments)
            data = data_of(result)
            size = len(json.dumps(data, ensure_ascii=False)) + len(text_of(result))
            assert size <= limits.characters, (tool, arguments, size)
            if arguments != {"name": "torch_nccl_flight_record"}:
                assert data["truncated"], (tool, arguments)
        verdict = data_of(await call(client, "run_skill"))
        assert verdict["culprit_ranks"] == list(range(0, 32, 4)), "what matters most stays"
        empty = data_of(await call(client, "query", sql="SELECT 1 AS a WHERE false"))
        assert "searched" in empty["hint"]
        nothing = data_of(await call(client, "ask", text="change the batch size"))
        assert nothing["matches"] == []
        assert "watchdog_timeout" in nothing["searched"]

    with_client(dumps, do, limits=limits)


def test_progress_is_told() -> None:
    seen: list[tuple[float, float | None]] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        assert message == "reading dumps"
        seen.append((progress, total))

    async def do(client: Client) -> None:
        await client.call_tool("run_skill", {}, progress_callback=told)

    with_client(HANG, do)
    assert seen[-1] == (4, 4)


def test_a_statement_that_runs_away_is_stopped() -> None:
    async def do(client: Client) -> None:
        slow = await call(client, "query", sql="SELECT count(*) FROM range(10000000000) a, range(1000000) b")
        assert "stopped after 1 s" in json.loads(text_of(slow))["error"]
        assert data_of(await call(client, "query", sql="SELECT 1 AS a"))["rows"] == [{"a": 1}]

    with_client(HANG, do, limits=Limits(seconds=1))


def test_as_a_process_stdout_holds_nothing_but_frames(tmp_path: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "whichrank", "serve", str(HANG)], env=dict(os.environ)
    )

    async def main() -> None:
        async with Client(server, mode="legacy") as client:
            assert data_of(await call(client, "run_skill"))["culprit_ranks"] == [2]

    anyio.run(main)
    done = subprocess.run([server.command, *server.args], input=b"", capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.slow
def test_with_the_inspector(tmp_path: Path) -> None:
    """The client that people debug servers with, from npm."""
    assert shutil.which("npx"), "node is needed for this test"

    def inspect(*arguments: str) -> Any:
        server = [sys.executable, "-m", "whichrank", "serve", str(HANG.absolute())]
        command = ["npx", "--yes", INSPECTOR, "--cli", *server, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    ran = inspect("--method", "tools/call", "--tool-name", "run_skill", "--tool-arg", "skill=watchdog_timeout")
    assert ran["structuredContent"]["culprit_ranks"] == [2]


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from whichrank.surfaces.cli import run

    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.delitem(sys.modules, "whichrank.surfaces.mcp_server", raising=False)
    assert run(["serve", str(HANG)]) == 64
