"""Sources that users' checks name: their headers, their columns, and those that are absent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.integration.project.projections import FILES
from tests.repository import REPOSITORY
from tidemark.context import RunContext
from tidemark.errors import CassandraUnavailable, DefinitionError, InvalidInput, TidemarkError
from tidemark.validate.layers.check_sources import READERS
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.validate.user_checks import definition, named
from tidemark.validate.user_checks.definition import UserCheck
from tidemark.validate.user_checks.named import Reader
from tidemark.validate.user_checks.source import KEYS, CheckSource, SourceKind

OF_MODEL = "SELECT persistence_id, n FROM read_model"
MODEL = "persistence_id string, time_bucket bigint, n int"


def loaded(directory: Path, source: str, select: str, name: str = "mine") -> UserCheck:
    (directory / f"{name}.sql").write_text(
        f"/*---\nname: {name}\nsource: {source}\ncheck: n < 2\n---*/\n{select}\n"
    )
    return next(check for check in definition.load(directory) if check.check.name == name)


def found(
    spark: SparkSession, check: UserCheck, *checks: UserCheck, **readers: Reader
) -> set[tuple[object, ...]]:
    """Return what checks find, of the readers by kind."""
    run = cast(RunContext, SimpleNamespace(spark=spark))
    by_kind = {SourceKind(kind.replace("_", "-")): reader for kind, reader in readers.items()}
    frame = named.failures(run, [check, *checks], [0], by_kind, DataFrame.persist)
    names = ("check_name", "time_bucket", "persistence_id", "number", "detail")
    return {tuple(row[name] for name in names) for row in frame.collect()}


def model(spark: SparkSession) -> Callable[..., DataFrame]:
    return lambda *_: spark.createDataFrame([("p", 0, 1), ("q", 0, 2)], MODEL)


def raising(error: TidemarkError) -> Reader:
    def read(*_: object) -> DataFrame:
        raise error

    return read


@pytest.mark.parametrize(
    ("header", "source"),
    [
        ("keys", KEYS),
        ("journal", CheckSource(SourceKind.JOURNAL)),
        ("{events: flights}", CheckSource(SourceKind.EVENTS, "flights")),
        ("{read-model: flights}", CheckSource(SourceKind.READ_MODEL, "flights")),
        ("metajournal", CheckSource(SourceKind.METAJOURNAL)),
        ("quarantine", CheckSource(SourceKind.QUARANTINE)),
    ],
)
def test_a_header_names_the_source(tmp_path: Path, header: str, source: CheckSource) -> None:
    assert loaded(tmp_path, header, "SELECT 1").source == source


@pytest.mark.parametrize(
    ("header", "what", "do"),
    [
        ("messages", "source cannot be 'messages'", "write 'keys', 'journal', 'metajournal' or"),
        ("events", "source cannot be 'events'", "write 'keys', 'journal', 'metajournal' or"),
        ("{event: a}", "unknown key event", "write events"),
        ("{events: a, read-model: b}", "source cannot be", "write exactly one of events, read-"),
        ("{events: ''}", "events is empty", "write a text"),
    ],
)
def test_a_source_that_there_is_not_is_refused(
    tmp_path: Path, header: str, what: str, do: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        loaded(tmp_path, header, "SELECT 1")

    assert refused.value.what.startswith(what)
    assert refused.value.do.startswith(do)


def test_rows_without_time_are_findings_in_no_time_bucket(
    spark: SparkSession, tmp_path: Path
) -> None:
    check = loaded(tmp_path, "{read-model: totals}", OF_MODEL)

    assert found(spark, check, read_model=model(spark)) == {
        ("mine", NO_TIME_BUCKET, "q", 0, "read-model totals: n < 2: n=2")
    }


@pytest.mark.parametrize(
    ("source", "select", "what"),
    [
        (
            "{read-model: totals}",
            "SELECT time_bucket, n FROM read_model",
            "the result has a time_bucket, and a finding of read-model totals belongs to none",
        ),
        ("{events: totals}", "SELECT n FROM events", "the result has no time_bucket"),
        ("{events: totals}", "SELECT 0L AS time_bucket, n FROM messages", "unknown table messages"),
        ("{read-model: totals}", "SELECT m AS n FROM read_model", "unknown column m"),
        (
            "{events: totals}",
            "SELECT time_bucket + 1 AS time_bucket, n FROM events",
            "a row that fails is of time bucket 1, which is not validated",
        ),
    ],
)
def test_a_select_that_does_not_fit_its_source_is_refused(
    spark: SparkSession, tmp_path: Path, source: str, select: str, what: str
) -> None:
    check = loaded(tmp_path, source, select)

    with pytest.raises(DefinitionError) as refused:
        found(spark, check, read_model=model(spark), events=model(spark))

    assert refused.value.what == what


@pytest.mark.parametrize("source", ["{read-model: totals}", "{events: totals}"])
def test_an_absent_source_is_a_finding_of_its_check_alone(
    spark: SparkSession, tmp_path: Path, source: str
) -> None:
    absent = loaded(tmp_path, source, "SELECT 1")
    present = loaded(tmp_path, "metajournal", "SELECT n FROM metajournal", "other")
    error = InvalidInput("no projection is named totals", where="x", do="there are: a")
    readers = {"read_model": raising(error), "events": raising(error), "metajournal": model(spark)}

    assert found(spark, absent, present, **readers) == {
        ("mine", NO_TIME_BUCKET, "", 0, f"{absent.source}: no projection is named totals (x); there are: a"),  # noqa: E501
        ("other", NO_TIME_BUCKET, "", 0, "metajournal: n < 2: n=2"),
    }  # fmt: skip


def test_an_outage_is_no_finding(spark: SparkSession, tmp_path: Path) -> None:
    check = loaded(tmp_path, "metajournal", "SELECT 1")

    with pytest.raises(CassandraUnavailable):
        found(spark, check, metajournal=raising(CassandraUnavailable("no answer")))


def refusal_of(directory: Path, files: Mapping[str, str], source: CheckSource) -> InvalidInput:
    """Return the error of a reader over a directory of projections."""
    for name, text in files.items():
        (directory / name).write_text(text)
    run = cast(RunContext, SimpleNamespace(settings=SimpleNamespace(projections_dir=directory)))
    with pytest.raises(InvalidInput) as refused:
        READERS[source.kind](run, source, [0])
    return refused.value


def test_files_are_no_read_model(tmp_path: Path) -> None:
    source = CheckSource(SourceKind.READ_MODEL, "files")
    refused = refusal_of(tmp_path, {"files.sql": FILES}, source)

    assert refused.what == "projection files writes files and no table"
    assert refused.where == str(tmp_path / "files.sql")
    assert refused.do == "check `events: files`"


def test_a_rollup_has_no_events(tmp_path: Path) -> None:
    daily = FILES.replace("mode: export", "mode: bucket").replace("target: ", "target: models.")
    totals = """/*---
name: totals
version: 1
source: {read-model: files}
mode: rollup
target: models.totals
---*/
SELECT persistence_id, count(*) AS rows FROM files GROUP BY persistence_id
"""
    files = {"files.sql": daily, "totals.sql": totals}
    refused = refusal_of(tmp_path, files, CheckSource(SourceKind.EVENTS, "totals"))
    assert refused.what == "projection totals reads a read model and no events"


@pytest.mark.parametrize("kind", [SourceKind.EVENTS, SourceKind.READ_MODEL])
def test_a_projection_that_cannot_be_used_is_no_source(tmp_path: Path, kind: SourceKind) -> None:
    broken = FILES.replace("mode: export", "mode: exports")
    unusable = refusal_of(tmp_path, {"files.sql": broken}, CheckSource(kind, "files"))
    assert unusable.what.startswith("mode cannot be 'exports'")

    unknown = refusal_of(tmp_path, {"files.sql": FILES}, CheckSource(kind, "nobody"))
    assert unknown.what == "no projection is named nobody"
    assert unknown.do == "there are: files"


def test_the_example_of_the_guide_is_a_check(spark: SparkSession, tmp_path: Path) -> None:
    guide = (REPOSITORY / "docs" / "operating.md").read_text()
    [example] = [
        text for text in re.findall(r"```sql\n(.*?)```", guide, re.DOTALL) if "source:" in text
    ]
    (tmp_path / "example.sql").write_text(example)
    [check] = definition.load(tmp_path)
    columns = "time_bucket bigint, carrier string, delayed int, departed int"
    rows = spark.createDataFrame([(0, "AA", 1, 1), (0, "UA", 2, 1)], columns)
    text = "read-model daily_punctuality: delayed <= departed: delayed=2, departed=1"

    assert found(spark, check, read_model=lambda *_: rows) == {
        ("delays_are_departures", NO_TIME_BUCKET, "", 0, text)
    }
