"""whichrank: which rank hung the training job, at which collective, and why."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`import whichrank; whichrank.watch(store)`: the collector is imported only where it is used."""
    if name == "watch":
        return import_module("whichrank.watch")
    if name == "probing_pack":  # the entry point `probing.skills`
        return import_module("whichrank.engine.probing_pack").probing_pack
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
