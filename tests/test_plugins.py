"""The manifests for hosts: they agree with the package, name what exists, and call commands that exist.

`make plugins` shows them to the real clients, which are too large to download in every run.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from click import Command
from jinja2 import Environment, Template
from jinja2.meta import find_undeclared_variables
from mcp import Client, StdioServerParameters

from whichrank import __version__
from whichrank.engine.manifest import Pack
from whichrank.surfaces.cli import cli

ROOT = Path(__file__).parents[1]
MANIFESTS = [".claude-plugin/plugin.json", ".codex-plugin/plugin.json", "plugin.json"]
MARKETS = [".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json"]
SERVERS = [".mcp.json", ".codex-mcp.json", "mcp.json"]
FOLDERS = {entry.folder for entry in Pack().manifest.skills}
TOOLSET = ROOT / "docs/holmesgpt/whichrank.yaml"
DUMPS = ROOT / "fixtures/nccl_rank_not_joined/evidence"


def read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((ROOT / name).read_text(encoding="utf-8"))
    return data


def tools() -> dict[str, dict[str, Any]]:
    toolset = yaml.safe_load(TOOLSET.read_text(encoding="utf-8"))["toolsets"]["whichrank"]
    return {tool["name"]: tool for tool in toolset["tools"]}


# ---- manifests -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_agrees_with_the_package(name: str) -> None:
    pack, manifest = Pack().manifest, read(name)
    said = {key: manifest[key] for key in ("name", "version", "description", "license")}
    assert said == {
        "name": pack.name,
        "version": __version__,
        "description": pack.description,
        "license": "Apache-2.0",
    }
    assert pack.version == __version__


@pytest.mark.parametrize("name", MANIFESTS)
def test_paths_in_a_manifest_lead_to_what_they_say(name: str) -> None:
    manifest = read(name)
    skills = manifest.get("skills", "./skills/")  # the portable format has fixed places
    for folder in [skills] if isinstance(skills, str) else skills:
        assert {path.parent.name for path in (ROOT / folder).glob("*/SKILL.md")} == FOLDERS
    assert (ROOT / manifest.get("mcpServers", "./mcp.json")).is_file()


def test_the_manifests_are_where_their_clients_look() -> None:
    assert read(".claude-plugin/plugin.json")["skills"] == ["./skill/"]
    assert (ROOT / "skills").readlink() == Path("skill")
    assert set(read("plugin.json")) <= {
        "$schema", "name", "version", "description", "author", "homepage", "repository", "license", "keywords",
        "extensions",
    }  # fmt: skip


@pytest.mark.parametrize("name", MARKETS)
def test_a_marketplace_offers_this_repository(name: str) -> None:
    [plugin] = read(name)["plugins"]
    source = plugin["source"] if isinstance(plugin["source"], str) else plugin["source"]["path"]
    assert (plugin["name"], source) == ("whichrank", "./")


# ---- MCP servers -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", SERVERS)
def test_a_server_is_whichrank_serve(name: str) -> None:
    server = read(name)["mcpServers"]["whichrank"]
    assert "whichrank serve " in " ".join([server["command"], *server["args"]])
    assert isinstance(cli.get_command(cli.make_context("whichrank", [], resilient_parsing=True), "serve"), Command)


@pytest.mark.parametrize("store", ["/a store/of 'ours'", ""])
def test_the_portable_server_takes_the_store_from_the_environment(store: str, tmp_path: Path) -> None:
    (tmp_path / "whichrank").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    (tmp_path / "whichrank").chmod(0o755)
    server = read("mcp.json")["mcpServers"]["whichrank"]
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"} | ({"WHICHRANK_STORE": store} if store else {})
    done = subprocess.run([server["command"], *server["args"]], env=env, capture_output=True, text=True, timeout=60)
    if store:
        assert (done.returncode, done.stdout) == (0, f"serve|{store}|")
    else:
        assert (done.returncode, done.stdout) == (64, "")
        assert "set WHICHRANK_STORE" in done.stderr


def test_the_portable_server_answers_a_client(whichrank_on_path: dict[str, str]) -> None:
    server = read("mcp.json")["mcpServers"]["whichrank"]
    env = whichrank_on_path | {"WHICHRANK_STORE": str(DUMPS)}
    parameters = StdioServerParameters(command=server["command"], args=server["args"], env=env)

    async def call() -> Any:
        async with Client(parameters) as client:
            return await client.call_tool("run_skill", {"skill": "watchdog_timeout"})

    answer = anyio.run(call)
    assert not answer.is_error
    assert answer.structured_content["culprit_ranks"] == [2]


# ---- what agents are told to type ------------------------------------------------------------------------------------
PAGES = [*sorted(ROOT.glob("skill/*/SKILL.md")), ROOT / "docs/agents.md"]
CALL = re.compile(r"(?:^ *|`)whichrank +([^`#\n]+)", re.MULTILINE)


def options_of(command: str) -> set[str]:
    found = cli.get_command(cli.make_context("whichrank", [], resilient_parsing=True), command)
    assert found is not None, f"there is no whichrank {command}"
    return {option for parameter in found.params for option in parameter.opts} | {"--help"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_commands_in_a_page_exist_with_their_options_and_skills(page: Path) -> None:
    calls = [call[1].split() for call in CALL.finditer(page.read_text(encoding="utf-8"))]
    assert calls
    for command, *words in calls:
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= options_of(command), words
        named = [following for word, following in itertools.pairwise(words) if word == "--skill"]
        assert set(named) <= {entry.id for entry in Pack().manifest.skills}
        if command == "skills":
            assert set(words) <= {entry.id for entry in Pack().manifest.skills}


def test_the_how_to_of_the_flagship_knows_every_verdict() -> None:
    text = (ROOT / "skill/watchdog-timeout/SKILL.md").read_text(encoding="utf-8")
    rows = " ".join(line.partition(" | ")[0] for line in text.splitlines() if line.startswith("| `"))
    rows = rows.replace("`, `_size_`, `_dtype_`", "` `collective_size_mismatch` `collective_dtype_mismatch`")
    known = {check.check for check in Pack().skill("watchdog_timeout").checks if not check.check.startswith("ras_")}
    assert known <= set(re.findall(r"`(\w+)`", rows))
    assert set(Pack().skill("watchdog_timeout").parameters) <= set(re.findall(r"`(\w+)=", rows))


# ---- HolmesGPT -------------------------------------------------------------------------------------------------------
def rendered(tool: str, **parameters: str) -> str:
    """As HolmesGPT does it: every value is quoted for the shell."""
    text: str = Template(tools()[tool]["command"]).render({k: shlex.quote(v) for k, v in parameters.items()})
    return text


def test_the_toolset_calls_commands_with_options_that_exist() -> None:
    for name, tool in tools().items():
        words = shlex.split(re.sub(r"\$\(|\)|\|\|.*", " ", tool["command"].replace("{{ ", "{{").replace(" }}", "}}")))
        called = words[words.index("whichrank") + 1 :]
        assert {word.partition("=")[0] for word in called if word.startswith("--")} - {"--"} <= options_of(called[0]), (
            name
        )
        assert set(tool.get("parameters", {})) == find_undeclared_variables(Environment().parse(tool["command"]))


def test_findings_are_no_failure_and_a_failure_is_none_the_less(
    tmp_path: Path, whichrank_on_path: dict[str, str]
) -> None:
    def run(**parameters: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-c", rendered("whichrank_diagnose", **parameters)]
        return subprocess.run(command, env=whichrank_on_path, capture_output=True, text=True, timeout=120)

    found = run(path=str(DUMPS), skill="watchdog_timeout")
    assert (found.returncode, json.loads(found.stdout)["culprit_ranks"]) == (0, [2])
    missing = run(path="--help; touch x", skill="watchdog_timeout")
    assert missing.returncode != 0
    assert json.loads(missing.stdout)["error"] == "--help; touch x does not exist"


def test_a_statement_reaches_the_evidence_as_it_was_written(whichrank_on_path: dict[str, str]) -> None:
    sql = "SELECT 'it''s $HOME' AS said, rank FROM facts.op WHERE rank = 2 LIMIT 1"
    command = ["bash", "-c", rendered("whichrank_query", path=str(DUMPS), sql=sql)]
    done = subprocess.run(command, env=whichrank_on_path, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout)["rows"] == [{"said": "it's $HOME", "rank": 2}]


@pytest.fixture
def whichrank_on_path(tmp_path: Path) -> dict[str, str]:
    """An environment in which `whichrank` is this package, installed or not."""
    (tmp_path / "whichrank").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m whichrank "$@"\n')
    (tmp_path / "whichrank").chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
