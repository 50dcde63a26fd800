"""The Iceberg tables of mode export: one commit for a batch, seen by another program."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tests import duckdb_reader
from tidemark.errors import DefinitionError, InvalidInput, SchemaMismatch, TidemarkError
from tidemark.project.definition.file import read
from tidemark.project.definition.model import Definition
from tidemark.project.writing.iceberg import columns, upkeep, write
from tidemark.project.writing.iceberg.table import IcebergTable
from tidemark.settings import Settings

HEADER = """\
/*---
name: {name}
version: 1
source: messages
mode: export
file-format: iceberg
target: {target}
event: kind STRING
---*/

SELECT time_bucket, kind FROM events
"""
HOUR_MS = 3_600_000
SHAPE = "time_bucket bigint, sequence_nr bigint, version string"


@pytest.fixture
def definition(tmp_path: Path) -> Definition:
    return defined(tmp_path)


@pytest.fixture
def table(
    spark: SparkSession, spark_environment: dict[str, str], tmp_path: Path, definition: Definition
) -> IcebergTable:
    return opened(spark, spark_environment, tmp_path, definition)


def defined(tmp_path: Path, name: str = "one", target: str = "lake.one") -> Definition:
    file = tmp_path / f"{name}.sql"
    file.write_text(HEADER.format(name=name, target=target))
    return read(file)


def opened(
    spark: SparkSession, environment: dict[str, str], tmp_path: Path, definition: Definition
) -> IcebergTable:
    settings = Settings(
        journal_keyspace="pekko",
        export_dir=tmp_path / "the lake",
        spark_iceberg_jars=environment["TIDEMARK_SPARK_ICEBERG_JARS"],
    )
    run: Any = SimpleNamespace(spark=spark, settings=settings)
    return IcebergTable.of(run, definition)


def rows(spark: SparkSession, version: str, *buckets: int, times: int = 1) -> DataFrame:
    """Return `times` rows in each bucket."""
    return spark.createDataFrame(
        [(bucket, number, version) for bucket in buckets for number in range(times)], SHAPE
    )


def put(
    table: IcebergTable, definition: Definition, frame: DataFrame, *buckets: int, name: str = "a"
) -> None:
    write.prepare(table, definition, frame)
    write.begin_batch(table, f"tidemark_{name}")
    write.write_batch(table, f"tidemark_{name}", frame, buckets)
    write.publish_batch(table, f"tidemark_{name}")


def read_back(
    tmp_path: Path, selected: str = "time_bucket, sequence_nr, version"
) -> list[tuple[Any, ...]]:
    """Read the table by DuckDB."""
    return sorted(
        duckdb_reader.rows(tmp_path / "the lake/lake/one", f"SELECT {selected} FROM events")
    )


def test_a_batch_is_one_commit_that_another_program_reads(
    spark: SparkSession, table: IcebergTable, definition: Definition, tmp_path: Path
) -> None:
    put(table, definition, rows(spark, "old", 0, HOUR_MS, times=2), 0, HOUR_MS)
    old = [(bucket, number, "old") for bucket in (0, HOUR_MS) for number in (0, 1)]
    assert read_back(tmp_path) == old
    before = [snapshot.snapshotId() for snapshot in table.loaded().snapshots()]

    # Three buckets: replaced, emptied, and new.
    put(table, definition, rows(spark, "new", HOUR_MS, 2 * HOUR_MS), 0, HOUR_MS, 2 * HOUR_MS)
    assert read_back(tmp_path) == [(HOUR_MS, 0, "new"), (2 * HOUR_MS, 0, "new")]
    loaded = table.loaded()
    after = [snapshot.snapshotId() for snapshot in loaded.snapshots()]
    assert len(after) == len(before) + 1
    assert loaded.currentSnapshot().parentId() == before[-1]
    assert list(loaded.refs().keySet()) == ["main"]
    # Readers of an older snapshot still find it.
    then = spark.read.option("snapshot-id", before[-1]).table(table.name)
    assert sorted(tuple(row) for row in then.collect()) == old


def test_a_batch_without_rows_empties_its_buckets(
    spark: SparkSession, table: IcebergTable, definition: Definition, tmp_path: Path
) -> None:
    put(table, definition, rows(spark, "old", 0, HOUR_MS), 0, HOUR_MS)
    put(table, definition, rows(spark, "new"), HOUR_MS)
    assert read_back(tmp_path) == [(0, 0, "old")]
    put(table, definition, rows(spark, "new"), HOUR_MS, 2 * HOUR_MS)
    assert read_back(tmp_path) == [(0, 0, "old")]


def test_nothing_of_an_unpublished_batch_is_seen(
    spark: SparkSession, table: IcebergTable, definition: Definition, tmp_path: Path
) -> None:
    put(table, definition, rows(spark, "old", 0), 0)
    write.begin_batch(table, "tidemark_dead")
    write.write_batch(table, "tidemark_dead", rows(spark, "dead", 0, HOUR_MS), (0, HOUR_MS))
    assert read_back(tmp_path) == [(0, 0, "old")]
    assert spark.table(table.name).count() == 1
    put(table, definition, rows(spark, "new", 0), 0, name="new")
    assert read_back(tmp_path) == [(0, 0, "new")]
    assert list(table.loaded().refs().keySet()) == ["main"]


@pytest.mark.parametrize("heir_publishes", [False, True])
def test_a_run_that_only_seemed_dead_publishes_nothing(
    spark: SparkSession,
    table: IcebergTable,
    definition: Definition,
    tmp_path: Path,
    heir_publishes: bool,
) -> None:
    put(table, definition, rows(spark, "old", 0), 0)
    write.begin_batch(table, "tidemark_stalled")
    write.write_batch(table, "tidemark_stalled", rows(spark, "stalled", 0), (0,))
    # Its lock expires here, right after its last check.
    write.begin_batch(table, "tidemark_heir")
    # The heir's result has no rows, so that its commit neither adds nor removes a file.
    write.write_batch(table, "tidemark_heir", rows(spark, "heir"), (HOUR_MS,))
    if heir_publishes:
        write.publish_batch(table, "tidemark_heir")
    with pytest.raises(TidemarkError, match="was changed by another run"):
        write.publish_batch(table, "tidemark_stalled")
    if not heir_publishes:
        write.publish_batch(table, "tidemark_heir")
    assert read_back(tmp_path) == [(0, 0, "old")]


@pytest.mark.parametrize("heir_publishes", [False, True])
def test_a_run_that_stalls_in_its_commit_publishes_nothing(
    spark: SparkSession,
    table: IcebergTable,
    definition: Definition,
    tmp_path: Path,
    heir_publishes: bool,
) -> None:
    """The stalled run has found its branch, and commits what it has computed of that state."""
    put(table, definition, rows(spark, "old", 0), 0)
    write.begin_batch(table, "tidemark_stalled")
    write.write_batch(table, "tidemark_stalled", rows(spark, "stalled", 0), (0,))
    change = table.loaded().manageSnapshots()
    change = change.fastForwardBranch("main", "tidemark_stalled").removeBranch("tidemark_stalled")
    write.begin_batch(table, "tidemark_heir")
    write.write_batch(table, "tidemark_heir", rows(spark, "heir", 0), (0,))
    if heir_publishes:
        write.publish_batch(table, "tidemark_heir")
    with pytest.raises(TidemarkError, match="was changed"), table.errors("was changed"):
        change.commit()
    if not heir_publishes:
        write.publish_batch(table, "tidemark_heir")
    assert read_back(tmp_path) == [(0, 0, "heir")]


def test_a_change_of_main_by_another_program_is_not_lost(
    spark: SparkSession, table: IcebergTable, definition: Definition, tmp_path: Path
) -> None:
    put(table, definition, rows(spark, "old", 0), 0)
    write.begin_batch(table, "tidemark_a")
    rows(spark, "by hand", HOUR_MS).writeTo(table.name).append()
    write.write_batch(table, "tidemark_a", rows(spark, "new", 0), (0,))
    with pytest.raises(TidemarkError, match="was changed by another run"):
        write.publish_batch(table, "tidemark_a")
    assert read_back(tmp_path) == [(0, 0, "old"), (HOUR_MS, 0, "by hand")]


def test_the_table_gets_new_columns_and_wider_types(
    spark: SparkSession, table: IcebergTable, definition: Definition, tmp_path: Path
) -> None:
    old = spark.createDataFrame([(0, 1, 1.5)], "time_bucket bigint, n int, x float")
    put(table, definition, old, 0)
    # In another order, as columns are matched by their names.
    kinds = "x double, n bigint, time_bucket bigint, kind string"
    new = spark.createDataFrame([(0.25, 2**40, HOUR_MS, "in")], kinds)
    put(table, definition, new, HOUR_MS)
    assert read_back(tmp_path, "time_bucket, n, x, kind") == [
        (0, 1, 1.5, None),
        (HOUR_MS, 2**40, 0.25, "in"),
    ]
    # Narrower values still fit.
    put(table, definition, old.selectExpr("*", "'out' AS kind"), 0)
    assert read_back(tmp_path, "n, kind") == [(1, "out"), (2**40, "in")]


def test_a_result_that_does_not_fit_the_table_is_refused(
    spark: SparkSession, table: IcebergTable, definition: Definition
) -> None:
    put(table, definition, rows(spark, "old", 0), 0)
    other = spark.createDataFrame([(0, "x")], "time_bucket bigint, sequence_nr string")
    with pytest.raises(SchemaMismatch) as refused:
        write.prepare(table, definition, other)
    assert refused.value.what == (
        "projection one does not fit the Iceberg table lake.one: sequence_nr is string in the"
        " result and bigint in the table; the result has no column version (string in the table)"
    )


def test_a_table_of_another_projection_or_program_is_refused(
    spark: SparkSession,
    spark_environment: dict[str, str],
    table: IcebergTable,
    definition: Definition,
    tmp_path: Path,
) -> None:
    put(table, definition, rows(spark, "old", 0), 0)
    two = defined(tmp_path, "two")
    with pytest.raises(SchemaMismatch, match=r"lake.one is that of pekko/one, and projection two"):
        write.require_own(opened(spark, spark_environment, tmp_path, two), two)
    by_hand = defined(tmp_path, "three", "lake.by_hand")
    theirs = opened(spark, spark_environment, tmp_path, by_hand)
    rows(spark, "theirs", 0).writeTo(theirs.name).using("iceberg").create()
    with pytest.raises(SchemaMismatch, match=r"lake.by_hand is not ours"):
        write.require_own(theirs, by_hand)


def test_a_process_in_a_commit_keeps_others_out(table: IcebergTable) -> None:
    with (
        table.exclusive(),
        pytest.raises(TidemarkError, match="another process of this machine"),
        table.exclusive(),
    ):
        pass
    with table.exclusive():
        pass
    assert os.listdir(table.directory.removeprefix("file://")) == [".tidemark.lock"]


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("flights", "the target 'flights' has no namespace"),
        ("lake.fli ghts", "'fli ghts' in the target is not a name"),
        ("lake.`x`", "'`x`' in the target is not a name"),
        ("lake/../x.y", "'lake/' in the target is not a name"),
        ("lake.", "'' in the target is not a name"),
    ],
)
def test_a_target_that_is_no_table_is_refused(tmp_path: Path, target: str, what: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        defined(tmp_path, target=target)
    assert refused.value.what.startswith(what)
    assert refused.value.where == f"{tmp_path / 'one.sql'}:7:9"


def test_a_catalog_that_spark_has_not_is_refused(
    spark: SparkSession, spark_environment: dict[str, str], definition: Definition
) -> None:
    jars = spark_environment["TIDEMARK_SPARK_ICEBERG_JARS"]
    run: Any = SimpleNamespace(
        spark=spark, settings=Settings(iceberg_catalog="prod", spark_iceberg_jars=jars)
    )
    with pytest.raises(InvalidInput, match="Spark's configuration has no catalog prod"):
        IcebergTable.of(run, definition)


def test_a_catalog_of_sparks_configuration_is_used(
    spark: SparkSession, spark_environment: dict[str, str], definition: Definition, tmp_path: Path
) -> None:
    prefix = "spark.sql.catalog.prod"
    jars = spark_environment["TIDEMARK_SPARK_ICEBERG_JARS"]
    run: Any = SimpleNamespace(
        spark=spark, settings=Settings(iceberg_catalog="prod", spark_iceberg_jars=jars)
    )
    for key, value in (
        (prefix, "org.apache.iceberg.spark.SparkCatalog"),
        (f"{prefix}.type", "hadoop"),
        (f"{prefix}.warehouse", str(tmp_path / "the lake")),
    ):
        spark.conf.set(key, value)
    try:
        table = IcebergTable.of(run, definition)
        put(table, definition, rows(spark, "new", 0), 0)
        put(table, definition, rows(spark, "newer", 0), 0)
        assert read_back(tmp_path) == [(0, 0, "newer")]
        assert table.directory == ""
    finally:
        spark.conf.unset(prefix)


def test_old_snapshots_expire_and_the_current_one_stays(
    spark: SparkSession, table: IcebergTable, definition: Definition, tmp_path: Path
) -> None:
    for version in ("one", "two", "three"):
        put(table, definition, rows(spark, version, 0), 0)
    snapshots = list(table.loaded().snapshots())
    assert len(snapshots) == 4
    last_but_one = snapshots[2].timestampMillis()
    old = sorted(snapshot.snapshotId() for snapshot in snapshots[:2])
    assert upkeep.old_snapshots(table, last_but_one) == old
    assert len(list(table.loaded().snapshots())) == 4
    assert len(data_files(tmp_path)) == 3
    upkeep.expire(table, last_but_one)
    assert [snapshot.snapshotId() for snapshot in table.loaded().snapshots()] == [
        snapshot.snapshotId() for snapshot in snapshots[2:]
    ]
    # The file of the second snapshot's rows is needed by no snapshot any more.
    assert len(data_files(tmp_path)) == 2
    much_later = snapshots[-1].timestampMillis() + 1000
    upkeep.expire(table, much_later)
    assert len(data_files(tmp_path)) == 1
    assert read_back(tmp_path) == [(0, 0, "three")]
    assert upkeep.old_snapshots(table, much_later) == []


def test_files_of_a_killed_run_are_removed_when_they_are_old(
    spark: SparkSession, table: IcebergTable, definition: Definition, tmp_path: Path
) -> None:
    put(table, definition, rows(spark, "old", 0), 0)
    # Killed before its commit.
    [file] = data_files(tmp_path)
    orphan = file.with_name("00000-0-killed.parquet")
    orphan.write_bytes(file.read_bytes())
    # Killed before it has published its batch.
    write.begin_batch(table, "tidemark_dead")
    write.write_batch(table, "tidemark_dead", rows(spark, "dead", 0), (0,))
    written = int(orphan.stat().st_mtime * 1000)
    assert upkeep.orphans(table, written - 1000) == []
    much_later = written + 60_000
    assert upkeep.orphans(table, much_later) == [f"file:{orphan}"]
    assert orphan.exists()
    upkeep.remove_orphans(table, much_later)
    assert not orphan.exists()
    assert len(data_files(tmp_path)) == 2

    put(table, definition, rows(spark, "new", 0), 0)
    upkeep.expire(table, much_later)
    assert len(data_files(tmp_path)) == 1
    assert upkeep.orphans(table, much_later) == []
    assert read_back(tmp_path) == [(0, 0, "new")]


def data_files(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "the lake/lake/one/data").rglob("*.parquet"))


KINDS = st.recursive(
    st.sampled_from(
        [
            *(T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType()),
            *(T.FloatType(), T.DoubleType(), T.StringType(), T.TimestampType()),
            *(T.DecimalType(9, 2), T.DecimalType(12, 2), T.DecimalType(12, 3)),
        ]
    ),
    lambda inner: inner.map(T.ArrayType) | inner.map(lambda kind: T.MapType(T.StringType(), kind)),
    max_leaves=3,
)
STRUCTS = st.dictionaries(st.sampled_from("abcd"), KINDS, max_size=4).map(
    lambda kinds: T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])
)


def stored(struct: T.StructType) -> T.StructType:
    """Return the columns of a table that is made of a result."""
    return columns.changes(T.StructType([]), struct)


@given(STRUCTS)
def test_a_result_fits_the_table_that_is_made_of_it(struct: T.StructType) -> None:
    assert list(columns.problems(stored(struct), struct)) == []
    assert columns.changes(stored(struct), struct).fields == []


@given(STRUCTS, STRUCTS)
def test_a_changed_table_has_its_columns_and_takes_both_results(
    first: T.StructType, second: T.StructType
) -> None:
    table = stored(first)
    changed = {field.name: field for field in columns.changes(table, second).fields}
    both = T.StructType([*({field.name: field for field in table.fields} | changed).values()])
    if not list(columns.problems(table, second)):
        assert {*first.names, *second.names} == {*both.names}
        for result in (first, second):
            of_result = T.StructType([field for field in both.fields if field.name in result.names])
            assert list(columns.problems(of_result, result)) == []
            assert columns.changes(both, result).fields == []
    else:
        absent = set(first.names) - set(second.names)
        assert absent or any(first[name].dataType != second[name].dataType for name in first.names)
