"""Options of the whole suite."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the expected outputs; then read the diff")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether expected outputs are written instead of compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="module")
def leaky() -> Iterator[None]:
    """For libraries that leave files to the garbage collector: it comes here, and blames no other test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
