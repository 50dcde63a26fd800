"""The order in which tag-write writes what it knows of the rows that it has written."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from tidemark.tag_write import job
from tidemark.tag_write.job import TagWriteJob


def test_progress_is_written_before_scanning_and_scanning_before_tails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other order is unsafe if the run dies between the two writes.

    An actor reads only the events after its row of scanning. If its row of progress is older, the
    actor uses numbers again that existing rows have.
    """
    steps = Mock()
    for name in ("store", "transform", "rules"):
        monkeypatch.setattr(job, name, getattr(steps, name))
    writing = TagWriteJob.__new__(TagWriteJob)
    writing._run, writing._claimed, writing._rules = Mock(), steps.claimed, []
    writing._write_completeness(Mock(), Mock(), Mock(), read_at=1)
    writes_and_checks = [
        name for name, *_ in steps.mock_calls if name.startswith("store.") or name.endswith("check")
    ]
    assert writes_and_checks == [
        *("claimed.check", "store.write_progress"),
        *("claimed.check", "store.write_scanning"),
        *("claimed.check", "store.write_tails"),
    ]
