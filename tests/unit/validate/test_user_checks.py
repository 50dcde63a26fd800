"""Users' checks of validate: their files, Spark's errors about them, and their findings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.repository import REPOSITORY
from tidemark.errors import DefinitionError, InvalidInput
from tidemark.partitioning import keys
from tidemark.validate.findings import finding
from tidemark.validate.findings.check import Layer, Severity
from tidemark.validate.findings.checks import CHECKS
from tidemark.validate.user_checks import definition
from tidemark.validate.user_checks.definition import UserCheck
from tidemark.validate.user_checks.evaluate import failures, require_usable

HOUR = 3_600_000
TEMPLATE = "/*---\nname: mine\ncheck: {check}\n---*/\n{select}\n"
OF_MESSAGES = (
    "SELECT time_bucket, persistence_id, sequence_nr AS number, size(tags) AS tags\nFROM messages"
)
MESSAGES = (
    "persistence_id string, sequence_nr bigint, timestamp string, ticks bigint,"
    " time_bucket bigint, tags array<string>"
)
TAG_ROWS = (
    "persistence_id string, sequence_nr bigint, timestamp string, tag string,"
    " tag_pid_sequence_nr bigint, ticks bigint, time_bucket bigint"
)


def loaded(directory: Path, check: str, select: str) -> list[UserCheck]:
    (directory / "mine.sql").write_text(TEMPLATE.format(check=check, select=select))
    return definition.load(directory)


def found(
    spark: SparkSession,
    checks: Sequence[UserCheck],
    events: Sequence[tuple[str, int, int, list[str] | None]],
    tag_rows: Sequence[tuple[str, str, int, int]] = (),
    findings: Sequence[tuple[int, str]] = (),
    buckets: Sequence[int] = (0, HOUR),
) -> set[tuple[object, ...]]:
    """Return what the checks find.

    Args:
        spark: the session.
        checks: the checks.
        events: persistence id, sequence nr, time bucket and tags.
        tag_rows: persistence id, tag, tag pid sequence nr and time bucket.
        findings: time bucket and check of Tidemark's own.
        buckets: those that are looked at.
    """

    def ticks(bucket: int) -> int:
        return keys.epoch_ms_ticks(bucket + 1)

    require_usable(spark, checks)
    messages = spark.createDataFrame(
        [(pid, nr, "", ticks(bucket), bucket, tags) for pid, nr, bucket, tags in events], MESSAGES
    )
    rows = spark.createDataFrame(
        [(pid, nr, "", tag, nr, ticks(bucket), bucket) for pid, tag, nr, bucket in tag_rows],
        TAG_ROWS,
    )
    own = spark.createDataFrame(
        [(bucket, check, "p", "", 1, None, "") for bucket, check in findings], finding.SCHEMA
    )
    frame = failures(messages, rows, own, checks, buckets, DataFrame.persist)
    names = ("check_name", "time_bucket", "persistence_id", "tag", "number", "expected", "detail")
    return {tuple(row[name] for name in names) for row in frame.collect()}


@pytest.mark.parametrize(
    ("header", "what", "place"),
    [
        ("check: a", "name is missing", ":2:1"),
        ("name: mine", "check is missing", ":2:1"),
        ("name: My-Check\ncheck: a", "name cannot be 'My-Check'", ":2:7"),
        ("name: findings\ncheck: a", "the name findings is taken by Tidemark", ":1"),
        ("name: untagged_event\ncheck: a", "the name untagged_event is taken by Tidemark", ":1"),
        ("name: other\ncheck: a", "the name other is taken by an_other.sql", ":1"),
        ("name: mine\ncheck: {warn: {warn: a}}", "unknown key warn", ":3:16"),
        ("name: mine\nchecks: [a]\ncheck: b", "unknown key checks", ":3:1"),
        (
            "name: mine\ncheck: b\nsuite: c",
            "there are both check and suite",
            ":4:1",
        ),
    ],
)
def test_a_header_that_says_something_else_is_refused(
    tmp_path: Path, header: str, what: str, place: str
) -> None:
    (tmp_path / "an_other.sql").write_text(
        TEMPLATE.format(check="a", select=OF_MESSAGES).replace("mine", "other")
    )
    file = tmp_path / "mine.sql"
    file.write_text(f"/*---\n{header}\n---*/\n{OF_MESSAGES}\n")

    with pytest.raises(DefinitionError) as refused:
        definition.load(tmp_path)

    assert refused.value.what == what
    assert refused.value.where == f"{file}{place}"


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="TIDEMARK_CHECKS_DIR"):
        definition.load(tmp_path / "none")


def test_a_check_is_of_the_user_and_blocks_unless_it_warns(tmp_path: Path) -> None:
    [blocking] = loaded(tmp_path, "tags <= 1", OF_MESSAGES)
    assert blocking.check.layer is Layer.USER
    assert (blocking.check.rule, blocking.check.severity) == ("tags <= 1", Severity.BLOCKS)
    assert not blocking.check.is_repairable
    [warning] = loaded(tmp_path, "{warn: tags <= 1}\nrule: One tag.", OF_MESSAGES)
    assert (warning.check.rule, warning.check.severity) == ("One tag.", Severity.WARNS)


@pytest.mark.parametrize(
    ("check", "select", "what", "place"),
    [
        ("tag <= 1", OF_MESSAGES, "unknown column tag", ":3:8"),
        ("tags <= 1", "SELECT time_bucket, tag FROM messages", "unknown column tag", ":5:21"),
        ("tags <= 1", "SELECT 1 FROM\n event_log", "unknown table event_log", ":6:2"),
        ("tags <= 1", "SELECT tag, 1 AS tags FROM tag_rows", "the result has no time_bucket", ":5"),
        (
            "tags <= 1",
            "SELECT 0 AS time_bucket, 1 AS tags",
            "time_bucket is int, not bigint",
            ":5",
        ),
        (
            "number > 0",
            "SELECT time_bucket, tag AS number FROM tag_rows",
            "number is string, not bigint",
            ":5",
        ),
        (
            "number > 0",
            "SELECT *, 1 AS number, time_bucket FROM messages",
            "the result has a column twice",
            ":5",
        ),
        ("sum(tags) > 1", OF_MESSAGES, "Spark refuses the check sum(tags) > 1", ":3:8"),
        ("tags <= 1", "SELECT (time_bucket FROM messages", "Spark refuses the SQL", ":5:21"),
        ("tags <= 1", f"{OF_MESSAGES}; SELECT 1", "there is more than one statement", ":6:16"),
        ("tags <= 1", "DROP TABLE messages", "the SQL starts with 'DROP'", ":5:1"),
    ],
)
def test_what_spark_cannot_evaluate_is_refused_at_its_place(
    spark: SparkSession, tmp_path: Path, check: str, select: str, what: str, place: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        require_usable(spark, loaded(tmp_path, check, select))

    assert refused.value.what.startswith(what)
    assert refused.value.where == f"{tmp_path / 'mine.sql'}{place}"


def test_rows_that_fail_are_findings_with_their_key_and_evidence(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = [
        ("p", 1, 0, ["a"]),
        ("p", 2, 0, ["a", "b"]),
        ("q", 1, HOUR, ["a", "b", "c"]),
        # Null meets every condition, as in SQL's own CHECK.
        ("q", 2, HOUR, None),
        # Not looked at.
        ("p", 3, 2 * HOUR, ["a", "b"]),
    ]

    assert found(spark, loaded(tmp_path, "tags <= 1", OF_MESSAGES), events) == {
        ("mine", 0, "p", "", 2, None, "tags <= 1: tags=2"),
        ("mine", HOUR, "q", "", 1, None, "tags <= 1: tags=3"),
    }


def test_rows_with_one_key_are_one_finding(spark: SparkSession, tmp_path: Path) -> None:
    checks = loaded(
        tmp_path,
        "{unique: [tag, nr]}",
        "SELECT time_bucket, tag, tag_pid_sequence_nr AS nr FROM tag_rows",
    )
    rows = [("p", "a", 1, 0), ("q", "a", 1, 0), ("p", "a", 2, 0), ("p", "b", 1, 0)]

    assert found(spark, checks, [], rows) == {
        ("mine", 0, "", "a", 0, None, "unique (tag, nr): nr=1 (2 rows)"),
    }


def test_a_check_may_ask_what_tidemark_has_found(spark: SparkSession, tmp_path: Path) -> None:
    select = "SELECT time_bucket, count(*) AS n FROM findings GROUP BY time_bucket"

    assert found(
        spark,
        loaded(tmp_path, "{warn: n < 2}", select),
        [],
        findings=[(0, "untagged_event"), (HOUR, "a"), (HOUR, "b")],
    ) == {("mine", HOUR, "", "", HOUR, None, "n < 2: n=2")}


def test_events_have_their_time(spark: SparkSession, tmp_path: Path) -> None:
    select = "SELECT time_bucket, persistence_id, unix_millis(timestamp) AS ms FROM messages"
    checks = loaded(tmp_path, "ms = time_bucket", select)

    assert found(spark, checks, [("p", 1, HOUR, None)]) == {
        ("mine", HOUR, "p", "", HOUR, None, f"ms = time_bucket: ms={HOUR + 1}")
    }


@pytest.mark.parametrize(
    ("check", "select", "what"),
    [
        ("x > 1", "SELECT time_bucket, max(raise_error('no')) AS x FROM messages GROUP BY 1", "the check cannot be computed: java.lang.RuntimeException: no"),  # noqa: E501
        ("x > 1", "SELECT time_bucket + 1 AS time_bucket, 1 AS x FROM messages", "a row that fails is of time bucket 1, which is not validated"),  # noqa: E501
        ("x > 1", "SELECT cast(NULL AS bigint) AS time_bucket, 1 AS x FROM messages", "a row that fails is of time bucket None"),  # noqa: E501
    ],
)  # fmt: skip
def test_what_cannot_be_computed_is_refused(
    spark: SparkSession, tmp_path: Path, check: str, select: str, what: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        found(spark, loaded(tmp_path, check, select), [("p", 1, 0, None)])

    assert refused.value.what.startswith(what)
    assert refused.value.where == f"{tmp_path / 'mine.sql'}:5"


def test_the_tables_are_gone_afterwards(spark: SparkSession, tmp_path: Path) -> None:
    found(spark, loaded(tmp_path, "tags <= 1", OF_MESSAGES), [("p", 1, 0, None)])

    assert not [name for name in definition.FRAMES if spark.catalog.tableExists(name)]


def test_the_example_of_the_guide_is_a_check(spark: SparkSession, tmp_path: Path) -> None:
    guides = ("docs/operating.md", "include/sql/checks/README.md")
    examples = {
        text
        for guide in guides
        for text in re.findall(r"```sql\n(.*?)```", (REPOSITORY / guide).read_text(), re.DOTALL)
        if "check:" in text and "source:" not in text
    }
    [example] = examples
    (tmp_path / "one_airport.sql").write_text(example)
    checks = definition.load(tmp_path)
    events = [("p", 1, 0, ["JFK"]), ("p", 2, 0, ["JFK", "LGA", "delayed"])]

    assert found(spark, checks, events) == {
        ("one_airport", 0, "p", "", 2, None, "airports <= 1: airports=2")
    }


def test_no_check_of_tidemark_is_of_the_user() -> None:
    assert not [check for check in CHECKS if check.layer is Layer.USER]
