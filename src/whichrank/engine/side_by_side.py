"""Work in the order of who needs whom, two pieces at a time.

Most of a small diagnosis is DuckDB planning some thirty statements, each in one thread: two connections halve what does
not lie on the longest path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import TopologicalSorter
from typing import TypeVar

WORKERS = 2
Result = TypeVar("Result")


def side_by_side(
    needs: Mapping[str, Collection[str]], work: Callable[[str], Result], stop: Callable[[], object]
) -> dict[str, Result]:
    """Name -> result of `work(name)`, each called when all it needs are done. Raises what `work` raises, first come.

    needs: name -> the names it needs; no circles. stop: called to end the work that is going on when something failed.
    """
    graph = TopologicalSorter(needs)
    urgency = _longest_path(needs)
    graph.prepare()
    ready: list[str] = []
    running: dict[Future[Result], str] = {}
    results: dict[str, Result] = {}
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="whichrank-facts") as threads:
        try:
            while graph.is_active():
                ready = sorted([*ready, *graph.get_ready()], key=urgency.__getitem__)
                while ready and len(running) < WORKERS:
                    name = ready.pop()
                    running[threads.submit(work, name)] = name
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    name = running.pop(future)
                    results[name] = future.result()
                    graph.done(name)
        except BaseException:
            stop()
            raise
    return results


def _longest_path(needs: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Name -> how many wait for it, one after the other."""
    lengths = dict.fromkeys(needs, 0)
    for name in reversed(list(TopologicalSorter(needs).static_order())):
        for needed in needs[name]:
            lengths[needed] = max(lengths[needed], lengths[name] + 1)
    return lengths
