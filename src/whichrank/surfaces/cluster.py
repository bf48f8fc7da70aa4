"""The Ray cluster of a command, where one was asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whichrank.engine.ray_cluster import RayCluster


def joined(address: str | None, *, keep: bool = False) -> AbstractContextManager[RayCluster | None]:
    """A context with a connection to the cluster, or with None where there is no address.

    keep: entries stay there. Raises ClusterUnavailable.
    """
    if address is None:
        return nullcontext()
    from whichrank.engine.ray_cluster import RayCluster

    return RayCluster(address, keep=keep)
