"""The copy before a deletion: what was written is read back, and compared, before it counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.purge.saved import copies
from tidemark.settings import Settings


@pytest.fixture
def run(spark: SparkSession) -> RunContext:
    """Return what a copy needs of a run."""
    said: list[str] = []
    parts = {"spark": spark, "settings": Settings(), "run_id": "r/1", "say": said.append}
    return cast(RunContext, SimpleNamespace(**parts))


def rows(spark: SparkSession) -> dict[str, DataFrame]:
    """Return frames with each kind of column that a table of events may have, and an empty one."""
    return {
        "messages": spark.sql(
            "SELECT id AS sequence_nr, concat('p', id) AS persistence_id, encode('e', 'utf-8') AS"
            " event, array('red', null) AS tags, map('k', id) AS more, timestamp_millis(id) AS at,"
            " if(id % 2 = 0, null, id) AS ttl, map('k', array(map(1, 2))) AS deep FROM range(20)"
        ).repartition(3),
        "snapshots": spark.sql("SELECT 'p' AS persistence_id, 1L AS sequence_nr WHERE false"),
    }


def test_a_copy_that_is_read_back_as_it_was_written_counts(run: RunContext, tmp_path: Path) -> None:
    copies.write(run, f"file://{tmp_path}/r_1", rows(run.spark))
    [found], unusable = copies.complete(run, f"file://{tmp_path}")
    assert (found.place, found.run_id, unusable) == (f"file://{tmp_path}/r_1", "r/1", [])
    assert run.spark.read.parquet(f"{found.place}/messages").count() == 20


@pytest.mark.parametrize(
    ("name", "is_local", "what", "do"),
    [
        ("messages", True, r"messages has \d+ rows, and 20 were written", "give another directory"),
        ("messages", False, r"messages has \d+ rows, and 20 were written", "all machines of Spark"),
        ("about", False, "about has 0 rows, and 1 were written", "all machines of Spark"),
    ],
)
def test_rows_that_the_driver_does_not_find_again_are_an_error(
    run: RunContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    is_local: bool,
    what: str,
    do: str,
) -> None:
    """As on a cluster, where each machine writes to a directory of its own."""
    monkeypatch.setattr(copies, "is_local", lambda master: is_local)
    after_writing(monkeypatch, name, lambda part: part.unlink())
    line = refused(run, tmp_path)
    assert re.search(what, line)
    assert do in line
    assert "nothing was deleted" in line


def test_a_file_that_cannot_be_read_or_has_other_rows_is_an_error(
    run: RunContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        after_writing(patched, "messages", lambda part: part.write_bytes(b"damaged"))
        assert "what goes cannot be saved" in refused(run, tmp_path)

    def twice(part: Path) -> None:
        part.write_bytes(max(part.parent.glob("part-*")).read_bytes())

    two_files = {"other": run.spark.range(0, 2, 1, 2)}
    with monkeypatch.context() as patched:
        after_writing(patched, "other", twice)
        assert "other has other rows than were written" in refused(run, tmp_path, two_files)


def refused(run: RunContext, tmp_path: Path, saved: dict[str, DataFrame] | None = None) -> str:
    place = f"file://{tmp_path}/{len([*tmp_path.iterdir()])}"
    with pytest.raises(TidemarkError) as error:
        copies.write(run, place, rows(run.spark) if saved is None else saved)
    assert error.value.exit_status == 1
    line = str(error.value)
    assert "\n" not in line
    assert place in line
    return line


def after_writing(
    monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Path], object]
) -> None:
    """Change a file of these rows as soon as Spark has written them."""
    write = DataFrameWriter.parquet

    def written(self: DataFrameWriter, path: str, *args: Any, **options: Any) -> None:
        write(self, path, *args, **options)
        directory = Path(urlsplit(path).path)
        if directory.name == name:
            part = min(directory.glob("part-*"))
            change(part)
            (part.parent / f".{part.name}.crc").unlink(missing_ok=True)

    monkeypatch.setattr(DataFrameWriter, "parquet", written)
