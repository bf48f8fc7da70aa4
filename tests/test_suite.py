"""What the other tests rely on."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("suite")
def test_groups_of_tests_stay_together(request: pytest.FixtureRequest) -> None:
    """Real jobs side by side disturb each other. xdist marks groups in the names of tests, and fails silently."""
    if getattr(request.config.option, "loadgroup", False):  # only a worker of xdist has it
        assert request.node.nodeid.endswith("@suite"), "this pytest-xdist loses groups with this pytest"
