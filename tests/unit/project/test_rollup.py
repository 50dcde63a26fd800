"""Mode rollup: its definitions, what a run writes of it, and that it ends as its SELECT says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tests.repository import REPOSITORY
from tests.unit.conftest import Examples
from tidemark.errors import DefinitionError, InvalidInput, SchemaMismatch, TidemarkError
from tidemark.project.definition import catalog, names
from tidemark.project.definition.file import read
from tidemark.project.definition.model import Mode
from tidemark.project.definition.source import ReadModel
from tidemark.project.offset_store.rolled_up import RolledUp
from tidemark.project.rollups.standing import RollupState
from tidemark.project.transformation import transform
from tidemark.project.writing import rollup
from tidemark.projection.testing import failed_checks, run_projection, unreadable_events

BUCKET = """\
/*---
name: daily
version: 1
source: messages
mode: bucket
target: flights.daily
event: carrier STRING
---*/
SELECT time_bucket, carrier, count(*) AS flights FROM events GROUP BY time_bucket, carrier
"""
TOTALS = """\
/*---
name: totals
version: 1
source: {read-model: daily}
mode: rollup
target: flights.totals
---*/
SELECT carrier, sum(flights) AS flights FROM daily GROUP BY carrier
"""
PYTHON = """\
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidemark.projection import projection


@projection(
    name="totals", version=1, source={"read-model": "daily"}, mode="rollup", target="f.totals"
)
def totals(daily: DataFrame) -> DataFrame:
    return daily.groupBy("carrier").agg(F.sum("flights").alias("flights"))
