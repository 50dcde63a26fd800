"""Mode fold in a real Cassandra, exact with late, repeated, changed and poisoned events.

The state holds every folded sequence nr, in folding order, so that no error goes unnoticed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.faults.killing import kill_after
from tests.faults.seams import Seam
from tests.integration.project.fold_books import FOLD, POISON_AT, TABLE, books, define, fold
from tests.integration.project.projections import (
    HOUR_MS,
    LATEST,
    LATEST_TABLE,
    START_MS,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    event,
)
from tests.integration.support import Result, wait_until

SUMS = """\
from pyspark.sql import functions as F

from tidemark.projection import projection


@F.udf("int")
def inverse(amount):
    return 100 // amount


@projection(name="sums", version=1, source="messages", mode="bucket", target="KEYSPACE.sums",
            event="amount INT")
def sums(events):
    return events.groupBy("time_bucket").agg(F.sum(inverse("amount")).alias("total"))
"""
SUMS_TABLE = "CREATE TABLE {keyspace}.sums (time_bucket bigint PRIMARY KEY, total bigint)"


SKIP = "on-error: skip\nevent:"
CLOSING = FOLD.replace(
    """\
    return book
""",
    """\
        if event.kind == "closed":
            book = {"balance": 0, "folded": []}
    return book if book["folded"] else None
