"""However it is installed, whichrank brings its collectors, SQL and skills, and nothing with a generic name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "whichrank"
EVIDENCE = ROOT / "fixtures" / "nccl_rank_not_joined" / "evidence"
NOT_IN_A_JOB = ["duckdb", "jinja2", "torch", "click", "rich", "pydantic"]

LIST_PACKAGE = """
import importlib.resources, json, os
root = importlib.resources.files("whichrank")
print(json.dumps({"root": str(root), "files": sorted(
    os.path.relpath(os.path.join(folder, name), root)
    for folder, _, names in os.walk(root, followlinks=True) for name in names if not name.endswith(".pyc"))}))
"""
IMPORT_COLLECTORS = """
import importlib, json, pkgutil, sys
import whichrank.collectors as c
names = [m.name for m in pkgutil.walk_packages(c.__path__, c.__name__ + ".")]
[importlib.import_module(n) for n in names]
print(json.dumps({"collectors": names, "loaded": sorted(sys.modules)}))
"""


def run(*command: str | Path, cwd: Path, expect: int = 0) -> str:
    """Standard output of a command that must end with the exit code `expect`."""
    env = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV", "PYTEST_ADDOPTS"}}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, text=True, capture_output=True, check=False)
    assert done.returncode == expect, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(kind: str, source: Path, out: Path) -> Path:
    """The wheel or sdist of `source`, built with the hatchling that is installed here."""
    run(sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", out, source, cwd=out.parent)
    (built,) = out.iterdir()
    return built


def make_venv(folder: Path, *, borrow: bool) -> Path:
    """A new venv's python. With `borrow`, it sees what is installed here, except this checkout's editable install."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    if borrow:  # a folder named in a .pth file has its own .pth files ignored, so an editable install stays out
        purelib = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
        Path(purelib, "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def pip_install(python: Path, *what: str | Path, cwd: Path) -> None:
    """Install into that venv with the pip from here."""
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "-qq",
        "--disable-pip-version-check",
    ]
    run(*pip, *what, cwd=cwd)


def from_wheel(python: Path, tmp: Path) -> None:
    # The only one whose dependencies come from the index: what the wheel asks for must suffice.
    pip_install(python, build("wheel", ROOT, tmp / "wheel"), cwd=tmp)


def from_sdist(python: Path, tmp: Path) -> None:
    sdist = build("sdist", ROOT, tmp / "sdist")
    pip_install(python, "--no-deps", "--no-build-isolation", "--ignore-installed", sdist, cwd=tmp)


def from_wheel_of_sdist(python: Path, tmp: Path) -> None:
    with tarfile.open(build("sdist", ROOT, tmp / "sdist")) as archive:
        archive.extractall(tmp / "unpacked", filter="data")
    (source,) = (tmp / "unpacked").iterdir()
    pip_install(python, "--no-deps", "--ignore-installed", build("wheel", source, tmp / "wheel"), cwd=tmp)


def from_clone(python: Path, tmp: Path) -> None:
    pip_install(python, "--no-deps", "--no-build-isolation", "--ignore-installed", "-e", ROOT, cwd=tmp)


def package_files() -> list[str]:
    """What a clone holds, through the links: the files that every installation must hold too."""
    found = (
        os.path.relpath(Path(folder, name), PACKAGE)
        for folder, _, names in os.walk(PACKAGE, followlinks=True)
        for name in names
        if not name.endswith(".pyc")
    )
    return sorted(found)


@pytest.mark.slow
@pytest.mark.packaging
@pytest.mark.parametrize("install", [from_wheel, from_sdist, from_wheel_of_sdist, from_clone])
def test_every_way_of_installing_brings_everything(install: Callable[[Path, Path], None], tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv", borrow=install is not from_wheel)
    install(python, tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    whichrank = python.parent / "whichrank"

    listing = json.loads(run(python, "-c", LIST_PACKAGE, cwd=elsewhere))
    assert listing["files"] == package_files()
    expected_root = PACKAGE if install is from_clone else tmp_path / "venv"
    assert Path(listing["root"]).is_relative_to(expected_root), "another installation answered"

    assert "diagnose" in run(whichrank, "--help", cwd=elsewhere)
    assert "watchdog_timeout" in run(whichrank, "skills", cwd=elsewhere)
    assert "watchdog_timeout" in run(whichrank, "diagnose", EVIDENCE, cwd=elsewhere, expect=1)
    assert "diagnose" in run(python, "-m", "whichrank", "--help", cwd=elsewhere)


@pytest.mark.packaging
def test_the_package_data_is_what_the_links_show() -> None:
    files = package_files()
    for part in ("collectors/flight_recorder.py", "skill.yaml", "skill/watchdog-timeout/skill.yaml", "py.typed"):
        assert part in files
    for folder in ("sql/facts/", "sql/checks/", "skill/"):
        assert any(name.startswith(folder) for name in files)


@pytest.mark.packaging
def test_nothing_generic_is_installed_at_the_top(tmp_path: Path) -> None:
    (tmp_path / "wheel").mkdir()
    with zipfile.ZipFile(build("wheel", ROOT, tmp_path / "wheel")) as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"whichrank"}


def test_a_collector_may_be_imported_inside_a_training_job(tmp_path: Path) -> None:
    result = json.loads(run(sys.executable, "-c", IMPORT_COLLECTORS, cwd=tmp_path))
    assert result["collectors"], "no collectors found"
    assert not set(NOT_IN_A_JOB) & set(result["loaded"])