"""
ROWS = [
    {"time_bucket": 0, "carrier": "UA", "flights": 2},
    {"time_bucket": 3_600_000, "carrier": "UA", "flights": 3},
    {"time_bucket": 3_600_000, "carrier": "AA", "flights": 1},
]


@pytest.mark.parametrize(
    ("old", "new", "what", "do"),
    [
        (
            "{read-model: daily}",
            "messages",
            "mode rollup reads the read model of another projection, and no events",
            "write its name, such as `source: {read-model: daily_punctuality}`",
        ),
        (
            "mode: rollup",
            "mode: bucket\nevent: a INT",
            "mode bucket reads events, and the source is a read model",
            "write `mode: rollup`",
        ),
        (
            "mode: rollup",
            "mode: rollup\nevent: a INT",
            "event does not fit the mode rollup, which reads rows of a read model",
            "leave it out",
        ),
        (
            "mode: rollup",
            "mode: rollup\nrelease: blue-green",
            "release does not fit the mode rollup, which reads rows of a read model",
            "leave it out",
        ),
        (
            "mode: rollup",
            "mode: rollup\non-error: skip",
            "on-error does not fit the mode rollup, which reads rows of a read model",
            "leave it out",
        ),
        ("SELECT", "DROP", "the SQL starts with 'DROP'", "write one SELECT over the table daily"),
    ],
)
def test_a_header_that_does_not_fit_is_refused_in_one_line(
    tmp_path: Path, old: str, new: str, what: str, do: str
) -> None:
    file = tmp_path / "totals.sql"
    file.write_text(TOTALS.replace(old, new, 1))
    with pytest.raises(DefinitionError) as refused:
        read(file)
    assert (refused.value.what, refused.value.do) == (what, do)


def test_a_projection_of_events_still_needs_the_fields_of_its_events(tmp_path: Path) -> None:
    file = tmp_path / "daily.sql"
    file.write_text(BUCKET.replace("event: carrier STRING\n", ""))
    with pytest.raises(DefinitionError, match="event is missing"):
        read(file)


def test_a_rollup_is_kept_apart_from_the_projections_of_events(tmp_path: Path) -> None:
    (tmp_path / "daily.sql").write_text(BUCKET)
    (tmp_path / "totals.sql").write_text(TOTALS)
    everything = catalog.read_all(tmp_path)
    assert everything.errors == []
    assert [definition.name for definition in everything.definitions] == ["daily"]
    [of_totals] = everything.rollups
    assert (of_totals.definition.name, of_totals.source.name) == ("totals", "daily")
    assert of_totals.definition.mode is Mode.ROLLUP
    assert of_totals.definition.source == ReadModel("daily")
    assert [definition.name for definition in catalog.load(tmp_path)] == ["daily"]
    alone = catalog.select(tmp_path, ["daily"])
    assert (len(alone.definitions), len(alone.rollups)) == (1, 0)
    followed = catalog.select(tmp_path, ["daily"], with_rollups=True)
    assert (len(followed.definitions), len(followed.rollups)) == (1, 1)
    named = catalog.select(tmp_path, ["totals"])
    assert (len(named.definitions), len(named.rollups)) == (0, 1)
    with pytest.raises(InvalidInput, match="there are: daily, totals"):
        catalog.select(tmp_path, ["other"])


def test_a_run_for_each_projection_leaves_rollups_to_the_runs_of_their_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEMARK_PROJECTIONS_DIR", str(tmp_path))
    (tmp_path / "daily.sql").write_text(BUCKET)
    (tmp_path / "totals.sql").write_text(TOTALS)
    assert names.main() == 0
    assert capsys.readouterr().out == '["daily"]\n'


@pytest.mark.parametrize(
    ("source", "totals", "what"),
    [
        (BUCKET, TOTALS.replace(": daily}", ": days}"), "there is no projection days"),
        (BUCKET, TOTALS.replace(": daily}", ": totals}"), "the projection totals has mode rollup"),
        (
            BUCKET.replace("mode: bucket", "mode: append"),
            TOTALS,
            "the projection daily has mode append",
        ),
        (
            BUCKET.replace("mode: bucket", "mode: export"),
            TOTALS,
            "the projection daily has mode export",
        ),
        (BUCKET.replace("mode:", "m:"), TOTALS, "the projection daily cannot be used"),
        (
            BUCKET,
            TOTALS.replace("flights.totals", "flights.daily"),
            "the table flights.daily is that of the projection daily",
        ),
    ],
)
def test_a_source_that_cannot_be_read_is_an_error_of_the_rollup_alone(
    tmp_path: Path, source: str, totals: str, what: str
) -> None:
    (tmp_path / "daily.sql").write_text(source)
    (tmp_path / "other.sql").write_text(BUCKET.replace("daily", "other"))
    (tmp_path / "totals.sql").write_text(totals)
    everything = catalog.read_all(tmp_path)
    assert "other" in [definition.name for definition in everything.definitions]
    [error] = [broken.error for broken in everything.unusable if broken.name == "totals"]
    assert error.what == what
    assert catalog.select(tmp_path, ["other"]).errors == []


@pytest.mark.parametrize("mode", ["bucket", "upsert"])
def test_totals_over_a_key_of_their_own_are_refused_with_mode_rollup_as_the_way(
    spark: SparkSession, mode: str
) -> None:
    text = BUCKET.replace("mode: bucket", f"mode: {mode}").replace(
        "GROUP BY time_bucket, carrier", "GROUP BY carrier"
    )
    text = text.replace("SELECT time_bucket,", "SELECT max(time_bucket) AS time_bucket,")
    if mode == "upsert":
        own = "max(persistence_id) AS persistence_id, max(sequence_nr) AS sequence_nr,"
        text = text.replace("SELECT max(time_bucket) AS time_bucket,", f"SELECT {own}")
    event = {"persistence_id": "a", "sequence_nr": 1, "timestamp": "2026-01-01T00:00:00Z"}
    with pytest.raises(SchemaMismatch, match="let mode rollup read a projection of mode bucket"):
        run_projection(text, [{**event, "carrier": "UA"}], spark=spark)


@pytest.mark.parametrize("definition", [TOTALS, PYTHON], ids=["sql", "python"])
def test_a_unit_test_gives_the_rows_of_the_read_model(spark: SparkSession, definition: str) -> None:
    rows = run_projection(definition, ROWS, spark=spark)
    assert sorted(rows, key=str) == [
        {"carrier": "AA", "flights": 1},
        {"carrier": "UA", "flights": 5},
    ]


def test_the_example_of_the_docs_gives_totals_of_the_flights(
    spark: SparkSession,
) -> None:
    text = (REPOSITORY / "docs" / "projection-modes.md").read_text()
    example = text[text.index("/*---\nname: carrier_totals") :].partition("```")[0]
    row = {"origin": "JFK", "cancelled": 0, "arrived": 1, "dep_delay_avg": 1.0, "arr_delay_sum": 0}
    rows = [
        {**row, "time_bucket": 0, "carrier": "UA", "departed": 3, "delayed": 1, "dep_delay_sum": 9},
        {**row, "time_bucket": 1, "carrier": "UA", "departed": 1, "delayed": 1, "dep_delay_sum": 1},
        {**row, "time_bucket": 1, "carrier": "AA", "departed": 0, "delayed": 0, "dep_delay_sum": 0},
    ]
    united = {"departed": 4, "delayed": 2, "dep_delay_sum": 10, "dep_delay_avg": 2.5}
    american = {"departed": 0, "delayed": 0, "dep_delay_sum": 0, "dep_delay_avg": None}
    assert sorted(run_projection(example, rows, spark=spark), key=str) == [
        {"carrier": "AA", **american},
        {"carrier": "UA", **united},
    ]


def test_a_unit_test_refuses_what_a_run_would(spark: SparkSession) -> None:
    checked = TOTALS.replace("---*/", "checks: [{warn: flights < 4}]\n---*/")
    assert failed_checks(checked, ROWS, spark=spark) == {"flights < 4": 1}
    with pytest.raises(DefinitionError, match="the columns of daily are carrier, flights, time_b"):
        run_projection(TOTALS.replace("sum(flights)", "sum(n)"), ROWS, spark=spark)
    with pytest.raises(DefinitionError, match="events"):
        run_projection(TOTALS.replace("FROM daily", "FROM events"), ROWS, spark=spark)
    with pytest.raises(TidemarkError, match="carrier is null in a row of the result"):
        run_projection(TOTALS, [*ROWS, {**ROWS[0], "carrier": None}], spark=spark)
    doubled = TOTALS.replace("---*/", "key: [carrier]\n---*/")
    doubled = doubled.replace("GROUP BY carrier", "GROUP BY carrier, time_bucket")
    with pytest.raises(TidemarkError, match="2 rows of the result have one key: carrier=UA"):
        run_projection(doubled, ROWS, spark=spark)
    with pytest.raises(InvalidInput, match="daily has no row"):
        run_projection(TOTALS, [], spark=spark)
    with pytest.raises(InvalidInput, match="reads rows of a read model, and no events"):
        unreadable_events(TOTALS, ROWS, spark=spark)


_SCHEMA = (
    "example INT, k STRING, n BIGINT, x DOUBLE, d DECIMAL(20,2), m MAP<STRING,INT>, l ARRAY<INT>"
)
_STORED = _SCHEMA.replace("DECIMAL(20,2)", "DECIMAL(38,18)").replace(
    "example INT", "example BIGINT"
)
_VALUES = st.fixed_dictionaries(
    {
        "n": st.sampled_from([None, 0, 1]),
        "x": st.sampled_from([None, 0.5, float("nan")]),
        "d": st.sampled_from([None, Decimal("1.50"), Decimal("999999999999999999.99")]),
        "m": st.sampled_from([None, {"a": 1, "b": 2}, {"a": 2}]),
        "l": st.sampled_from([None, [1], [1, 2]]),
    }
)
_TABLE = st.dictionaries(st.sampled_from("abc"), _VALUES, max_size=3)
Table = Mapping[str, Mapping[str, Any]]


def test_what_is_written_and_deleted_makes_the_table_the_result(
    spark: SparkSession, examples: Examples
) -> None:
    pairs = examples(st.tuples(_TABLE, _TABLE))

    def frame(side: int, schema: str) -> DataFrame:
        rows = [
            {"example": number, "k": key, **values}
            for number, pair in enumerate(pairs)
            for key, values in pair[side].items()
        ]
        return spark.createDataFrame(rows, schema)  # type: ignore[type-var]

    result, stored = frame(0, _SCHEMA), frame(1, _STORED)
    changes: dict[int, dict[str, dict[str, Any]]] = {}
    for row in rollup.changes(result, stored, ["example", "k"]).collect():
        values = row.asDict(recursive=True)
        changes.setdefault(values.pop("example"), {})[values.pop("k")] = values
    for number, (wanted, before) in enumerate(pairs):
        after, changed = dict(before), changes.get(number, {})
        for key, values in changed.items():
            if values.pop(transform.IS_DELETED):
                assert set(values.values()) == {None}
                del after[key]
            else:
                assert _text(values) != _text(before.get(key)) or not _has_value(before[key])
                after[key] = values
        assert _text(after) == _text(wanted)


@pytest.mark.parametrize(
    ("kind", "value", "as_read"),
    [
        ("DECIMAL(38,2)", Decimal(10**25), None),
        ("DECIMAL(38,20)", Decimal("0.00000000000000000012"), Decimal("0.000000000000000000")),
    ],
    ids=["too large", "too many digits"],
)
def test_a_decimal_that_spark_does_not_read_as_it_is_stored_is_written_again(
    spark: SparkSession, kind: str, value: Decimal, as_read: Decimal | None
) -> None:
    result = spark.createDataFrame([("a", value)], f"k STRING, d {kind}")
    stored = spark.createDataFrame([("a", as_read)], "k STRING, d DECIMAL(38,18)")
    [row] = rollup.changes(result, stored, ["k"]).collect()
    assert (row["d"], row[transform.IS_DELETED]) == (value, False)


def _has_value(row: Mapping[str, Any]) -> bool:
    return any(value is not None for value in row.values())


def _text(value: Any) -> str:
    """Return the text of a value, in which two NaNs are the same."""
    if isinstance(value, dict):
        return str(sorted((key, _text(item)) for key, item in value.items()))
    return str(value)


class _Model:
    """A source that replaces time buckets, and a rollup over it, one write after the other."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, str, int], int] = {}
        """The flights by time bucket, carrier and the write time of the row."""
        self.write_time = 0
        self.table: Counter[str] = Counter()
        self.made: RolledUp | None = None
        self.writes = 0

    @property
    def standing(self) -> RollupState:
        return RollupState(self.made, RolledUp("flights.daily", self.write_time, "1-a"))

    def select(self) -> Counter[str]:
        totals: Counter[str] = Counter()
        for (_, carrier, _), flights in self.rows.items():
            totals[carrier] += flights
        return totals

    def replace(self, bucket: int, flights: Mapping[str, int]) -> Iterator[None]:
        """Replace the rows of a time bucket as `writing.bucket` and the pipeline do."""
        self.write_time += 1
        yield
        for carrier, number in flights.items():
            self.rows[bucket, carrier, self.write_time] = number
            yield
        for key in [key for key in self.rows if key[0] == bucket and key[2] < self.write_time]:
            del self.rows[key]
        yield
        self.write_time += 1

    def make(self) -> Iterator[None]:
        """Make the rollup in the order of `rollups.make`."""
        standing = self.standing
        if not standing.reason:
            return
        yield
        result = self.select()
        yield
        differing = {key: n for key, n in result.items() if self.table.get(key) != n}
        for key, number in differing.items():
            self.table[key] = number
            self.writes += 1
            yield
        for key in set(self.table) - set(result):
            del self.table[key]
            self.writes += 1
            yield
        self.made = standing.present


