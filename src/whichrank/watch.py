"""`whichrank.watch(store)` in a script, or no change of code: `python -m whichrank.watch [-m] train.py ARGS`.

WHICHRANK_STORE=/shared/run-17 torchrun --nproc-per-node 8 -m whichrank.watch train.py --lr 0.1
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from whichrank.watching import watch

_USAGE = "usage: WHICHRANK_STORE=FOLDER python -m whichrank.watch [-m MODULE | SCRIPT] [ARGS...]"


class _Door(ModuleType):
    """`whichrank.watch` is this module and, called, the function: both names are in the README."""

    def __call__(
        self,
        store: str | os.PathLike[str] | None = None,
        *,
        every_s: float | None = None,
        suspect_after_s: float | None = None,
        job_id: str | None = None,
    ) -> None:
        """See whichrank.watching.watch."""
        watch(store, every_s=every_s, suspect_after_s=suspect_after_s, job_id=job_id)


sys.modules[__name__].__class__ = _Door


def run(arguments: Sequence[str]) -> int:
    """Watch this process and run the script or module in it, as python would; 64 where none is named."""
    if not arguments or arguments[0] in ("-h", "--help") or (arguments[0] == "-m" and len(arguments) < 2):
        sys.stderr.write(_USAGE + "\n")
        return 64
    watch()
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(arguments)
        sys.path[0] = str(Path(arguments[0]).resolve().parent)  # python puts the script's folder there
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    code = run(sys.argv[1:])
    if code:
        sys.exit(code)
