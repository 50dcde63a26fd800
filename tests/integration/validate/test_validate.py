"""The application validate in a real Cassandra: damage, findings, verdict and Data Docs."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.integration.support import Journal, Result
from tidemark.cassandra.schema import create_own_tables, table
from tidemark.ledger.piece import State
from tidemark.ledger.pieces import Pieces
from tidemark.partitioning.keys import BucketSize, time_bucket
from tidemark.validate.findings.check import Severity
from tidemark.validate.findings.checks import CHECKS

pytestmark = pytest.mark.usefixtures("production")

START = datetime(2024, 3, 1, tzinfo=UTC)
GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)
WARNINGS = {check.name for check in CHECKS if check.severity is Severity.WARNS}
DAYS = 3
WINDOW = (
    "--window-start", START.isoformat(), "--window-end", (START + timedelta(days=DAYS)).isoformat()
)  # fmt: skip
MESSAGES, TAG_VIEWS, PROGRESS, SCANNING = (
    "messages", "tag_views", "tag_write_progress", "tag_scanning",
)  # fmt: skip


def timestamp(day: int, place: int) -> uuid.UUID:
    """Return a timeuuid at noon of a day since START, unique by `place`."""
    moment = START + timedelta(days=day, hours=12)
    ticks = (moment - GREGORIAN) // timedelta(microseconds=1) * 10 + place
    fields = (ticks & 0xFFFFFFFF, ticks >> 32 & 0xFFFF, 0x1000 | ticks >> 48, 0x80, 0, 1)
    return uuid.UUID(fields=fields)


def bucket(day: int) -> int:
    """Return the time bucket (epoch ms) of a day since START."""
    ms = (START + timedelta(days=day) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        milliseconds=1
    )
    return time_bucket(ms, BucketSize.DAY)


def fill(journal: Journal, *persistence_ids: str) -> None:
    """Write two events a day for each id, all tagged `t`, and the tables that Pekko keeps."""
    payload = {"ser_id": 20, "ser_manifest": "", "event_manifest": "", "event": b"e"}
    for persistence_id in persistence_ids:
        numbers = range(1, 2 * DAYS + 1)
        key = {"persistence_id": persistence_id}
        events = [
            {**key, "sequence_nr": n, "timestamp": timestamp((n - 1) // 2, n), **payload}
            for n in numbers
        ]
        journal.insert(
            MESSAGES,
            [{**e, "partition_nr": 0, "timebucket": "0", "tags": {"t"}} for e in events],
        )
        journal.insert(
            TAG_VIEWS,
            [
                {
                    **event,
                    "tag_name": "t",
                    "timebucket": bucket((n - 1) // 2),
                    "tag_pid_sequence_nr": n,
                }
                for n, event in zip(numbers, events, strict=True)
            ],
        )
        last = numbers[-1]
        journal.insert(
            PROGRESS,
            [
                {
                    **key,
                    "tag": "t",
                    "sequence_nr": last,
                    "tag_pid_sequence_nr": last,
                    "offset": events[-1]["timestamp"],
                }
            ],
        )
        journal.insert(SCANNING, [{**key, "sequence_nr": last}])
        journal.insert("all_persistence_ids", [key])


def delete(journal: Journal, name: str, **key: Any) -> None:
    """Delete rows by key, as somebody at a prompt would."""
    where = " AND ".join(f"{column} = ?" for column in key)
    journal.control.execute(
        f"DELETE FROM {table(journal.keyspace, name)} WHERE {where}", list(key.values())
    )


def lose_tag_row(journal: Journal, persistence_id: str, number: int) -> None:
    day = (number - 1) // 2
    delete(
        journal, TAG_VIEWS, tag_name="t", timebucket=bucket(day), timestamp=timestamp(day, number),
        persistence_id=persistence_id, tag_pid_sequence_nr=number,
    )  # fmt: skip


def findings(journal: Journal) -> set[tuple[Any, ...]]:
    """Return (check, persistence id, tag, number, expected, time bucket) of what blocks."""
    names = ("check_name", "persistence_id", "tag", "number", "expected", "time_bucket")
    return {
        tuple(row[name] for name in names)
        for row in journal.own_rows("finding")
        if row["check_name"] not in WARNINGS
    }


def warnings(journal: Journal) -> set[tuple[Any, ...]]:
    """Return (check, persistence id, tag, number, time bucket) of what warns."""
    names = ("check_name", "persistence_id", "tag", "number", "time_bucket")
    return {
        tuple(row[name] for name in names)
        for row in journal.own_rows("finding")
        if row["check_name"] in WARNINGS
    }


def states(journal: Journal) -> dict[int, str]:
    """Return the state of validate's pieces by day."""
    rows = [row for row in journal.own_rows("piece") if row["application"] == "validate"]
    return {(row["time_bucket"] - bucket(0)) // 86_400_000: row["state"] for row in rows}


@pytest.fixture
def days(make_journal: Callable[..., Journal], tmp_path: Path) -> Journal:
    """Return an undamaged journal of two persistence ids in Day buckets."""
    journal = make_journal(BUCKET_SIZE="Day", DATA_DOCS_DIR=str(tmp_path / "docs"))
    fill(journal, "one", "two")
    create_own_tables(journal.control, journal.settings())
    return journal


def validate(journal: Journal, *options: str) -> Result:
    """Run validate over the whole journal."""
    return journal.run("validate", *WINDOW, *options)


def test_a_journal_that_passed_is_examined_again_only_if_somebody_gives_the_window(
    days: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("HOME", str(tmp_path / "no such home"))

    result = days.run(
        "validate", *WINDOW, "--run-id", "validate/manual__2024-03-01T00:00:00+00:00/1"
    )

    assert result.status == 0, result.stderr
    assert result.report["state"] == "done"
    assert result.report["counts"] == {
        "messages_checked": 12, "tag_rows_checked": 12, "findings": 0
    }  # fmt: skip
    page = tmp_path / "docs" / result.report["details"]["data_docs"]
    assert f"Data Docs: {page}" in result.stdout
    assert "3 time buckets: every check passed" in page.read_text()
    start_page = (tmp_path / "docs" / "index.html").read_text()
    assert "validate/manual__2024-03-01T00:00:00+00:00/1" in start_page
    assert quote(result.report["details"]["data_docs"]) in start_page
    assert states(days) == {0: "done", 1: "done", 2: "done"}
    assert not any(elsewhere.iterdir())
    lose_tag_row(days, "one", 3)
    again = validate(days, "--skip-passed")
    assert (again.status, again.report["state"]) == (0, "nothing-to-do")
    given = validate(days)
    assert given.status == 3, given.stdout
    assert findings(days) == {("untagged_event", "one", "t", 3, None, bucket(1))}
    assert states(days) == {0: "done", 1: "failed", 2: "done"}


@pytest.mark.long
def test_data_docs_need_no_network(days: Journal, tmp_path: Path) -> None:
    lose_tag_row(days, "one", 3)

    validate(days)

    pages = [page.read_text() for page in (tmp_path / "docs").rglob("*.html")]
    assert len(pages) == 2
    for page in pages:
        assert not re.findall(r"""<(?:script|link|img)\b|(?:src|href)="https?:""", page)


def test_data_docs_say_what_is_broken_where_since_when_and_what_mends_it(
    days: Journal, tmp_path: Path
) -> None:
    lose_tag_row(days, "one", 3)
    first = validate(days)
    again = validate(days)

    page = (tmp_path / "docs" / again.report["details"]["data_docs"]).read_text()
    shown = " ".join(re.sub(r"<[^>]*>", " ", page.partition("</style>")[2]).split())
    for part in (
        "1 finding in 1 of",
        "reconcile.py repair --persistence-id one",
        "untagged_event Does not hold: Every event that carries a tag has its row in tag_views",
        "1 finding of 1 persistence id, since",
        "one t 3 2024-03-02 sequence nr 3: no row, expected number 3",
        "passed sequence_nr_gap",
    ):
        assert part in shown
    [began] = set(re.findall(r"persistence id, since (\S+ \S+);", shown))
    assert began.startswith(first.report["details"]["data_docs"].split("/")[-1][:4])
    start_page = (tmp_path / "docs" / "index.html").read_text()
    assert start_page.count('<span class="state failed">failed</span>') == 2


@pytest.mark.long
def test_what_only_warns_passes_and_is_told(
    days: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.validate.findings.partition_size.ROWS_ADVISED", 3)
    write_out_of_order(days, day=1)

    result = validate(days)

    assert result.status == 0, result.stderr
    assert states(days) == {0: "done", 1: "done", 2: "done"}
    large = {("tag_partition_too_large", "", "t", 4, bucket(day)) for day in range(DAYS)}
    assert warnings(days) == {("event_out_of_order", "late", "", 2, bucket(1)), *large}
    assert findings(days) == set()
    counts = {"findings": 0, "warnings": 4, "event_out_of_order": 1, "tag_partition_too_large": 3}
    assert result.report["counts"].items() >= counts.items()
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert (
        "warning: event_out_of_order: late: 40.0 ms older than sequence nr 1"
        " in bucket 2024-03-02T00:00:00Z"
    ) in lines
    page = (tmp_path / "docs" / result.report["details"]["data_docs"]).read_text()
    assert "nothing is broken, 4 warnings" in page
    assert (
        "4 rows (0.0 MB of payload, estimated) in one Day partition, at most 3 are advised" in page
    )
    assert "bucket size Hour would fit" in page
    assert '<span class="state warned">' in (tmp_path / "docs" / "index.html").read_text()

    # What has been put right is not told again.
    monkeypatch.undo()
    assert validate(days, "--force").status == 0
    assert warnings(days) == {("event_out_of_order", "late", "", 2, bucket(1))}


def write_out_of_order(journal: Journal, *, day: int) -> None:
    """Write an id whose second event is 40 ms older than its first, as two nodes may."""
    key = {"persistence_id": "late", "partition_nr": 0, "timebucket": "0", "ser_id": 20}
    rest = {"ser_manifest": "", "event_manifest": "", "event": b"e"}
    for number, at in ((1, timestamp(day, 500_000)), (2, timestamp(day, 100_000))):
        journal.insert(MESSAGES, [{**key, **rest, "sequence_nr": number, "timestamp": at}])
    journal.insert("all_persistence_ids", [{"persistence_id": "late"}])


@pytest.mark.long
def test_lost_rows_and_events_stop_what_is_downstream_until_they_are_back(days: Journal) -> None:
    lose_tag_row(days, "one", 3)
    delete(days, MESSAGES, persistence_id="two", partition_nr=0, sequence_nr=6)

    failed = validate(days)

    assert failed.status == 3, failed.stderr
    assert findings(days) == {
        ("untagged_event", "one", "t", 3, None, bucket(1)),
        ("sequence_nr_lost_tail", "two", "", 5, 6, bucket(2)),
    }
    assert states(days) == {0: "done", 1: "failed", 2: "failed"}
    assert failed.report["pieces"] == {"planned": 3, "done": 1, "held": 0, "failed": 2}
    assert failed.report["counts"] == {
        "messages_checked": 11,
        "tag_rows_checked": 11,
        "findings": 2,
        "sequence_nr_lost_tail": 1,
        "untagged_event": 1,
    }
    (line,) = failed.error_lines
    for part in (
        "2 findings in 2 of 3 buckets",
        "`spark_apps/reconcile.py repair",
        "1 sequence_nr_lost_tail, 1 untagged_event",
        "first: untagged_event: one tag t: sequence nr 3: no row, expected number 3",
        "docs/validations/",
        f"{days.own_keyspace}.finding",
        "run validate again",
    ):
        assert part in line

    fill(days, "one", "two")
    healed = validate(days)

    assert (healed.status, healed.report["pieces"]["done"]) == (0, 2)
    assert findings(days) == set()
    assert states(days) == {0: "done", 1: "done", 2: "done"}


def test_a_lost_event_blocks_until_an_operator_has_settled_it(
    days: Journal, tmp_path: Path
) -> None:
    delete(days, MESSAGES, persistence_id="one", partition_nr=0, sequence_nr=3)
    failed = validate(days)
    assert findings(days) == {("sequence_nr_gap", "one", "", 4, 3, bucket(1))}
    (line,) = failed.error_lines
    which = "--check sequence_nr_gap --persistence-id one --number 4"
    assert f"or give it up: `spark_apps/reconcile.py settle {which} --reason ...`" in line
    assert "repair" not in line
    (found,) = days.own_rows("finding")
    assert (found["layer"], found["severity"], found["state"]) == ("messages", "blocks", "open")
    assert found["first_seen"] == found["last_seen"]

    settle = ("settle", *which.split(), "--reason", "lost with the disk of 2 March")
    planned = days.run("reconcile", *settle)
    assert (planned.status, days.own_rows("settled_finding")) == (0, [])
    assert "sequence_nr_gap: one: expected 3, found 4" in " ".join(planned.report["lines"])
    assert days.run("reconcile", *settle, "--apply").status == 0
    passed = validate(days)

    assert passed.status == 0, passed.stderr
    assert passed.report["counts"]["settled_findings"] == 1
    (now,) = days.own_rows("finding")
    assert (now["state"], now["reason"]) == ("settled", settle[-1])
    assert now["first_seen"] == found["first_seen"] < now["last_seen"]
    page = (tmp_path / "docs" / passed.report["details"]["data_docs"]).read_text()
    assert "every check passed" in page
    assert settle[-1] in page.partition("Settled findings")[2]
    checked = days.run("reconcile", "check").report["counts"]
    assert "sequence_nr_gap" not in checked
    assert checked["settled_findings"] == 1
    assert days.run("reconcile", *settle, "--apply").report["state"] == "nothing-to-do"

    # It was settled as it stood: with one more event gone, it is open again.
    delete(days, MESSAGES, persistence_id="one", partition_nr=0, sequence_nr=2)
    assert validate(days, "--force").status == 3
    assert findings(days) == {("sequence_nr_gap", "one", "", 4, 2, bucket(1))}
    assert days.own_rows("finding")[0]["state"] == "open"


@pytest.mark.long
def test_an_event_where_no_reader_looks_is_found_by_validate_and_check(days: Journal) -> None:
    key = {"persistence_id": "two", "sequence_nr": 6}
    [event] = [row for row in days.rows(MESSAGES) if row.items() >= key.items()]
    delete(days, MESSAGES, persistence_id="two", partition_nr=0, sequence_nr=6)
    days.insert(MESSAGES, [{**event, "partition_nr": 2}])

    result = validate(days)

    assert result.status == 3, result.stderr
    assert findings(days) == {("wrong_partition_nr", "two", "", 6, None, bucket(2))}
    assert "wrong_partition_nr: two: in partition 2, not 0 or 1" in result.stdout
    assert "correct TIDEMARK_TARGET_PARTITION_SIZE, or move the events" in result.error_lines[0]
    checked = days.run("reconcile", "check")
    assert checked.report["counts"]["wrong_partition_nr"] == 1
    # What may be there as a write group is written is no finding.
    delete(days, MESSAGES, persistence_id="two", partition_nr=2, sequence_nr=6)
    days.insert(MESSAGES, [{**event, "partition_nr": 1}])
    assert validate(days).status == 0


@pytest.mark.long
def test_a_second_look_replaces_the_findings_of_a_bucket(days: Journal) -> None:
    lose_tag_row(days, "one", 3)
    assert "untagged_event" in validate(days).stderr
    fill(days, "one")
    lose_tag_row(days, "two", 3)

    again = validate(days)

    assert again.status == 3, again.stderr
    assert findings(days) == {
        ("untagged_event", "two", "t", 3, None, bucket(1)),
    }


def test_what_purge_removed_is_no_finding(days: Journal) -> None:
    purge = Pieces(
        days.control, days.own_keyspace, "purge", days.keyspace, days.settings().bucket_size
    )
    started = purge.start(purge.plan([bucket(0)]), owner="o", run_id="r")
    purge.finish(started, State.DONE, owner="o")
    delete(days, TAG_VIEWS, tag_name="t", timebucket=bucket(0))

    purged = validate(days)

    assert purged.status == 0, purged.stderr
    assert purged.report["counts"]["findings"] == 0


def test_rows_gone_without_a_purge_are_findings(days: Journal) -> None:
    delete(days, TAG_VIEWS, tag_name="t", timebucket=bucket(0))

    lost = validate(days)

    assert lost.status == 3, lost.stderr
    assert lost.report["counts"]["untagged_event"] == 4
    assert lost.report["counts"]["findings"] == 4


def test_a_dry_run_writes_nothing(days: Journal) -> None:
    lose_tag_row(days, "one", 3)

    planned = validate(days, "--dry-run")

    assert (planned.status, planned.report["pieces"]["planned"]) == (0, DAYS)
    assert (states(days), findings(days)) == ({}, set())
