"""validate over a journal of akka-persistence-r2dbc, in a real PostgreSQL and Cassandra."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from tests.integration.postgres.r2dbc_journal import (
    START,
    R2dbcEvent,
    R2dbcJournal,
    event,
    marker,
)
from tests.integration.support import Journal, Result
from tidemark.journals.r2dbc import neighbours
from tidemark.settings import Settings
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET
from tidemark.validate.r2dbc.rules import BUFFER_SIZE

HOUR = 3600
START_MS = round(START.timestamp() * 1000)
FIRST_HOUR = ("2024-03-01T00:00:00Z", "2024-03-01T01:00:00Z")
SECOND_HOUR = ("2024-03-01T01:00:00Z", "2024-03-01T02:00:00Z")
IN_2100 = 2_400_000_000


@pytest.fixture
def journal(make_journal: Callable[..., Journal], tmp_path: Path) -> Journal:
    """Return the keyspaces of a journal whose events are in PostgreSQL."""
    return make_journal(DATA_DOCS_DIR=str(tmp_path / "docs"))


def validate(journal: Journal, window: tuple[str, str] = FIRST_HOUR, *options: str) -> Result:
    start, end = window
    return journal.run("validate", "--window-start", start, "--window-end", end, *options)


def findings(journal: Journal) -> set[tuple[Any, ...]]:
    """Return (check, persistence id, number, hour, state) of the findings."""
    return {
        (
            row["check_name"],
            row["persistence_id"],
            row["number"],
            None
            if row["time_bucket"] == NO_TIME_BUCKET
            else (row["time_bucket"] - START_MS) // (HOUR * 1000),
            row["state"],
        )
        for row in journal.own_rows("finding")
    }


def states(journal: Journal) -> dict[int, str]:
    """Return the state of validate's pieces by hour."""
    rows = [row for row in journal.own_rows("piece") if row["application"] == "validate"]
    return {(row["time_bucket"] - START_MS) // (HOUR * 1000): row["state"] for row in rows}


def events(pid: str, *numbers: int, seconds: float = 10) -> list[R2dbcEvent]:
    return [event(pid, number, seconds + number) for number in numbers]


@pytest.mark.parametrize("plugin", [1, 4], indirect=True)
def test_a_regular_journal_passes(plugin: R2dbcJournal, journal: Journal) -> None:
    ids = [f"Order|{nr}" for nr in range(20)]
    plugin.insert(*(row for pid in ids for row in events(pid, *range(1, 7))))
    # EventSourcedCleanup: the marker is younger than the events after it.
    plugin.delete_to(ids[0], 5, 100)
    # deleteAllEvents with and without resetSequenceNumber.
    plugin.delete_to(ids[1], 6, 100)
    plugin.delete_all(ids[2])
    # A persist of several events, and a replicated entity.
    plugin.insert(*(event("Cart|1", number, 50) for number in (1, 2, 3)))
    plugin.insert(*events("Rep|p-0|R1", 1, 2), *events("no type", 1))
    plugin.insert_snapshot(ids[3], 6, 100, b"{}")
    first = validate(journal)
    assert first.status == 0, first.stderr
    assert first.report["counts"]["messages_checked"] == 17 * 6 + 1 + 3 + 2 + 1
    plugin.insert(
        event(ids[0], 7, HOUR), event(ids[1], 7, HOUR), event(ids[2], 1, HOUR), marker("x|1", 9, 1)
    )
    assert validate(journal, SECOND_HOUR).status == 0
    assert validate(journal, FIRST_HOUR, "--scope", "all").status == 0
    assert (findings(journal), states(journal)) == (set(), {0: "done", 1: "done"})


def test_status_has_a_line_of_the_journal_and_none_of_tag_views(
    plugin: R2dbcJournal, journal: Journal
) -> None:
    plugin.insert(*events("a|1", 1))
    shown = journal.run("status").stdout
    assert f"{plugin.database.schema} in PostgreSQL, Hour buckets" in " ".join(shown.split())
    assert "checks" in shown
    assert "tag views" not in shown
    plugin.database.execute("DROP TABLE event_journal")
    assert "event_journal does not exist" in " ".join(journal.run("status").stdout.split())


def test_damage_stops_a_time_bucket_until_it_is_repaired(
    plugin: R2dbcJournal, journal: Journal
) -> None:
    plugin.insert(
        *events("gap|1", 1, 2, 5),
        *events("head|1", 3, 4),
        *events("ok|1", 1, 2),
        R2dbcEvent("slice|1", 1, 5, slice=3),
        R2dbcEvent("slice|2", 1, 5, slice=-1),
        R2dbcEvent("type|1", 1, 5, entity_type="other"),
        *events("mark|1", 1, 2),
        marker("mark|1", 3, 20),
        marker("front|1", 4, 20),
        *events("front|1", 7),
    )
    damaged = validate(journal)
    assert damaged.status == 3, damaged.stderr
    assert findings(journal) == {
        ("sequence_nr_gap", "gap|1", 5, 0, "open"),
        ("sequence_nr_missing_head", "head|1", 3, 0, "open"),
        ("wrong_slice", "slice|1", 1, 0, "open"),
        ("wrong_slice", "slice|2", 1, 0, "open"),
        ("wrong_entity_type", "type|1", 1, 0, "open"),
        ("row_before_deletion_marker", "mark|1", 2, 0, "open"),
        ("sequence_nr_gap", "front|1", 7, 0, "open"),
    }
    assert states(journal) == {0: "failed"}
    plugin.insert(*events("gap|1", 3, 4), *events("head|1", 1, 2), *events("front|1", 5, 6))
    for pid, number in (("slice|1", 1), ("slice|2", 1), ("type|1", 1), ("mark|1", 3)):
        plugin.database.execute(
            "DELETE FROM event_journal WHERE persistence_id = %s AND seq_nr = %s", pid, number
        )
    repaired = validate(journal)
    assert repaired.status == 0, repaired.stderr
    assert (findings(journal), states(journal)) == (set(), {0: "done"})


def test_a_finding_is_settled(plugin: R2dbcJournal, journal: Journal) -> None:
    plugin.insert(*events("gap|1", 1, 3), R2dbcEvent("type|1", 1, 5, entity_type="other"))
    damaged = validate(journal)
    assert damaged.status == 3
    for check in ("sequence_nr_gap", "wrong_entity_type"):
        settled = journal.run(
            "reconcile", "settle", "--check", check, "--reason", "known", "--apply"
        )
        assert settled.status == 0, settled.stderr
    assert validate(journal).status == 0
    assert findings(journal) == {
        ("sequence_nr_gap", "gap|1", 3, 0, "settled"),
        ("wrong_entity_type", "type|1", 1, 0, "settled"),
    }


def test_warnings_stop_nothing(plugin: R2dbcJournal, journal: Journal) -> None:
    plugin.insert(
        # Two clocks that disagree.
        event("clock|1", 1, 100),
        event("clock|1", 2, 98),
        # Stamped by a clock that is wrong; each later event is stamped after it.
        event("future|1", 1, 5),
        event("future|1", 2, IN_2100),
        event("future|1", 3, IN_2100 + 0.000001),
        # One persist of many events, and one of fewer than a page.
        *(event("large|1", number, 200) for number in range(1, BUFFER_SIZE + 1)),
        *(event("small|1", number, 300) for number in range(1, BUFFER_SIZE)),
    )
    plugin.insert_snapshot("clock|1", 5, 100, b"{}")
    warned = validate(journal)
    assert warned.status == 0, warned.stderr
    found = {
        ("event_out_of_order", "clock|1", 2, 0, "open"),
        ("events_in_future", "future|1", 2, None, "open"),
        ("too_many_rows_of_one_time", "large|1", BUFFER_SIZE, 0, "open"),
    }
    assert findings(journal) == found
    assert states(journal) == {0: "done"}
    # Only a full check reads all snapshots.
    assert validate(journal, SECOND_HOUR, "--scope", "all").status == 0
    snapshot = ("snapshot_beyond_events", "clock|1", 2, None, "open")
    assert findings(journal) == found | {snapshot}
    # The hand that set the time back, and the events that the snapshot was made of.
    plugin.database.execute("DELETE FROM event_journal WHERE db_timestamp > now()")
    plugin.insert(*events("clock|1", 3, 4, 5, seconds=HOUR))
    validate(journal, SECOND_HOUR)
    assert findings(journal) == (found | {snapshot}) - {
        ("events_in_future", "future|1", 2, None, "open")
    }
    validate(journal, SECOND_HOUR, "--scope", "all")
    assert snapshot not in findings(journal)


def test_a_gap_to_an_event_of_an_earlier_time(plugin: R2dbcJournal, journal: Journal) -> None:
    plugin.insert(*events("o|1", 1, 2), *events("o|2", 1))
    assert validate(journal).status == 0
    plugin.insert(event("o|1", 3, HOUR + 1), event("o|2", 3, HOUR + 1), event("o|3", 2, HOUR + 1))
    assert validate(journal, SECOND_HOUR).status == 3
    assert findings(journal) == {
        ("sequence_nr_gap", "o|2", 3, 1, "open"),
        ("sequence_nr_missing_head", "o|3", 2, 1, "open"),
    }
    # The missing event was committed after its hour had passed.
    plugin.insert(event("o|2", 2, HOUR - 5), event("o|3", 1, HOUR - 5))
    assert validate(journal, SECOND_HOUR).status == 0
    assert (findings(journal), states(journal)) == (set(), {0: "done", 1: "done"})


def test_a_late_row_opens_its_time_bucket_again(plugin: R2dbcJournal, journal: Journal) -> None:
    plugin.insert(*events("o|1", 1))
    assert validate(journal).status == 0
    plugin.insert(
        R2dbcEvent("late|1", 1, HOUR - 599, entity_type="other"),
        R2dbcEvent("late|2", 1, HOUR - 601, entity_type="other"),
    )
    assert validate(journal, SECOND_HOUR).status == 3
    assert findings(journal) == {("wrong_entity_type", "late|1", 1, 0, "open")}
    assert states(journal)[0] == "failed"


def test_a_number_that_may_be_committed_yet_holds_its_time_bucket(
    plugin: R2dbcJournal, journal: Journal
) -> None:
    """With this look-back all rows are young."""
    young = {"TIDEMARK_R2DBC_LOOK_BACK": "1000000000"}
    former = journal.environment
    journal.environment = {**former, **young}
    plugin.insert(*events("o|1", 1, 3), *events("o|2", 1))
    first = validate(journal)
    assert first.status == 0, first.stderr
    assert first.report["pieces"] == {"planned": 1, "done": 0, "held": 1, "failed": 0}
    assert "2024-03-01 00:00 held: gap: 1 place with missing events" in first.stdout
    assert "o|1: expected 2, found 3: 1 missing" in first.stdout
    assert (findings(journal), states(journal)) == (set(), {0: "held"})
    # It is not forgotten, whatever the window of the next runs.
    plugin.insert(event("o|2", 2, HOUR + 1))
    assert validate(journal, SECOND_HOUR).status == 0
    assert (findings(journal), states(journal)) == (set(), {0: "held", 1: "done"})
    plugin.insert(*events("o|1", 2))
    assert validate(journal, SECOND_HOUR).status == 0
    assert states(journal) == {0: "done", 1: "done"}
    # A time bucket that had passed waits as well; a missing number that stays away is a finding.
    plugin.insert(*events("o|3", 2))
    assert validate(journal, SECOND_HOUR).status == 0
    assert (findings(journal), states(journal)) == (set(), {0: "held", 1: "done"})
    journal.environment = former
    assert validate(journal, SECOND_HOUR).status == 3
    assert findings(journal) == {("sequence_nr_missing_head", "o|3", 2, 0, "open")}
    assert states(journal)[0] == "failed"


@pytest.mark.parametrize("plugin", [4], indirect=True)
def test_data_partitions_that_do_not_fit(plugin: R2dbcJournal, journal: Journal) -> None:
    plugin.insert(*events("o|1", 1))
    plugin.insert_snapshot("o|1", 1, 1, b"{}")
    table = plugin.table("o|1")
    other = "event_journal_0" if table != "event_journal_0" else "event_journal_1"
    plugin.database.execute(f"INSERT INTO {other} SELECT * FROM {table}")
    plugin.database.execute(f"DELETE FROM {table}")
    assert validate(journal).status == 3
    assert findings(journal) == {("wrong_slice", "o|1", 1, 0, "open")}
    plugin.database.execute(f"INSERT INTO {table} SELECT * FROM {other}")
    plugin.database.execute(f"DELETE FROM {other}")
    assert validate(journal).status == 0
    assert findings(journal) == set()
    plugin.database.execute("DROP TABLE snapshot_2")
    assert validate(journal, SECOND_HOUR).status == 0
    absent = validate(journal, SECOND_HOUR, "--scope", "all")
    assert absent.status != 0
    assert [".snapshot_2 does not exist" in line for line in absent.error_lines] == [True]


def test_deletions_while_a_time_bucket_is_checked(
    plugin: R2dbcJournal, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin.insert(*events("o|1", 1, 2, 3), *events("o|1", 4, 5, 6, seconds=HOUR))
    read = neighbours.predecessors

    def after_a_deletion(keys: DataFrame, settings: Settings) -> DataFrame:
        plugin.delete_to("o|1", 5, HOUR + 10)
        return read(keys, settings)

    monkeypatch.setattr(neighbours, "predecessors", after_a_deletion)
    checked = validate(journal, SECOND_HOUR)
    assert checked.status == 0, checked.stderr
    assert (findings(journal), states(journal)) == (set(), {1: "done"})


def test_persistence_ids_and_slices(plugin: R2dbcJournal, journal: Journal) -> None:
    plugin.insert(*events("o|1", 1, 3), *events("o|2", 2), *events("o|3", 1))
    one = journal.run("validate", "--persistence-id", "o|1", "--persistence-id", "o|3")
    assert one.status == 3, one.stderr
    assert findings(journal) == {("sequence_nr_gap", "o|1", 3, 0, "open")}
    every = journal.run("validate", "--slices", "0-1023")
    assert every.status == 3, every.stderr
    assert {name for name, *_ in findings(journal)} == {
        "sequence_nr_gap",
        "sequence_nr_missing_head",
    }
    plugin.insert(*events("o|1", 2), *events("o|2", 1))
    assert journal.run("validate", "--slices", "0-1023").status == 0
    assert (findings(journal), states(journal)) == (set(), {})
    unknown = journal.run("validate", "--persistence-id", "o|4")
    assert unknown.status != 0
    assert "no such persistence id in event_journal: o|4" in unknown.stderr


def test_users_checks(
    plugin: R2dbcJournal, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin.insert(*events("o|1", 1, 2))
    monkeypatch.setenv("TIDEMARK_CHECKS_DIR", str(tmp_path))
    header = (
        "/*---\nname: {}\nrule: Each persistence id has one event.\nsource: {}\n"
        "check: number < 2\n---*/\n"
    )
    for source, table in (("keys", "messages"), ("journal", "journal")):
        name = f"of_{source}"
        select = f"SELECT time_bucket, persistence_id, sequence_nr AS number FROM {table}"
        (tmp_path / f"{name}.sql").write_text(header.format(name, source) + select)
    result = validate(journal)
    assert result.status == 3, result.stderr
    assert {name for name, *_ in findings(journal)} == {"of_keys", "of_journal"}
