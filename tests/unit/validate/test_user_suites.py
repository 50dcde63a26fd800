"""Suites of users' checks: their files, the verdict on a small table, the findings."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.repository import REPOSITORY
from tests.unit.validate.test_user_checks import HOUR, OF_MESSAGES, found
from tidemark.errors import DefinitionError
from tidemark.validate.data_docs import catalogue, quiet_gx, small_table
from tidemark.validate.data_docs.catalogue import Expectation
from tidemark.validate.data_docs.small_table import CannotBeJudged, unmet
from tidemark.validate.findings.check import Severity
from tidemark.validate.user_checks import definition, judged
from tidemark.validate.user_checks.definition import UserCheck
from tidemark.validate.user_checks.evaluate import require_usable
from tidemark.validate.user_checks.suite import SUITES

BETWEEN = "expect_column_values_to_be_between"
MEAN = "expect_column_mean_to_be_between"
ROW_COUNT = "expect_table_row_count_to_be_between"
FEW_TAGS = f"- {BETWEEN}: {{column: tags, max_value: 1}}"


def loaded(
    directory: Path, expectations: str, select: str = OF_MESSAGES, severity: str = "critical"
) -> list[UserCheck]:
    """Load a check with a suite of expectations, which are given as a YAML list."""
    stored = [
        {"type": name, "kwargs": kwargs, "severity": severity}
        for item in yaml.safe_load(expectations)
        for name, kwargs in item.items()
    ]
    return with_suite(directory, json.dumps({"name": "s", "expectations": stored}), select)


def with_suite(directory: Path, suite: str, select: str = OF_MESSAGES) -> list[UserCheck]:
    file = directory / SUITES / "s.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(suite)
    (directory / "mine.sql").write_text(f"/*---\nname: mine\nsuite: s\n---*/\n{select}\n")
    return definition.load(directory)


def expectation(name: str, **kwargs: Any) -> Expectation:
    return Expectation(catalogue.expectation_types()[name], kwargs)


@pytest.mark.parametrize(
    ("expectations", "what", "number", "do"),
    [
        (
            "- expect_column_values_to_between: {column: tags}",
            "unknown expectation expect_column_values_to_between",
            1,
            f"write {BETWEEN}",
        ),
        (
            "- unexpected_rows_expectation: {unexpected_rows_query: x}",
            "unknown expectation",
            1,
            "known",
        ),
        ("- x: {y: z}", "unknown expectation x", 1, "known are expect_column_distinct"),
        # Only those that fit a result: no types of columns, no SQL, no other tables.
        *(
            (f"- {name}: {{column: a}}", f"unknown expectation {name}", 1, "write expect_")
            for name in (
                "expect_column_values_to_be_of_type",
                "expect_column_to_exist",
                "expect_table_row_count_to_equal_other_table",
                "expect_column_values_to_match_like_pattern",
            )
        ),
        (
            f"{FEW_TAGS}\n- {BETWEEN}: {{column: tags, maximum_value: 1}}",
            f"{BETWEEN} has no maximum_value",
            2,
            "write max_value",
        ),
        (f"- {BETWEEN}: {{max_value: 1}}", f"{BETWEEN} needs column", 1, "give it column"),
        (
            "- expect_column_values_to_match_regex: {column: tags, regex: null}",
            "expect_column_values_to_match_regex needs regex",
            1,
            "give it regex",
        ),
        (
            "- expect_column_values_to_match_regex: {column: tags, regex: 1}",
            "regex cannot be used: not a text",
            1,
            "its arguments are column, regex",
        ),
        (
            "- expect_column_values_to_not_match_regex: {column: tags, regex: '('}",
            "regex cannot be used: no regular expression: missing )",
            1,
            "its arguments are column, regex",
        ),
        (
            f"- {BETWEEN}: {{column: tags, row_condition: a}}",
            f"{BETWEEN} has no row_condition",
            1,
            "known are column, mostly",
        ),
        (
            f"- {MEAN}: {{column: tags}}",
            f"{MEAN}: min_value and max_value are missing",
            1,
            "its arguments are column, min_value",
        ),
        (
            f"- {MEAN}: {{column: tags, max_value: few}}",
            "max_value cannot be used: value is not a valid float",
            1,
            "its arguments are",
        ),
        (
            f"- {BETWEEN}: {{column: tags, max_value: {{$PARAMETER: x}}}}",
            "max_value cannot be used: a mapping",
            1,
            "its arguments are",
        ),
        (
            "- expect_compound_columns_to_be_unique: {column_list: [tags]}",
            "column_list cannot be used: column_list must contain at least two columns",
            1,
            "its arguments are",
        ),
    ],
)
def test_an_expectation_that_cannot_be_judged_is_refused(
    tmp_path: Path, expectations: str, what: str, number: int, do: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        loaded(tmp_path, expectations)

    assert refused.value.what.startswith(what)
    assert refused.value.where == f"{tmp_path / SUITES / 's.json'}: expectation {number}"
    assert refused.value.do.startswith(do)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("suite", "what", "do"),
    [
        ("{", "this is no suite: Invalid JSON", "save it with great_expectations"),
        ("[]", "this is no suite: Input should be an object", "save it with"),
        ('{"name": "s"}', "this is no suite: expectations: Field required", "save it with"),
        ('{"expectations": []}', "this is no suite: expectations: Tuple should have", "save it"),
        (
            '{"expectations": [{"type": "a", "kwargs": 1}]}',
            "this is no suite: expectations.0.kwargs: Input should be an object",
            "save it with",
        ),
        (
            '{"expectations": [{"type": "a", "kwargs": {}}, {"type": "a", "kwargs": {},'
            ' "severity": "warning"}]}',
            "some expectations are critical and others are not",
            "make two suites of it",
        ),
    ],
)
def test_a_file_that_is_no_suite_is_refused(tmp_path: Path, suite: str, what: str, do: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        with_suite(tmp_path, suite)

    assert refused.value.what.startswith(what)
    assert refused.value.where == str(tmp_path / SUITES / "s.json")
    assert refused.value.do.startswith(do)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("../s", "suite cannot be '../s'"),
        ("a/b", "suite cannot be 'a/b'"),
        ("", "suite is empty"),
        (".", "suite cannot be '.'"),
    ],
)
def test_a_name_that_leads_out_of_the_context_is_refused(
    tmp_path: Path, name: str, what: str
) -> None:
    loaded(tmp_path, FEW_TAGS)
    (tmp_path / "gx" / "s.json").write_bytes((tmp_path / SUITES / "s.json").read_bytes())
    (tmp_path / "mine.sql").write_text(f"/*---\nname: mine\nsuite: '{name}'\n---*/\nSELECT 1\n")

    with pytest.raises(DefinitionError) as refused:
        definition.load(tmp_path)

    assert refused.value.what == what
    assert refused.value.where == f"{tmp_path / 'mine.sql'}:3:8"


def test_a_suite_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    loaded(tmp_path, FEW_TAGS)
    (tmp_path / SUITES / "s.json").rename(tmp_path / SUITES / "other.json")

    with pytest.raises(DefinitionError) as refused:
        definition.load(tmp_path)

    assert refused.value.what == "the suite s cannot be read: No such file or directory"
    assert refused.value.do == "save one with great_expectations; there are other"


def test_a_column_that_the_select_does_not_have_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    checks = loaded(
        tmp_path, f"{FEW_TAGS}\n- expect_compound_columns_to_be_unique: {{column_list: [tags, a]}}"
    )

    with pytest.raises(DefinitionError) as refused:
        require_usable(spark, checks)

    assert refused.value.what == "unknown column a"
    assert refused.value.where == f"{tmp_path / SUITES / 's.json'}: expectation 2"
    assert refused.value.do.endswith("time_bucket, persistence_id, number, tags")


@pytest.mark.parametrize(
    ("severity", "effect"),
    [
        ("critical", Severity.BLOCKS),
        ("warning", Severity.WARNS),
        ("info", Severity.WARNS),
    ],
)
def test_the_severity_of_the_suite_decides(tmp_path: Path, severity: str, effect: Severity) -> None:
    [check] = loaded(tmp_path, FEW_TAGS, severity=severity)
    assert check.check.severity is effect
    assert check.check.rule == f"{BETWEEN}(column=tags, max_value=1)"


def test_without_suites_nothing_waits_for_great_expectations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.sql").write_text(f"/*---\nname: mine\ncheck: tags < 1\n---*/\n{OF_MESSAGES}")
    monkeypatch.setattr(catalogue, "expectation_types", None)

    assert definition.load(tmp_path)


def test_rows_that_are_not_as_expected_are_findings_with_their_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = [
        ("p", 1, 0, ["a"]),
        ("p", 2, 0, ["a", "b"]),
        ("q", 1, HOUR, ["a", "b", "c"]),
        # Great Expectations takes null for missing, which is as expected.
        ("q", 2, HOUR, None),
        # Not looked at.
        ("p", 3, 2 * HOUR, ["a", "b"]),
    ]
    checks = loaded(
        tmp_path,
        f"{FEW_TAGS}\n- expect_column_values_to_not_be_in_set: {{column: tags, value_set: [3]}}",
    )
    few = f"{BETWEEN}(column=tags, max_value=1)"
    no_three = "expect_column_values_to_not_be_in_set(column=tags, value_set=[3])"

    assert found(spark, checks, events) == {
        ("mine", 0, "p", "", 2, None, f"{few}: tags=2"),
        ("mine", HOUR, "q", "", 1, None, f"{few}: tags=3; {no_three}: tags=3"),
    }


def test_rows_with_one_key_are_one_finding(spark: SparkSession, tmp_path: Path) -> None:
    checks = loaded(
        tmp_path,
        "- expect_compound_columns_to_be_unique: {column_list: [tag, nr]}",
        "SELECT time_bucket, tag, tag_pid_sequence_nr AS nr FROM tag_rows",
    )
    rows = [("p", "a", 1, 0), ("q", "a", 1, 0), ("p", "a", 2, 0), ("p", "a", 1, HOUR)]
    text = "expect_compound_columns_to_be_unique(column_list=['tag', 'nr'])"

    assert found(spark, checks, [], rows) == {
        ("mine", 0, "", "a", 0, None, f"{text}: tag=a, nr=1 (2 rows)"),
    }


def test_what_is_expected_of_all_rows_is_found_by_time_bucket(
    spark: SparkSession, tmp_path: Path
) -> None:
    checks = loaded(
        tmp_path,
        f"- {MEAN}: {{column: tags, max_value: 1.5}}\n- {ROW_COUNT}: {{min_value: 2}}",
        # Decimals are judged as numbers.
        "SELECT time_bucket, persistence_id, cast(size(tags) AS decimal(9, 2)) AS tags"
        " FROM messages",
    )
    events = [("p", 1, 0, ["a"]), ("p", 2, 0, ["a", "b"]), ("q", 1, HOUR, ["a", "b"])]
    mean, rows = f"{MEAN}(column=tags, max_value=1.5)", f"{ROW_COUNT}(min_value=2)"

    # A time bucket without rows has a number of rows, and no mean. The number of a finding is the
    # time bucket, so that who settles it does not speak for other time buckets.
    assert found(spark, checks, events, buckets=(0, HOUR, 3 * HOUR)) == {
        ("mine", HOUR, "", "", HOUR, None, f"{mean}: observed 2; {rows}: observed 1"),
        ("mine", 3 * HOUR, "", "", 3 * HOUR, None, f"{rows}: observed 0"),
    }


@pytest.mark.parametrize(
    ("expectations", "select", "what", "place"),
    [
        (FEW_TAGS, "SELECT time_bucket, raise_error('no') AS tags FROM messages", "the check cannot be computed: java.lang.RuntimeException: no", "mine.sql:5"),  # noqa: E501
        (FEW_TAGS, "SELECT time_bucket + 1 AS time_bucket, 1 AS tags FROM messages", "a row is of time bucket 1, which is not validated", "mine.sql:5"),  # noqa: E501
        (FEW_TAGS, "SELECT cast(NULL AS bigint) AS time_bucket, 1 AS tags FROM messages", "a row is of time bucket None", "mine.sql:5"),  # noqa: E501
        (FEW_TAGS, "SELECT time_bucket, explode(sequence(0, 2)) AS tags FROM messages", "the result has more than 2 rows", "mine.sql:5"),  # noqa: E501
        (FEW_TAGS, "SELECT time_bucket, 'x' AS tags FROM messages", f"{BETWEEN} cannot be judged: ", "gx/expectations/s.json: expectation 1"),  # noqa: E501
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_refused(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    expectations: str,
    select: str,
    what: str,
    place: str,
) -> None:
    monkeypatch.setattr(judged, "MOST_ROWS", 2)

    with pytest.raises(DefinitionError) as refused:
        found(spark, loaded(tmp_path, expectations, select), [("p", 1, 0, None)])

    assert refused.value.what.startswith(what)
    assert refused.value.where == str(tmp_path / place)
    assert "\n" not in str(refused.value)


ARGUMENTS: Mapping[str, object] = {
    "column": "n",
    "column_A": "n",
    "column_B": "m",
    "column_list": ["n", "m"],
    "value_set": [7],
    "value": 7,
    "min_value": 7,
    "value_pairs_set": [[7, 7]],
    "sum_total": 7,
    "threshold": 7,
    "double_sided": False,
    "regex": "7",
    "regex_list": ["7"],
    "strftime_format": "%Y",
    "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[7, 8]]},
}


def test_every_expectation_that_is_known_can_be_judged() -> None:
    table = pd.DataFrame({"time_bucket": [0, 0, HOUR], "n": [1, 2, 3], "m": [1, 1, 1]})
    table["s"] = ["a", "b", None]
    of_texts = ("regex", "strftime", "parseable", "lengths")
    types = catalogue.expectation_types()
    for kind in types.values():
        kwargs = {name: ARGUMENTS[name] for name in kind.kwargs if name in ARGUMENTS}
        if any(word in kind.name for word in of_texts):
            kwargs["column"] = "s"
        assert kind.refusal(kwargs) is None, kind.name
        # An error would be raised.
        list(unmet(table, [Expectation(kind, kwargs)], [0, HOUR, 2 * HOUR]))
    assert len(types) > 40


@settings(max_examples=12)
# Most rows are as expected, most of one time bucket are not.
@example(rows=[(0, 5), (1, 0), (1, 1)], most=1)
@given(
    rows=st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.none() | st.integers(0, 5)), max_size=8),
    most=st.integers(0, 5),
)
def test_the_verdict_on_a_time_bucket_does_not_depend_on_others(
    rows: Sequence[tuple[int, int | None]], most: int
) -> None:
    table = pd.DataFrame(rows, columns=["time_bucket", "n"]).astype(
        {"time_bucket": "int64", "n": "float64"}
    )
    asked = [
        expectation(BETWEEN, column="n", max_value=most),
        expectation(BETWEEN, column="n", max_value=most, mostly=0.5),
        expectation("expect_column_values_to_be_unique", column="n"),
        expectation("expect_column_sum_to_be_between", column="n", max_value=most),
        expectation(ROW_COUNT, max_value=most),
    ]

    together = set(unmet(table, asked, [0, 1, 2]))

    apart = {
        each
        for bucket in (0, 1, 2)
        for each in unmet(table[table["time_bucket"] == bucket], asked, [bucket])
    }
    assert together == apart
    assert {each.row for each in together if each.index == 0} == {
        row for row, (_, n) in enumerate(rows) if n is not None and n > most
    }
    assert {each.time_bucket for each in together if each.index == 4} == {
        bucket for bucket in (0, 1, 2) if sum(where == bucket for where, _ in rows) > most
    }


def test_an_expectation_that_names_no_row_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [expectation(BETWEEN, column="n", max_value=1)]
    table = pd.DataFrame({"time_bucket": [0], "n": [2]})
    monkeypatch.setattr(small_table, "_RESULT_FORMAT", "BASIC")

    with pytest.raises(CannotBeJudged, match="no row is named"):
        list(unmet(table, asked, [0]))


def test_the_example_of_the_guide_is_a_check(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (REPOSITORY / "docs" / "operating.md").read_text()
    [example] = [
        block
        for block in re.findall(r"```sql\n(.*?)```", guide, re.DOTALL)
        if "suite: busy_ids" in block
    ]
    [program] = re.findall(r"```python\n(import great_expectations.*?)```", guide, re.DOTALL)
    context = tmp_path / "include" / "sql" / "checks"
    shutil.copytree(REPOSITORY / "include" / "sql" / "checks", context)
    (context / "busy_ids.sql").write_text(example)
    monkeypatch.chdir(tmp_path)
    quiet_gx.silence()
    exec(program, {})

    events = [("p", n, 0, None) for n in range(1, 1003)]

    assert {row[:5] for row in found(spark, definition.load(context), events)} == {
        ("busy_ids", 0, "p", "", 0),
        ("busy_ids", HOUR, "", "", HOUR),
    }


def test_great_expectations_opens_the_context_and_changes_nothing(tmp_path: Path) -> None:
    import great_expectations as gx

    shutil.copytree(REPOSITORY / "include" / "sql" / "checks", tmp_path, dirs_exist_ok=True)
    stored = {
        "name": "s",
        "expectations": [{"type": BETWEEN, "kwargs": {"column": "tags", "max_value": 1}}],
    }
    with_suite(tmp_path, json.dumps(stored))
    files = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    suite = gx.get_context(mode="file", project_root_dir=tmp_path).suites.get("s")
    batch = quiet_gx.frames().get_batch({"dataframe": pd.DataFrame({"tags": [1, 2]})})
    judged_by_gx = batch.validate(suite)

    assert not judged_by_gx.success
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == files


def test_the_guide_says_how_many_expectations_there_are() -> None:
    guide = (REPOSITORY / "docs" / "operating.md").read_text()
    assert f"supports {len(catalogue.expectation_types())} expectations" in guide