""",
).replace('mode="fold"', 'mode="fold", on_error="skip"')


def move(pid: str, number: int, hours: float, amount: int = 1, kind: str = "in") -> Any:
    return event(pid, number, hours, "red", kind=kind, amount=amount)


def letters(projections: Projections, name: str = "books") -> dict[tuple[str, int], str]:
    return {
        (row["persistence_id"], row["sequence_nr"]): row["cause"]
        for row in projections.journal.own_rows("quarantine")
        if row["application"] == f"project/{name}"
    }


def markers(projections: Projections) -> dict[str, tuple[int, int, int]]:
    """Return (sequence nr, definition version, generation) by persistence id."""
    return {
        row["persistence_id"]: (
            row["sequence_nr"],
            row["definition_version"],
            row["generation"],
        )
        for row in projections.journal.own_rows("projection_removed_state")
    }


def ran(result: Result) -> dict[str, int]:
    assert result.status == 0, result.stderr
    counts: dict[str, int] = result.report["counts"]
    return {name: number for name, number in counts.items() if number}


def test_each_event_is_folded_once_and_in_order(projections: Projections) -> None:
    define(projections, table=TABLE)
    # a|1 has one event before the projection's first bucket, and skips hour 1 until later.
    projections.insert(move("a|1", 1, 0.5), move("a|1", 2, 1.1), move("a|2", 1, 1.2, 5))
    projections.insert(move("a|1", 4, 2.1), move("a|2", 2, 2.2, 5))
    projections.list_persistence_ids()
    projections.validated(0, 1, 2, 3)
    assert ran(projections.run(1, 2))["rows_written"] == 2
    assert books(projections) == {"a|1": (2, 2, [1, 2]), "a|2": (1, 5, [1])}

    # 4 waits for 3; its bucket again changes nothing else.
    held = projections.run(2, 3)
    assert ran(held)["rejected_seq_nr"] == 1
    assert books(projections) == {"a|1": (2, 2, [1, 2]), "a|2": (2, 10, [1, 2])}
    assert "rows_written" not in ran(projections.run(1, 3, "--force"))

    # 3 comes late into a bucket that is done: both, in their order.
    projections.insert(move("a|1", 3, 1.9, 100))
    assert ran(projections.run(2, 3))["accepted"] == 2
    assert books(projections)["a|1"] == (4, 103, [1, 2, 3, 4])


@pytest.mark.long
def test_a_changed_fold_begins_with_the_first_event_of_what_it_touches(
    projections: Projections,
) -> None:
    define(projections, table=TABLE)
    projections.insert(*(move("a|1", number, number - 0.5) for number in (1, 2, 3)))
    projections.insert(move("a|2", 1, 0.2), move("a|3", 1, 2.2))
    projections.list_persistence_ids()
    projections.validated(0, 1, 2, 3)
    ran(projections.run(0, 3))
    define(projections, fold(factor=10))
    (refusal,) = projections.run(0, 3).error_lines
    assert "books has changed, but version 1 was used before" in refusal

    # Hour 1 alone: a|1 is folded anew up to what is accepted, in hours 0 and 2; the others wait.
    define(projections, fold(factor=10, version=2))
    assert ran(projections.run(1, 2))["rows_written"] == 1
    assert books(projections) == {
        "a|1": (3, 30, [1, 2, 3]), "a|2": (1, 1, [1]), "a|3": (1, 1, [1]),
    }  # fmt: skip
    projections.insert(move("a|2", 2, 3.1), move("a|1", 4, 3.2))
    ran(projections.run(3, 4))
    assert books(projections)["a|2"] == (2, 20, [1, 2])
    assert books(projections)["a|1"] == (4, 40, [1, 2, 3, 4])

    # A history without its beginning cannot be folded.
    journal = projections.journal
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.messages"
        " WHERE persistence_id = ? AND partition_nr = ? AND sequence_nr = ?",
        ("a|1", 0, 1),
    )
    define(projections, fold(factor=100, version=3))
    purged = projections.run(3, 4)
    assert purged.status == 3
    assert (
        "a fold begins with the first event, but some are gone: a|1 has 3 of 4"
        in (purged.report["error"])
    )
    assert books(projections)["a|2"] == (2, 20, [1, 2])
    ran(projections.run(3, 4, "--accept-purged"))
    assert books(projections)["a|1"] == (4, 300, [2, 3, 4])

    # This state, written by hand, would hide every other state.
    journal.control.execute(
        f"UPDATE {journal.keyspace}.books SET sequence_nr = 9 WHERE persistence_id = ?", ("a|2",)
    )
    foreign = projections.run(3, 4, "--force")
    assert "the states of a|2 were not written by this projection" in foreign.report["error"]


@pytest.mark.long
def test_a_poisoned_event_ends_as_its_policy_says(projections: Projections) -> None:
    define(projections, FOLD.replace('mode="fold"', 'mode="fold", on_error="fail"'), TABLE)
    projections.define(LATEST, LATEST_TABLE)
    events = [move("a|1", number, 0.1 + number / 10) for number in range(1, 7)]
    events[2:4] = [move("a|1", 3, 0.3, kind="poison"), move("a|1", 4, 0.4, kind="poison")]
    projections.insert(*events, move("a|2", 1, 0.2, amount=0))
    projections.validated(0, 1)
    text = SUMS.replace("KEYSPACE", projections.journal.keyspace)
    (projections.directory / "sums.py").write_text(text)
    projections.journal.control.execute_ddl(
        SUMS_TABLE.format(keyspace=projections.journal.keyspace)
    )
    shown = projections.run(0, 1, "--projection", "books", "--dry-run", "--show").stdout
    assert f"cannot be processed: a|1 3, {POISON_AT}" in shown
    assert "|a|2|1|0|[1]|" in shown.replace(" ", "")
    failed = projections.run(0, 1)
    assert failed.status == 1
    error = failed.report["error"]
    assert error.startswith("projection books failed: on-error is fail, and the event a|1 3 cannot")
    assert POISON_AT in error
    assert "projection sums failed: ZeroDivisionError: integer division or modulo by zero" in error
    assert "(sums.py:8)" in error
    assert books(projections) == {}
    assert letters(projections) == {("a|1", 3): POISON_AT}
    states = {(name, state) for name, _, state, _ in projections.states()}
    assert states == {("books", "failed"), ("latest", "done"), ("sums", "failed")}
    assert {name for name, _, _ in projections.offsets()} == {"latest"}

    retrying = fold(version=2).replace(
        'mode="fold"',
        'mode="fold", on_error={"strategy": "retry-and-skip", "retries": 3, "retry-delay": "1 ms"}',
    )
    define(projections, retrying)
    assert ran(projections.run(0, 1, "--projection", "books"))["quarantined"] == 2
    assert books(projections) == {"a|1": (6, 4, [1, 2, 5, 6]), "a|2": (1, 0, [1])}
    assert letters(projections) == {("a|1", 3): POISON_AT, ("a|1", 4): POISON_AT}
    (poison, _) = sorted(projections.journal.own_rows("quarantine"), key=lambda r: r["sequence_nr"])
    assert (poison["timestamp"], poison["event"]) == (events[2].timestamp, events[2].payload)


def test_a_state_that_is_removed_has_no_row_and_needs_no_history_to_go_on(
    projections: Projections,
) -> None:
    journal = projections.journal
    define(projections, CLOSING, TABLE)
    projections.insert(move("a|1", 1, 0.1), move("a|2", 1, 0.2), move("a|3", 1, 0.3))
    projections.validated(0, 1, 2)
    ran(projections.run(0, 1))
    projections.insert(
        *(move(pid, 2, 1.1, kind="closed") for pid in ("a|1", "a|2", "a|3", "a|4")),
        move("a|4", 1, 1.0),
    )
    window = ("--window-start", "2024-03-01T01:00:00Z", "--window-end", "2024-03-01T02:00:00Z")
    directory = str(projections.directory)
    kill_after(journal, Seam.REMOVED_STATES_MARKED, "project", *window, PROJECTIONS_DIR=directory)
    assert books(projections) == {pid: (1, 1, [1]) for pid in ("a|1", "a|2", "a|3")}
    assert markers(projections) == dict.fromkeys(("a|1", "a|2", "a|3", "a|4"), (2, 1, 0))

    assert ran(projections.run(1, 2))["rows_deleted"] == 3
    wait_until("the deleted rows to expire", lambda: not books(projections))

    # The events of a|1 are gone, and it goes on; that of a|2 was wrong, and it begins anew.
    for number in (1, 2):
        journal.control.execute(
            f"DELETE FROM {journal.keyspace}.messages"
            " WHERE persistence_id = ? AND partition_nr = ? AND sequence_nr = ?",
            ("a|1", 0, number),
        )
    projections.insert(move("a|2", 2, 1.1, 5), move("a|1", 3, 2.1, 7))
    back = projections.manage("set-offset", "books", "--to", "1", "--apply",
                              "--persistence-id", "a|2")  # fmt: skip
    assert back.status == 0, back.stderr
    (revision,) = {generation for _, version, generation in markers(projections).values()
                   if version == 0}  # fmt: skip
    assert revision > 0
    assert markers(projections)["a|2"] == (2, 0, revision)
    ran(projections.run(2, 3))
    assert books(projections) == {"a|1": (3, 7, [3]), "a|2": (2, 6, [1, 2])}
    assert set(markers(projections)) == {"a|3", "a|4"}

    # A corrected version cannot read the last event, which the old state of a|2 has.
    projections.insert(replace(move("a|2", 2, 1.1), payload=b"{"))
    define(projections, CLOSING.replace("version=1", "version=2"))
    ran(projections.run(0, 2))
    assert books(projections)["a|2"] == (2, 1, [1])


# R2dbcTimestampOffsetProjectionSpec: "skip", "store offset of skipped last"; the next event of that
# persistence id is no gap. In every mode.
@pytest.mark.long
def test_a_skipped_event_counts_as_consumed(projections: Projections) -> None:
    define(projections, FOLD.replace('mode="fold"', 'mode="fold", on_error="skip"'), TABLE)
    latest = LATEST.replace("event:", SKIP)
    projections.define(latest, LATEST_TABLE, "latest.sql")
    projections.define(TOTALS.replace("event:", SKIP), TOTALS_TABLE, "totals.sql")
    log = latest.replace("latest", "log").replace("upsert", "append")
    projections.define(log, LATEST_TABLE.replace("latest", "log").replace(
        "text PRIMARY KEY", "text").replace("note text", "PRIMARY KEY (persistence_id, sequence_nr)"
    ), "log.sql")  # fmt: skip
    lake = latest.replace("latest", "lake").replace("upsert", "export")
    lake = lake.replace("{keyspace}.lake", "lake").replace("SELECT", "SELECT time_bucket,")
    projections.define(lake, file="lake.sql")
    broken = event("a|1", 3, 0.3, "red", kind="in", amount="many")
    projections.insert(move("a|1", 1, 0.1), move("a|1", 2, 0.2), broken)
    projections.validated(0, 1)
    export = ("EXPORT_DIR", str(projections.directory / "lake"))
    projections.journal.environment = {
        **projections.journal.environment, f"TIDEMARK_{export[0]}": export[1],
    }  # fmt: skip
    first = projections.run(0, 1)
    assert first.report["counts"]["quarantined"] == 5
    numbers = {key: place[1] for key, place in projections.offsets().items()}
    names = ("books", "latest", "log", "lake")
    assert numbers == {
        **{(name, "a|1", ""): 3 for name in names},
        ("totals", "a|1", "red"): 3,
    }
    projections.insert(move("a|1", 4, 1.1))
    second = projections.run(1, 2)
    assert ran(second) == {
        "events_read": 5, "accepted": 5, "rows_written": second.report["counts"]["rows_written"],
    }  # fmt: skip
    assert books(projections)["a|1"] == (4, 3, [1, 2, 4])
    assert {state for _, _, state, _ in projections.states()} == {"done"}
    assert {row["time_bucket"] for row in projections.journal.rows("totals")} == {
        START_MS, START_MS + HOUR_MS,
    }  # fmt: skip

    # With on-error fail nothing is stored: the offset stays, and so does the result.
    (projections.directory / "latest.sql").write_text(
        LATEST.format(keyspace=projections.journal.keyspace)
        .replace("version: 1", "version: 2")
        .replace("event:", "on-error: fail\nevent:")
    )
    stopped = projections.run(0, 2, "--projection", "latest")
    assert (
        "on-error is fail, and the event a|1 3 cannot be processed: not a JSON object"
        in (stopped.report["error"])
    )
    assert letters(projections, "latest")
