"""Mode fold: the user's function alone and in Spark, and the events that it fails for."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tests.repository import REPOSITORY
from tests.unit.project.decoder_payloads import event_rows
from tidemark.errors import TidemarkError
from tidemark.partitioning import keys
from tidemark.project.analysis import analyze
from tidemark.project.definition.file import read
from tidemark.project.definition.on_error import OnError
from tidemark.project.definition.user_modules import sources_in
from tidemark.project.transformation import fold_frame, transform
from tidemark.project.transformation.fold_start import GENERATION_COLUMN, HAS_MARKER, FoldStart
from tidemark.project.transformation.fold_worker import FAILURES, Fold
from tidemark.projection.testing import run_projection, unreadable_events

MODULE = """\
from decimal import Decimal

CALLS = []


def fold(state, events):
    CALLS.append(len(events))
    found = dict(state or {"total": 0, "seen": []})
    for amount, kind in zip(events["amount"], events["kind"]):
        if kind == "poison":
            raise ValueError("poison")
        if kind == "odd":
            return 3
        if kind == "more":
            return {"other": 1}
        if kind == "wide":
            return {"total": 2**40}
        if kind == "late":
            CALLS.append("late")
            if CALLS.count("late") % 3:
                raise OSError("not yet")
        found = found or {"total": 0, "seen": []}
        found["total"] += int(amount)
        found["seen"].append(int(amount))
        # At each event, so that it does not matter how many are given at once.
        found = None if found["total"] == 13 else found
    return found
"""
STATE = T.StructType(
    [T.StructField("total", T.IntegerType()), T.StructField("seen", T.ArrayType(T.IntegerType()))]
)
DEFINITION = """\
from tidemark.projection import projection


@projection(
    name="books", version=1, source="messages", mode="fold", target="flights.books",
    event="kind STRING, amount DECIMAL(9,2)",
    state="balance DECIMAL(9,2), moves INT, share DOUBLE, last TIMESTAMP, kinds ARRAY<STRING>",
)
def fold(state, events):
    book = dict(state or {"balance": 0, "moves": 0, "kinds": []})
    for event in events.itertuples():
        book["balance"] += event.amount
        book["moves"] += 1
        book["kinds"] = sorted({*book["kinds"], event.kind})
        book["last"] = event.timestamp
    return book
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folds")
    (folder / "folds_of_a_test.py").write_text(MODULE)
    return folder


def fold(directory: Path, policy: OnError = OnError()) -> Fold:  # noqa: B008 - it is frozen
    return Fold(sources_in(directory), "folds_of_a_test", "fold", STATE, policy)


def events(*rows: tuple[int, str, int]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["sequence_nr", "kind", "amount"])


def stored(*rows: tuple[Any, ...]) -> pd.DataFrame:
    return pd.DataFrame(
        list(rows), columns=["persistence_id", "sequence_nr", "total", "seen"], dtype="object"
    )


def outcome(frame: pd.DataFrame) -> tuple[Any, ...]:
    """Return (sequence nr, total, seen, failures) of the only row."""
    assert len(frame) == 1
    row = frame.iloc[0]
    return row["sequence_nr"], row["total"], row["seen"], row[FAILURES]


def test_events_are_folded_in_their_order_upon_the_stored_state(directory: Path) -> None:
    given_events = events((6, "a", 3), (5, "a", 2))
    folded = fold(directory)("p", given_events, stored(("p", 4, 1, [1])))
    assert outcome(folded) == (6, 6, [1, 2, 3], None)
    assert outcome(fold(directory)("p", given_events, stored())) == (6, 5, [2, 3], None)


def test_no_events_give_no_row(directory: Path) -> None:
    assert fold(directory)("p", events(), stored(("p", 4, 1, [1]))).empty


def test_none_and_a_state_of_nulls_are_no_state(directory: Path) -> None:
    none = fold(directory)("p", events((5, "a", 13)), stored())
    assert outcome(none) == (5, None, None, None)
    after = fold(directory)("p", events((6, "a", 2)), stored(("p", 5, None, None)))
    assert outcome(after) == (6, 2, [2], None)


def test_skip_leaves_out_the_events_that_fail_and_folds_what_follows(directory: Path) -> None:
    rows = events((1, "a", 1), (2, "poison", 2), (3, "odd", 3), (4, "a", 4), (5, "more", 5),
                   (6, "wide", 6))  # fmt: skip
    number, total, seen, failures = outcome(fold(directory)("p", rows, stored()))
    assert (number, total, seen) == (6, 5, [1, 4])
    assert pd.read_json(pd.io.common.StringIO(failures)).to_dict("list") == {  # type: ignore[attr-defined]
        "sequence_nr": [2, 3, 5, 6],
        "cause": [
            "ValueError: poison (folds_of_a_test.py:11)",
            "fold returned int, not a dict or None",
            "fold returned other, which state does not have",
            "fold returned total: not int: Value 1099511627776 too large to fit in C integer type",
        ],
    }


