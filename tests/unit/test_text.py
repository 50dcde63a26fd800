"""Numbers in sentences."""

from __future__ import annotations

from tidemark.text import counted


def test_one_is_not_several() -> None:
    assert counted(0, "bucket") == "0 buckets"
    assert counted(1, "bucket") == "1 bucket"
    assert counted(1000, "bucket") == "1,000 buckets"
    assert counted(1, "entity", "entities") == "1 entity"
    assert counted(2, "entity", "entities") == "2 entities"
