"""The files of mode export: one file for each time bucket, replaced in one step."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemark.errors import DefinitionError, InvalidInput, TidemarkError
from tidemark.project.definition.file import read
from tidemark.project.writing import export_files
from tidemark.project.writing.export_files import resolve
from tidemark.settings import Settings

HEADER = """\
/*---
name: one
version: 1
source: messages
mode: export
target: {target}
event: kind STRING
---*/

SELECT time_bucket, kind FROM events
"""
HOUR_MS = 3_600_000


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> export_files.Files:
    return export_files.open_files(spark, f"file://{tmp_path}/lake {{1}} *", "pekko.one")


def rows(spark: SparkSession, version: str, *buckets: int, times: int = 1) -> DataFrame:
    """Return `times` rows in each bucket, the last row first."""
    return spark.createDataFrame(
        [(bucket, number, version) for bucket in buckets for number in range(times, 0, -1)],
        "time_bucket bigint, sequence_nr bigint, version string",
    ).repartition(3)


def put(files: export_files.Files, frame: DataFrame, name: str, *buckets: int) -> None:
    export_files.write_batch(frame, files, name)
    for bucket in buckets:
        export_files.replace_bucket(files, name, bucket)
    export_files.remove_batches(files)


def directory(files: export_files.Files) -> Path:
    return Path(files.directory.removeprefix("file://"))


def everything(files: export_files.Files) -> list[str]:
    root = directory(files)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_bucket_is_one_file_in_order_that_any_reader_finds(
    spark: SparkSession, files: export_files.Files
) -> None:
    put(files, rows(spark, "old", 0, HOUR_MS, times=3), "1-a", 0, HOUR_MS)
    assert everything(files) == [
        "time_bucket=0/pekko.one.parquet",
        "time_bucket=3600000/pekko.one.parquet",
    ]
    exported = pd.read_parquet(directory(files))
    assert exported.sequence_nr.tolist() == [1, 2, 3] * 2
    assert exported.time_bucket.tolist() == [0] * 3 + [HOUR_MS] * 3
    put(files, rows(spark, "new", 0), "2-b", 0)
    export_files.remove_bucket(files, HOUR_MS)
    assert pd.read_parquet(directory(files)).version.tolist() == ["new"]
    assert everything(files) == ["time_bucket=0/pekko.one.parquet"]
    assert os.listdir(directory(files).parent) == [directory(files).name]


def test_other_files_of_a_bucket_stay(spark: SparkSession, files: export_files.Files) -> None:
    put(files, rows(spark, "old", 0), "1-a", 0)
    other = directory(files) / "time_bucket=0" / "pekko.other.parquet"
    other.write_bytes(b"")
    batch = directory(files).parent / "_batch-pekko.other-1-a"
    batch.mkdir()
    export_files.remove_bucket(files, 0)
    export_files.remove_batches(files)
    assert everything(files) == ["time_bucket=0/pekko.other.parquet"]
    assert batch.exists()


def test_a_reader_sees_the_old_or_the_new_bucket_and_never_both(
    spark: SparkSession, files: export_files.Files
) -> None:
    put(files, rows(spark, "0", 0, times=50), "1-0", 0)
    done = Event()

    def read_on() -> set[tuple[int, int]]:
        """Read the export repeatedly; return the row and version counts of every read."""
        seen = set()
        while not done.is_set():
            exported = pd.read_parquet(directory(files))
            seen.add((len(exported), exported.version.nunique()))
        return seen

    with ThreadPoolExecutor(1) as readers:
        reader = readers.submit(read_on)
        try:
            for version in range(1, 6):
                put(files, rows(spark, str(version), 0, times=50), f"1-{version}", 0)
        finally:
            done.set()
        assert reader.result() == {(50, 1)}


def test_a_run_whose_batch_was_removed_puts_nothing_in_place(
    spark: SparkSession, files: export_files.Files
) -> None:
    put(files, rows(spark, "new", 0), "1-new", 0)
    export_files.write_batch(rows(spark, "stalled", 0), files, "1-stalled")
    assert pd.read_parquet(directory(files)).version.tolist() == ["new"]
    export_files.remove_batches(files)
    with pytest.raises(TidemarkError, match="0 files of time bucket 0 are there to be put in"):
        export_files.replace_bucket(files, "1-stalled", 0)
    assert pd.read_parquet(directory(files)).version.tolist() == ["new"]


def test_the_rename_of_other_file_systems_replaces_too(
    spark: SparkSession, files: export_files.Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls are the same as on HDFS, which promises that they are one step there."""
    monkeypatch.setattr(export_files, "LOCAL", "another")
    put(files, rows(spark, "old", 0), "1-a", 0)
    put(files, rows(spark, "new", 0), "1-b", 0)
    assert pd.read_parquet(directory(files)).version.tolist() == ["new"]


@pytest.mark.parametrize(
    ("target", "export_dir", "uri"),
    [
        ("flights", "/lake", "file:///lake/flights"),
        ("a b/c", "hdfs://name/lake/", "hdfs://name/lake/a b/c"),
        ("/data/flights", "/lake", "file:///data/flights"),
        ("viewfs://x/flights/", "/lake", "viewfs://x/flights"),
    ],
)
def test_the_target_is_resolved(tmp_path: Path, target: str, export_dir: str, uri: str) -> None:
    (tmp_path / "one.sql").write_text(HEADER.format(target=target))
    definition = read(tmp_path / "one.sql")
    assert definition.target == target
    assert resolve(definition, Settings(export_dir=export_dir)) == uri


def test_a_store_that_cannot_replace_in_one_step_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "one.sql"
    file.write_text(HEADER.format(target="flights"))
    with pytest.raises(InvalidInput) as refused:
        resolve(read(file), Settings(export_dir="s3a://bucket/lake"))
    assert str(refused.value) == (
        f"mode export does not write to s3a: it cannot replace a file in one step ({file}:6);"
        " use one of file, hdfs, viewfs in the target or in TIDEMARK_EXPORT_DIR,"
        " and copy the files from there"
    )


@pytest.mark.parametrize(
    ("target", "what", "do"),
    [
        (
            "hdfs://me:hunter2@name/x",
            "the target has a password in it",
            "leave user and password to Spark's own settings, and replace them",
        ),
        (
            "x/../../etc",
            "the target 'x/../../etc' is not a directory's name",
            "write a directory, or a URI such as `hdfs://name/directory`, in one line",
        ),
    ],
)
def test_a_target_is_refused(tmp_path: Path, target: str, what: str, do: str) -> None:
    file = tmp_path / "one.sql"
    file.write_text(HEADER.format(target=target))
    with pytest.raises(DefinitionError) as refused:
        read(file)
    assert str(refused.value) == f"{what} ({file}:6:9); {do}"