def test_fail_ends_with_the_first_event_that_fails(directory: Path) -> None:
    rows = events((1, "a", 1), (2, "poison", 2), (3, "poison", 3))
    _, _, _, failures = outcome(fold(directory, OnError(fails=True))("p", rows, stored()))
    assert '"sequence_nr": 2' in failures
    assert '"sequence_nr": 3' not in failures


def test_a_state_has_the_sequence_nr_of_the_last_event_even_if_it_is_skipped(
    directory: Path,
) -> None:
    folded = fold(directory)("p", events((5, "poison", 1)), stored(("p", 4, 1, [1])))
    assert outcome(folded)[:3] == (5, 1, [1])
    none = fold(directory)("p", events((1, "poison", 1)), stored())
    assert outcome(none)[:3] == (1, None, None)


# R2dbcTimestampOffsetProjectionSpec: retryAndSkip(3) makes four attempts.
@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (3, 4)])
def test_retry_and_skip_makes_one_attempt_more_than_it_has_retries(
    directory: Path, retries: int, attempts: int
) -> None:
    function = fold(directory, OnError(retries=retries))
    calls = function.sources.load("folds_of_a_test").CALLS
    calls.clear()
    function("p", events((1, "poison", 1)), stored())
    assert calls == [1] * attempts


def test_retry_folds_what_succeeds_in_the_end(directory: Path) -> None:
    function = fold(directory, OnError(retries=2))
    function.sources.load("folds_of_a_test").CALLS.clear()
    assert outcome(function("p", events((1, "late", 7)), stored())) == (1, 7, [7], None)


@example(kinds=["poison", "poison", "a", "a", "poison", "a", "a"], cut=5)
@given(
    kinds=st.lists(st.sampled_from(["a", "poison", "odd"]), min_size=1, max_size=8),
    cut=st.integers(0, 8),
)
def test_two_runs_give_what_one_gives(directory: Path, kinds: list[str], cut: int) -> None:
    """The result does not depend on the failures, nor on the cut between the runs."""
    rows = [(number, kind, number) for number, kind in enumerate(kinds, start=1)]
    function = fold(directory)
    at_once = outcome(function("p", events(*rows), stored()))[:3]
    first = function("p", events(*rows[:cut]), stored())
    state = () if first.empty or first.iloc[0]["sequence_nr"] is None else (first.iloc[0],)
    before = stored(*(("p", row["sequence_nr"], row["total"], row["seen"]) for row in state))
    second = function("p", events(*rows[cut:]), before)
    parts = [outcome(frame)[:3] for frame in (first, second) if len(frame)]
    folded = [part for part in parts if part[0] is not None]
    assert (folded[-1] if folded else (None, None, None)) == at_once


def event(number: int, pid: str = "a|1", **fields: Any) -> dict[str, Any]:
    at = f"2024-03-01T12:00:{number:02}Z"
    return {"persistence_id": pid, "sequence_nr": number, "timestamp": at, **fields}


def test_a_fold_in_spark_has_the_types_of_its_state(spark: SparkSession) -> None:
    rows = run_projection(
        DEFINITION,
        [
            event(2, kind="in", amount=2.5),
            event(1, kind="out", amount=1),
            event(1, "a|2", kind="in", amount=7),
        ],
    )
    at = datetime(2024, 3, 1, 12, 0, 2, tzinfo=UTC)
    assert sorted(rows, key=lambda row: row["persistence_id"])[0] == {
        "persistence_id": "a|1",
        "sequence_nr": 2,
        "balance": Decimal("3.50"),
        "moves": 2,
        "share": None,
        "last": at,
        "kinds": ["in", "out"],
    }
    assert len(rows) == 2


def test_a_fold_that_ends_with_none_has_no_row(spark: SparkSession) -> None:
    closing = DEFINITION.replace(
        '        book["last"]',
        '        if event.kind == "closed":\n            return None\n        book["last"]',
    )
    closed = [event(1, kind="in", amount=1), event(2, kind="closed", amount=1)]
    rows = run_projection(closing, [*closed, event(1, "a|2", kind="in", amount=7)])
    assert [row["persistence_id"] for row in rows] == ["a|2"]


