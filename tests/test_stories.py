"""Every story gets its truth, names nobody else, and is silent where nothing is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.stories import STORIES
from tests.verdict import diagnosis_of, named_besides


@pytest.mark.parametrize("name", sorted(STORIES))
def test_story(name: str, tmp_path: Path) -> None:
    story = STORIES[name]
    diagnosis = diagnosis_of(story.write(tmp_path / name))
    category = diagnosis.category or "no_fault"
    assert story.truth.accepts(category, diagnosis.culprit_ranks), (category, diagnosis.culprit_ranks, story.truth)
    assert not named_besides(diagnosis, story.truth)
    if category == "no_fault":
        assert diagnosis.findings == []
        assert diagnosis.exit_code == 0
    else:
        assert any(finding.root and finding.category == category for finding in diagnosis.findings)
        assert diagnosis.exit_code == (2 if category == "insufficient_evidence" else 1)
    assert not [gap for gap in diagnosis.gaps if gap.kind == "broken_words"]
