"""`python -m whichrank.watch` runs a script as python would; SLURM's variables are enough before torch knows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.live.running import SOURCE
from tests.live.watched import watched
from whichrank.store import live

README = (SOURCE.parent / "README.md").read_text()
ECHO = "import sys; print(__name__, sys.argv[1:], __file__); sys.stdin.readline()"


def run(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "WHICHRANK", "RANK", "TORCHELASTIC"))}
    settings = {"PYTHONPATH": str(SOURCE), "WHICHRANK_STORE": str(cwd / "store"), **env}
    command = [sys.executable, "-m", "whichrank.watch", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=own | settings, input="\n", timeout=60, check=False
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "scripts" / "train.py"
    path.parent.mkdir()
    path.write_text(ECHO)
    return path


def test_a_script_gets_its_name_its_arguments_and_its_folder(script: Path, tmp_path: Path) -> None:
    (script.parent / "beside.py").write_text("")
    script.write_text("import beside\n" + ECHO)
    done = run("scripts/train.py", "--lr", "0.1", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("__main__ ['--lr', '0.1'] ")


def test_a_module_too(script: Path, tmp_path: Path) -> None:
    done = run("-m", "scripts.train", "x", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("__main__ ['x'] ")


def test_exit_codes_are_those_of_the_script(script: Path, tmp_path: Path) -> None:
    script.write_text("raise SystemExit(5)")
    assert run(str(script), cwd=tmp_path).returncode == 5
    script.write_text("raise KeyError('x')")
    done = run(str(script), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("KeyError: 'x'\n")


@pytest.mark.parametrize("arguments", [(), ("-m",), ("--help",)])
def test_without_a_script_it_says_how(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 64
    assert "usage:" in done.stderr


def test_rank_and_job_come_from_slurm(script: Path, tmp_path: Path) -> None:
    script.write_text("import time; time.sleep(1.5)")
    slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_LOCALID": "3", "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0"}
    assert run(str(script), cwd=tmp_path, **slurm).returncode == 0
    (node,) = live.nodes(tmp_path / "store")
    assert (node["rank"], node["world_size"], node["local_rank"], node["job_id"]) == (3, 8, 3, "17/0")


def test_the_function_and_the_module_have_one_name(tmp_path: Path) -> None:
    with watched(tmp_path) as job:
        job.watch()
        job.do("import whichrank.watch as door; assert whichrank.watch is door and callable(door)")
        job.do("threads = __import__('threading').enumerate(); whichrank.watch()")
        job.do("assert __import__('threading').enumerate() == threads, 'a second call changes nothing'")


def test_sigterm_can_be_left_alone(tmp_path: Path) -> None:
    with watched(tmp_path, recorder=True) as job:
        job.do("import os, signal; os.environ['WHICHRANK_SIGTERM'] = '0'")
        job.watch()
        job.do("assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL")


def test_the_collector_imports_nothing_heavy(tmp_path: Path) -> None:
    with watched(tmp_path, recorder=True) as job:
        job.watch()
        job.answer(job.ask(stacks=True))
        job.do("assert not {'pyarrow', 'duckdb', 'jinja2', 'numpy', 'torch', 'click'} & set(sys.modules)")


def test_the_lines_for_kubernetes_are_yaml() -> None:
    found = re.search(r"^    command: .*?(?=\n\n)", README, re.MULTILINE | re.DOTALL)
    assert found
    said = yaml.safe_load(re.sub("^    ", "", found[0], flags=re.MULTILINE))
    assert {entry["name"] for entry in said["env"]} == {"WHICHRANK_STORE", "KUBERNETES_JOB_NAME"}
    assert said["command"][-3:] == ["-m", "whichrank.watch", "train.py"]


def test_the_line_for_slurm_runs_as_a_task_would(script: Path, tmp_path: Path) -> None:
    found = re.search(r"^    srun (bash -c .*)$", README, re.MULTILINE)
    assert found
    script.write_text("import os; print(os.environ['RANK'], os.environ['WORLD_SIZE'], os.environ['LOCAL_RANK'])")
    line = found[1].replace("python ", f"{sys.executable} ").replace("train.py", str(script))
    task = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "PYTHONPATH": str(SOURCE)}
    env = os.environ | task | {"WHICHRANK_STORE": str(tmp_path / "store")}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=env, timeout=60, check=True)
    assert done.stdout == "3 8 1\n"
