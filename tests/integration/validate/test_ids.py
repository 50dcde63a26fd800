"""validate over persistence ids or slices: by key, with findings of their own, no bucket passed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from tests.integration.support import Journal, Result
from tests.integration.validate.test_validate import (
    MESSAGES,
    PROGRESS,
    TAG_VIEWS,
    bucket,
    days,
    delete,
    fill,
    findings,
    lose_tag_row,
    states,
    timestamp,
    validate,
)
from tidemark.cassandra import connector
from tidemark.cassandra.schema import SCHEMA_DIR, create_tables
from tidemark.partitioning.keys import slice_of
from tidemark.validate.reading import examine

pytestmark = pytest.mark.usefixtures("production")

__all__ = ["days"]

LOST_ROW_OF_ONE = {("untagged_event", "one", "t", 3, None, bucket(1))}
GAP_OF_TWO = {("sequence_nr_gap", "two", "", 4, 3, bucket(1))}


def of_ids(journal: Journal, *ids: str) -> Result:
    return journal.run("validate", *(word for name in ids for word in ("--persistence-id", name)))


def slices_of(persistence_id: str) -> str:
    first = slice_of(persistence_id) // 32 * 32
    return f"{first}-{first + 31}"


def test_only_their_events_and_rows_are_judged_and_their_findings_replaced(days: Journal) -> None:
    assert validate(days).status == 0
    lose_tag_row(days, "one", 3)
    delete(days, MESSAGES, persistence_id="two", partition_nr=0, sequence_nr=3)

    of_one = of_ids(days, "one")

    assert of_one.status == 3, of_one.stderr
    assert findings(days) == LOST_ROW_OF_ONE
    assert of_one.report["counts"] == {
        "messages_checked": 6,
        "tag_rows_checked": 5,
        "findings": 1,
        "untagged_event": 1,
    }
    [line] = of_one.error_lines
    assert "`spark_apps/reconcile.py repair --persistence-id one --apply`" in line
    assert "data_docs" not in of_one.report["details"]
    assert "looks at persistence id one, in every time bucket; none is marked as passed" in (
        of_one.stdout
    )
    assert states(days) == {0: "done", 1: "done", 2: "done"}

    # What another scope finds is added; what is mended goes, of its own scope only.
    assert of_ids(days, "two").status == 3
    assert findings(days) == LOST_ROW_OF_ONE | GAP_OF_TWO
    fill(days, "one")
    mended = of_ids(days, "one")
    assert (mended.status, mended.report["counts"]["findings"]) == (0, 0)
    assert findings(days) == GAP_OF_TWO
    fill(days, "two")
    assert days.run("validate", "--slices", slices_of("two")).status == 0
    assert findings(days) == set()


@pytest.mark.long
def test_slices_judge_what_their_ids_judge(days: Journal) -> None:
    lose_tag_row(days, "one", 3)
    assert slices_of("one") != slices_of("two")

    other = days.run("validate", "--slices", slices_of("two"))
    assert (other.status, other.report["counts"]["messages_checked"]) == (0, 6)
    own = days.run("validate", "--slices", slices_of("one"))

    assert own.status == 3, own.stderr
    assert findings(days) == LOST_ROW_OF_ONE
    assert states(days) == {}


def test_named_ids_are_read_by_key(days: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    read, scanned = connector.read, set[str]()

    def reads(spark: object, keyspace: str, name: str, *columns: str, **options: object) -> object:
        if options.get("keys") is None:
            scanned.add(name)
        return read(spark, keyspace, name, *columns, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(connector, "read", reads)

    assert of_ids(days, "one", "two").status == 0
    assert scanned <= {"finding"}


@pytest.mark.long
def test_rows_are_looked_for_wherever_lost_first_events_may_have_had_them(days: Journal) -> None:
    for number in (1, 2, 3):
        delete(days, MESSAGES, persistence_id="one", partition_nr=0, sequence_nr=number)

    assert of_ids(days, "one").status == 3
    # The rows of the first day are there: nothing is wrong with them.
    assert findings(days) == {("sequence_nr_missing_head", "one", "", 4, 1, bucket(1))}

    # A row in another time bucket than its event is found there.
    fill(days, "one")
    [row] = [
        r for r in days.rows(TAG_VIEWS) if (r["persistence_id"], r["sequence_nr"]) == ("one", 3)
    ]
    lose_tag_row(days, "one", 3)
    days.insert(TAG_VIEWS, [{**row, "timebucket": bucket(2)}])
    assert of_ids(days, "one").status == 3
    assert findings(days) == {("wrong_time_bucket", "one", "t", 3, None, bucket(1))}


@pytest.mark.long
def test_a_snapshot_taken_meanwhile_is_not_accused(
    days: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapshots are read before messages: what they are of is in messages then."""
    create_tables(days.control, SCHEMA_DIR / "pekko_snapshot.cql", days.keyspace)
    days.environment = {**days.environment, "TIDEMARK_SNAPSHOT_KEYSPACE": days.keyspace}
    taken = {"persistence_id": "one", "sequence_nr": 7, "timestamp": 1, "snapshot_data": b"s"}
    judged_in = examine._time_buckets

    def goes_on(*frames: Any) -> list[int]:
        days.insert("snapshots", [{**taken, "ser_id": 1, "ser_manifest": ""}])
        return judged_in(*frames)

    monkeypatch.setattr(examine, "_time_buckets", goes_on)
    looked = of_ids(days, "one")

    assert looked.status == 0, looked.stderr
    assert "snapshot_beyond_events" not in looked.stdout


def test_progress_without_an_offset_does_not_break_the_look(days: Journal) -> None:
    progress = {"persistence_id": "one", "tag": "u", "sequence_nr": 1, "tag_pid_sequence_nr": 1}
    days.insert(PROGRESS, [progress])

    looked = of_ids(days, "one")

    assert looked.status == 0, looked.stderr
    assert looked.report["counts"]["messages_checked"] == 6


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--persistence-id", "three"], "no such persistence id in messages: three"),
        (["--persistence-id", "one", "--slices", "0-127"], "persistence ids and slices together"),
        (["--slices", "0-126"], "is not a range of whole blocks of 32 slices"),
    ],
)
def test_a_scope_that_is_none_is_refused_in_one_line(
    days: Journal, options: Collection[str], expected: str
) -> None:
    result = days.run("validate", *options)
    assert result.status == 2
    [line] = result.error_lines
    assert expected in line


@pytest.mark.long
def test_what_tag_write_owes_is_left_alone(days: Journal) -> None:
    first, second = (f"2024-03-0{day}" for day in (1, 2))
    assert days.run("tag_write", "--window-start", first, "--window-end", second).status == 0
    lose_tag_row(days, "one", 3)

    assert of_ids(days, "one").status == 0
    assert timestamp(1, 3) in {row["timestamp"] for row in days.rows(MESSAGES)}