def test_what_is_stored_has_the_last_event_also_if_none_can_be_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of an old row without a readable event nulls are stored; nothing of an id without a state."""
    (tmp_path / "definition.py").write_text(DEFINITION)
    checked = analyze.analyze(spark, read(tmp_path / "definition.py"))
    ids = {"a|1": b'{"kind": "in", "amount": 1}', "a|2": b"{", "a|3": b"{", "a|4": b"{"}
    ticks = keys.UUID_EPOCH_TICKS
    at = keys.ticks_timeuuid(ticks, clock_sequence=0, node=0)
    rows: list[tuple[Any, ...]] = [
        (pid, number, at, ticks, 0, [], 0, "", payload)
        for pid, first in ids.items()
        for number, payload in ((1, first), (2, b"{"))
    ]
    events = transform.distinct_events(event_rows(spark, rows))
    decoded = transform.decode(events, checked.event)
    none = fold_frame.no_states(decoded, checked)
    outdated = none.unionByName(
        spark.createDataFrame([("a|1",), ("a|2",)], "persistence_id string"),
        allowMissingColumns=True,
    )
    generations = spark.createDataFrame(
        [("a|2", 7, True)],
        f"persistence_id string, {GENERATION_COLUMN} bigint, {HAS_MARKER} boolean",
    )
    states = none.unionByName(
        spark.createDataFrame(
            [("a|3", 1, 5)], "persistence_id string, sequence_nr long, moves int"
        ),
        allowMissingColumns=True,
    )
    start = FoldStart(states, generations, none, outdated)
    folded = fold_frame.folded(transform.readable(decoded), states, checked)
    stored_rows = fold_frame.to_store(folded, decoded, start).orderBy("persistence_id").collect()
    assert [
        (row.persistence_id, row.sequence_nr, row.moves, row[GENERATION_COLUMN])
        for row in stored_rows
    ] == [("a|1", 2, 1, None), ("a|2", 2, None, 7), ("a|3", 2, 5, None)]


def test_the_documented_example_passes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (REPOSITORY / "docs" / "projections.md").read_text()
    match = re.search(r"test_fold.py -->\n```python\n(.*?)```", text, re.DOTALL)
    assert match is not None
    names: dict[str, Any] = {}
    exec(compile(match.group(1), "docs/projections.md", "exec"), names)
    monkeypatch.chdir(REPOSITORY)
    names["test_time_on_the_ground_is_between_arrival_and_departure"]()


def test_the_documented_definitions_run(spark: SparkSession) -> None:
    guides = ("projections.md", "projection-modes.md")
    text = "".join((REPOSITORY / "docs" / guide).read_text() for guide in guides)
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    delays, balances = (block for block in blocks if "@projection(" in block)
    late = [event(1, carrier="UA", dep_delay=16), event(2, carrier="UA", dep_delay=15)]
    assert [row["late"] for row in run_projection(delays, late)] == [1]
    moves = [event(1, kind="in", amount=5), event(2, kind="out", amount=1.5)]
    (row,) = run_projection(balances, moves)
    assert (row["balance"], row["moves"]) == (Decimal("3.50"), 2)


def test_a_fold_that_depends_on_how_events_come_is_refused(spark: SparkSession) -> None:
    calls = DEFINITION.replace('["moves"] += 1', '["moves"] = len(events)')
    with pytest.raises(TidemarkError) as refused:
        run_projection(calls, [event(1, kind="in", amount=1), event(2, kind="in", amount=1)])
    assert "moves 2, share None" in str(refused.value)
    assert "from all events at once, and sequence_nr 2, balance 2.00, moves 1," in str(
        refused.value
    )


def test_events_that_cannot_be_folded_are_named(spark: SparkSession) -> None:
    poison = [event(1, kind="in"), event(2, kind="in", amount=1)]
    expected = {
        ("a|1", 1): "TypeError: unsupported operand type(s) for +=: 'int' and 'NoneType'"
        " (definition.py:12)"
    }
    assert unreadable_events(DEFINITION, poison) == expected
    with pytest.raises(TidemarkError, match=r"1 event cannot be processed, the first is a\|1 1"):
        run_projection(DEFINITION, poison)


SEEN = """\
from tidemark.projection import projection


@projection(
    name="seen", version=1, source="messages", mode="fold", target="t.seen", event="amount INT",
    state="last TIMESTAMP, all ARRAY<TIMESTAMP>",
)
def fold(state, events):
    seen = dict(state or {"all": []})
    for moment in events["timestamp"]:
        seen["last"] = moment.to_pydatetime()
        seen["all"] = [*seen["all"], seen["last"]]
    return seen
"""


def test_times_of_a_state_are_those_that_a_table_holds(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "seen.py"
    file.write_text(SEEN)
    at = "2013-01-01T00:00:00.123456+00:00"
    events = [{"persistence_id": "p", "sequence_nr": 1, "timestamp": at, "amount": 1}]
    [row] = run_projection(file, events, spark=spark)
    held = datetime(2013, 1, 1, microsecond=123_000, tzinfo=UTC)
    assert (row["last"], row["all"]) == (held, [held])
