"""`project.py new`: each mode's first definition is accepted, and its test passes as it stands."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemark.errors import InvalidInput
from tidemark.project.analysis import analyze
from tidemark.project.definition import catalog
from tidemark.project.definition.model import Mode
from tidemark.project.testing import new
from tidemark.project.writing import target


@pytest.fixture(autouse=True)
def directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TIDEMARK_PROJECTIONS_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.ROLLUP])
def test_definition_is_accepted_and_its_test_passes(
    spark: SparkSession, directory: Path, mode: Mode
) -> None:
    said: list[str] = []
    new.write("first", mode, None, said.append)

    [definition] = catalog.load(directory)
    assert (definition.name, definition.mode) == ("first", mode)
    target.require_columns(analyze.analyze(spark, definition))
    runpy.run_path(str(directory / "test_first.py"))["test_first"]()
    assert (directory / "first.cql").exists() is (mode is not Mode.EXPORT)
    assert any(f"pytest {directory / 'test_first.py'}" in line for line in said)


@pytest.mark.parametrize(
    ("name", "place", "words"),
    [("a-b", None, "the name 'a-b'"), ("ok", "table", "the target 'table' is no table")],
)
def test_what_cannot_be_used_is_refused(name: str, place: str | None, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        new.write(name, Mode.BUCKET, place, print)


def test_files_that_are_there_stay(directory: Path) -> None:
    new.write("first", Mode.BUCKET, None, print)
    (directory / "first.sql").write_text("mine")
    with pytest.raises(InvalidInput, match=r"there already: .*test_first\.py"):
        new.write("first", Mode.FOLD, None, print)
    with pytest.raises(InvalidInput, match=r"there already: first\.cql, first\.sql"):
        new.write("first", Mode.UPSERT, None, print)
    assert (directory / "first.sql").read_text() == "mine"


def test_a_rollup_has_no_template(directory: Path) -> None:
    with pytest.raises(InvalidInput, match="mode rollup has no template"):
        new.write("first", Mode.ROLLUP, None, print)
    assert not any(directory.iterdir())
