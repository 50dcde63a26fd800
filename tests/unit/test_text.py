"""Numbers in sentences, and texts as names of files."""

from __future__ import annotations

import pytest

from tidemark.text import counted, path_name


def test_one_is_not_several() -> None:
    assert counted(0, "bucket") == "0 buckets"
    assert counted(1, "bucket") == "1 bucket"
    assert counted(1000, "bucket") == "1,000 buckets"
    assert counted(1, "entity", "entities") == "1 entity"
    assert counted(2, "entity", "entities") == "2 entities"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("0b1d-views", "0b1d-views"),
        ("cleanup/manual__2026-11-28T02:00+00:00/1", "cleanup_manual__2026-11-28T02_00+00_00_1"),
        ("../../outside", "_._.._outside"),
        ("..", "_."),
        (".hidden", "_hidden"),
        ("ü\0*\n", "____"),
    ],
)
def test_text_is_the_name_of_one_file(text: str, name: str) -> None:
    assert path_name(text) == name