_FLIGHTS = st.dictionaries(st.sampled_from(["AA", "UA", "WN"]), st.integers(1, 3), max_size=3)
_STEP = st.one_of(
    st.tuples(st.just("replace"), st.integers(0, 2), _FLIGHTS),
    st.tuples(st.just("run_source"), st.integers(1, 4)),
    st.tuples(st.just("run_rollup"), st.integers(1, 6)),
    st.just(("kill_source",)),
    st.just(("kill_rollup",)),
)


class _Runs:
    """The runs of a source and of its rollup, each as far as it came; those that die go on anew."""

    def __init__(self) -> None:
        self.model = _Model()
        self.pending: tuple[int, Mapping[str, int]] | None = None
        self.source: Iterator[None] | None = None
        self.making: Iterator[None] = iter(())

    def replace(self, bucket: int, flights: Mapping[str, int]) -> None:
        self.pending = self.pending or (bucket, flights)

    def run_source(self, writes: int) -> None:
        if self.pending is None:
            return
        self.source = self.source or self.model.replace(*self.pending)
        if len(list(islice(self.source, writes))) < writes:
            self.source = self.pending = None

    def run_rollup(self, writes: int) -> None:
        if len(list(islice(self.making, writes))) < writes:
            self.making = self.model.make()

    def kill_source(self) -> None:
        self.source = None

    def kill_rollup(self) -> None:
        self.making = iter(())


@given(st.lists(_STEP, max_size=40))
def test_however_runs_interleave_and_die_the_rollup_ends_as_its_select_says(
    steps: list[tuple[Any, ...]],
) -> None:
    runs = _Runs()
    for name, *arguments in steps:
        getattr(runs, name)(*arguments)
    model = runs.model
    runs.run_source(100)
    runs.run_rollup(100)
    list(model.make())
    assert model.table == model.select()
    writes, made = model.writes, model.made
    list(model.make())
    assert (model.writes, model.made) == (writes, made)


def test_a_run_says_why_it_makes_a_rollup() -> None:
    now = RolledUp("flights.daily", 5, "1-a")
    assert RollupState(None, None).reason == ""
    assert RollupState(None, now).reason == "new"
    assert RollupState(now, now).reason == ""
    assert RollupState(RolledUp("flights.daily", 4, "1-a"), now).reason == "its source has changed"
    assert RollupState(RolledUp("flights.daily", 5, "1-b"), now).reason == "changed definition"
    before = RolledUp("flights.daily_v1", 5, "1-a")
    assert RollupState(before, now).reason == "another version of its source is live"
