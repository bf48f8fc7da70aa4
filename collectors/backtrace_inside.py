"""The Python stacks of this process, from inside: what every thread does just now, without a signal and without ptrace.

Runs inside training processes, also as a text that is sent there: nothing is imported but the standard library.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback

DEPTH = 200  # frames of a thread; a recursion without end is told by less


def stacks_text() -> str:
    """One line of JSON: taken_ns, pid, threads: [{name, os_id, frames: [[func, file, line], ...]}], innermost first.

    The thread that asks is left out.
    """
    named = {thread.ident: thread for thread in threading.enumerate()}
    found = []
    for ident, frame in sys._current_frames().items():
        if ident == threading.get_ident():
            continue
        walk = zip(range(DEPTH), traceback.walk_stack(frame), strict=False)
        frames = [[f.f_code.co_name, f.f_code.co_filename, line] for _, (f, line) in walk]
        thread = named.get(ident)
        found.append({"name": thread and thread.name, "os_id": thread and thread.native_id, "frames": frames})
    return json.dumps({"taken_ns": time.time_ns(), "pid": os.getpid(), "threads": found})
