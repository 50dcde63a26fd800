"""The seams of the fault tests: each exists, is used, and is the only name of its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults import seams
from tests.faults.seams import Seam

TESTS = Path(__file__).resolve().parents[1]
TEXTS = {
    file: file.read_text()
    for file in TESTS.rglob("*.py")
    if file not in (Path(seams.__file__), Path(__file__))
}


@pytest.mark.parametrize("seam", Seam)
def test_a_seam_stands_for_a_function_that_is_there(seam: Seam) -> None:
    owner, name = seam.place()
    assert callable(getattr(owner, name))


def test_every_seam_is_used() -> None:
    used = {name for text in TEXTS.values() for name in re.findall(r"\bSeam\.([A-Z_]+)", text)}
    assert used == set(Seam.__members__)


def test_tests_name_seams_and_no_places() -> None:
    place = re.compile(r"[\"']tidemark(\.\w+)+:[\w.]+[\"']")
    assert [str(file) for file, text in TEXTS.items() if place.search(text)] == []
