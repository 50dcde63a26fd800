"""The operations tags, check and repair of reconcile, on journals as Pekko leaves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.integration.pekko_journals import HOUR_MS, write_as_pekko
from tests.integration.support import Journal, pekko_sample
from tests.integration.tag_write.test_tag_write import START, message, window
from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.reconcile.findings.find import ComparisonResult, find
from tidemark.validate.scope import Scope

pytestmark = pytest.mark.usefixtures("production")

Found = tuple[str, str, str, int, int]
"""(kind, persistence id, tag, sequence nr, tag pid sequence nr)."""

TAGS: list[set[str]] = [{"red"}, {"red", "blue ✓"}, set(), {"blue ✓"}, {"red"}]
VIEW_KEY = ("tag_name", "timebucket", "timestamp", "persistence_id", "tag_pid_sequence_nr")


def ten_events(persistence_id: str) -> list[dict[str, Any]]:
    """Return ten events over five hours: red are 1, 2, 5, 6, 7, 10 and blue are 2, 4, 7, 9.

    A partition has four events, but a write group of 4 and 5 is in the partition of its last event.
    """
    partitions = [0, 0, 0, 1, 1, 1, 1, 1, 2, 2]
    return [
        message(
            persistence_id,
            number,
            hours=number * 0.5 + len(persistence_id) * 0.001,
            tags=TAGS[(number - 1) % 5],
            partition_nr=partitions[number - 1],
        )
        for number in range(1, 11)
    ]


def view_row(journal: Journal, persistence_id: str, tag: str, number: int) -> dict[str, Any]:
    [found_row] = [
        row
        for row in journal.rows("tag_views")
        if (row["persistence_id"], row["tag_name"], row["tag_pid_sequence_nr"])
        == (persistence_id, tag, number)
    ]
    return found_row


def delete_row(journal: Journal, row: Mapping[str, Any]) -> None:
    where = " AND ".join(f"{name} = ?" for name in VIEW_KEY)
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_views WHERE {where}", [row[name] for name in VIEW_KEY]
    )


def lose(journal: Journal, pid: str) -> None:
    delete_row(journal, view_row(journal, pid, "red", 3))


def double(journal: Journal, pid: str) -> None:
    row = view_row(journal, pid, "red", 3)
    journal.insert("tag_views", [{**row, "tag_pid_sequence_nr": 12}])


def renumber(journal: Journal, pid: str) -> None:
    row = view_row(journal, pid, "red", 3)
    delete_row(journal, row)
    journal.insert("tag_views", [{**row, "tag_pid_sequence_nr": 9}])


def move(journal: Journal, pid: str) -> None:
    row = view_row(journal, pid, "red", 3)
    delete_row(journal, row)
    journal.insert("tag_views", [{**row, "timebucket": row["timebucket"] + HOUR_MS}])


def invent(journal: Journal, pid: str) -> None:
    row = view_row(journal, pid, "red", 3)
    other = message(pid, 77, 2.5, set())["timestamp"]
    journal.insert(
        "tag_views",
        [{**row, "timestamp": other, "sequence_nr": 77}, {**row, "tag_name": "never carried"}],
    )


def set_progress(journal: Journal, pid: str, **values: Any) -> None:
    journal.insert("tag_write_progress", [{"persistence_id": pid, "tag": "red", **values}])


def lose_progress(journal: Journal, pid: str) -> None:
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_write_progress WHERE persistence_id = ?", (pid,)
    )


def progress_behind(journal: Journal, pid: str) -> None:
    row = view_row(journal, pid, "red", 4)
    set_progress(journal, pid, sequence_nr=6, tag_pid_sequence_nr=4, offset=row["timestamp"])


def progress_ahead(journal: Journal, pid: str) -> None:
    set_progress(journal, pid, sequence_nr=40, tag_pid_sequence_nr=33)


def progress_wrong(journal: Journal, pid: str) -> None:
    set_progress(journal, pid, tag_pid_sequence_nr=2)


def scanning_ahead(journal: Journal, pid: str) -> None:
    journal.insert("tag_scanning", [{"persistence_id": pid, "sequence_nr": 50}])


def truncate_but_scanning(journal: Journal, pid: str) -> None:
    for row in journal.rows("tag_views"):
        if row["persistence_id"] == pid:
            delete_row(journal, row)
    lose_progress(journal, pid)


RED, BLUE = [1, 2, 5, 6, 7, 10], [2, 4, 7, 9]
DAMAGES: dict[str, tuple[Callable[[Journal, str], None], set[tuple[str, str, int, int]]]] = {
    "row lost": (lose, {("untagged_event", "red", 5, 3)}),
    "row doubled": (double, {("doubled_row", "red", 5, 12)}),
    "row renumbered": (renumber, {("wrong_number", "red", 5, 9)}),
    "row in another bucket": (move, {("wrong_time_bucket", "red", 5, 3)}),
    "rows invented": (
        invent,
        {("extra_row", "red", 77, 3), ("extra_row", "never carried", 5, 3)},
    ),
    "progress lost": (
        lose_progress,
        {("progress_missing", "red", 10, 6), ("progress_missing", "blue ✓", 9, 4)},
    ),
    "progress behind": (progress_behind, {("progress_behind", "red", 6, 4)}),
    "progress ahead": (progress_ahead, {("progress_ahead", "red", 40, 33)}),
    "progress wrong": (progress_wrong, {("progress_wrong", "red", 10, 2)}),
    "scanning ahead": (scanning_ahead, {("scanning_ahead", "", 50, 0)}),
    "view and progress truncated": (
        truncate_but_scanning,
        {
            *(("untagged_event", "red", nr, place) for place, nr in enumerate(RED, 1)),
            *(("untagged_event", "blue ✓", nr, place) for place, nr in enumerate(BLUE, 1)),
            ("progress_missing", "red", 10, 6),
            ("progress_missing", "blue ✓", 9, 4),
            ("scanning_ahead", "red", 10, 0),
            ("scanning_ahead", "blue ✓", 10, 0),
        },
    ),
    "untouched": (lambda journal, pid: None, set()),
}


def findings(journal: Journal, run_id: str) -> set[Found]:
    names = ("check_name", "persistence_id", "tag", "sequence_nr")
    numbers = ("tag_pid_sequence_nr", "expected_tag_pid_sequence_nr")
    return {
        (*(row[name] for name in names), next((row[n] for n in numbers if row[n]), 0))
        for row in journal.own_rows("finding")
        if row["run_id"] == run_id
    }


@pytest.fixture
def written(make_journal: Callable[..., Journal]) -> Journal:
    journal = make_journal(TARGET_PARTITION_SIZE="4")
    write_as_pekko(journal, [event for pid in DAMAGES for event in ten_events(pid)])
    return journal


@pytest.mark.long
def test_every_damage_is_named_by_its_keys_and_repaired(written: Journal) -> None:
    before = written.tag_tables()
    for pid, (damage, _) in DAMAGES.items():
        damage(written, pid)
    expected = {(kind, pid, *rest) for pid, (_, kinds) in DAMAGES.items() for kind, *rest in kinds}
    damaged = written.tag_tables()

    check = written.run("reconcile", "check", "--run-id", "first")
    assert check.status == 3
    assert findings(written, "first") == expected
    assert check.report["counts"]["findings"] == len(expected)
    assert f"{len(expected)} findings" in check.error_lines[0]
    assert "run `spark_apps/reconcile.py repair --from-findings --apply`" in check.error_lines[0]
    assert (
        "untagged_event: row lost tag red: sequence nr 5: no row, expected number 3" in check.stdout
    )

    plan = written.run("reconcile", "repair")
    assert (plan.status, plan.report["state"]) == (0, "planned")
    assert written.tag_tables() == damaged

    repair = written.run("reconcile", "repair", "--apply")
    assert repair.status == 0, repair.stderr
    assert written.tag_tables() == before
    assert repair.report["counts"] == plan.report["counts"]
    assert repair.report["counts"] == {
        "events_quarantined": 0,
        "tag_rows_written": 13,
        "tag_rows_deleted": 5,
        "progress_rows_written": 7,
        "progress_rows_deleted": 0,
        "scanning_rows_written": 1,
    }
    again = written.run("reconcile", "repair", "--apply")
    assert again.report["state"] == "nothing-to-do"
    assert written.run("reconcile", "check").status == 0
    operations = {(row["operation"], row["dry_run"]) for row in written.own_rows("audit")}
    assert operations == {
        ("check", True),
        ("repair", True),
        ("repair started", False),
        ("repair", False),
    }


@pytest.mark.long
def test_scope_limits_what_is_checked_and_repaired(written: Journal) -> None:
    lose(written, "row lost")
    double(written, "row doubled")
    scanning_ahead(written, "row lost")
    blue = written.run("reconcile", "check", "--persistence-id", "row doubled", "--tag", "blue ✓")
    assert blue.status == 0, blue.stderr
    assert blue.report["counts"]["messages_checked"] == 10
    hour = written.run("reconcile", "check", *window(2, 3), "--run-id", "hour")
    assert findings(written, "hour") == {
        ("untagged_event", "row lost", "red", 5, 3),
        ("doubled_row", "row doubled", "red", 5, 12),
    }
    assert hour.report["window_start"] == f"{START:%Y-%m-%d}T02:00:00Z"
    repair = written.run("reconcile", "repair", "--tag", "red", "--apply")
    assert repair.status == 0, repair.stderr
    left = written.run("reconcile", "check", "--all", "--run-id", "left")
    assert left.status == 3
    assert findings(written, "left") == {("scanning_ahead", "row lost", "", 50, 0)}


def test_repair_takes_its_orders_from_findings(
    written: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ids of findings are read by key, and payloads only of events whose rows are written.

    A row under a tag that its event does not carry is found where a finding names its place.
    """
    lose(written, "row lost")
    double(written, "row doubled")
    invent(written, "rows invented")
    assert written.run("reconcile", "check").status == 3
    # What was put right since is found no more; what was damaged since, nobody has found.
    delete_row(written, view_row(written, "row doubled", "red", 12))
    progress_wrong(written, "progress wrong")
    scanned, with_payloads = reads_of(monkeypatch)

    repair = written.run("reconcile", "repair", "--from-findings", "--apply")

    assert repair.status == 0, repair.stderr
    counts = repair.report["counts"]
    assert {name: number for name, number in counts.items() if number} == {
        "tag_rows_written": 1,
        "tag_rows_deleted": 2,
    }
    assert scanned <= {"finding"}
    assert with_payloads == ["messages by sequence nr"]
    assert written.own_rows("finding") == []
    again = written.run("reconcile", "repair", "--from-findings", "--apply")
    assert again.report["state"] == "nothing-to-do"
    assert written.run("reconcile", "check").report["counts"]["progress_wrong"] == 1


def test_repair_locks_the_journal_only_for_the_change_and_compares_again_before_it(
    make_journal: Callable[..., Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = make_journal(TARGET_PARTITION_SIZE="4")
    write_as_pekko(journal, [*ten_events("a"), *ten_events("bb"), *ten_events("ccc")])
    before = journal.tag_tables()
    back = view_row(journal, "bb", "red", 3)
    lose(journal, "a")
    lose(journal, "bb")
    compared: list[tuple[frozenset[str] | None, bool]] = []

    def find_and_write(run: RunContext, scope: Scope) -> ComparisonResult:
        compared.append((scope.persistence_ids, bool(journal.own_rows("lock"))))
        found = find(run, scope)
        # Its actor writes the row between the plan and the change.
        journal.insert("tag_views", [back])
        return found

    monkeypatch.setattr("tidemark.reconcile.repair.run.find", find_and_write)
    repair = journal.run("reconcile", "repair", "--apply")

    assert repair.status == 0, repair.stderr
    assert compared == [(None, False), (frozenset({"a", "bb"}), True)]
    assert repair.report["counts"]["tag_rows_written"] == 1
    assert journal.tag_tables() == before


@pytest.mark.long
def test_an_id_whose_first_partitions_are_empty_is_read_up_to_where_other_tables_name_events(
    journal: Journal,
) -> None:
    journal.environment = {**journal.environment, "TIDEMARK_TARGET_PARTITION_SIZE": "1"}
    events = [message("p", nr, nr * 0.1, {"red"}, partition_nr=nr - 1) for nr in range(1, 15)]
    write_as_pekko(journal, events)
    for nr in range(1, 13):
        journal.control.execute(
            f"DELETE FROM {journal.keyspace}.messages WHERE persistence_id = 'p'"
            " AND partition_nr = ?",
            (nr - 1,),
        )

    check = journal.run("reconcile", "check", "--persistence-id", "p", "--run-id", "front")

    assert check.status == 3, check.stderr
    assert check.report["counts"]["messages_checked"] == 2
    assert {name for name, *_ in findings(journal, "front")} == {"sequence_nr_missing_head"}


def reads_of(monkeypatch: pytest.MonkeyPatch) -> tuple[set[str], list[str]]:
    """Record the tables that are scanned, and the reads of payloads of messages."""
    scan, by_key = connector.read, connector.read_partitions
    scanned: set[str] = set()
    with_payloads: list[str] = []

    def scans(spark: Any, keyspace: str, name: str, *columns: str, **options: Any) -> Any:
        if options.get("keys") is None:
            scanned.add(name)
        return scan(spark, keyspace, name, *columns, **options)

    def reads(keys: Any, keyspace: str, name: str, *columns: str, **options: Any) -> Any:
        if "event" in columns:
            by = " by sequence nr" if "sequence_nr" in keys.columns else ""
            with_payloads.append(f"{name}{by}")
        return by_key(keys, keyspace, name, *columns, **options)

    monkeypatch.setattr(connector, "read", scans)
    monkeypatch.setattr(connector, "read_partitions", reads)
    return scanned, with_payloads


@pytest.mark.long
def test_what_the_real_plugin_wrote_and_deleted_is_clean(journal: Journal) -> None:
    for name, rows in pekko_sample().items():
        if name in ("messages", "metadata", "tag_views", "tag_write_progress", "tag_scanning"):
            journal.insert(name, rows)
    before = journal.tag_tables()
    check = journal.run("reconcile", "check")
    assert check.status == 0, check.stderr
    assert check.report["counts"] == {
        "messages_checked": 11,
        "tag_rows_checked": 18,
        "removed_ids": 0,
        "rows_of_deleted_events": 6,
        "rows_of_lost_events": 0,
        "exempt_rows": 0,
        "settled_findings": 0,
        "findings": 0,
    }
    for row in journal.rows("tag_views"):
        delete_row(journal, row)
    journal.control.execute(f"TRUNCATE {journal.keyspace}.tag_scanning")
    repair = journal.run("reconcile", "repair", "--apply")
    assert repair.status == 0, repair.stderr
    # The rows of deleted events cannot come back; the other rows have their old numbers.
    held = {row["sequence_nr"] for row in journal.rows("messages")}
    written = journal.tag_tables()
    assert written["tag_views"] == [
        row
        for row in before["tag_views"]
        if row["persistence_id"] == "bytes-0" or row["sequence_nr"] > 2
    ]
    assert held
    assert written["tag_write_progress"] == before["tag_write_progress"]


@pytest.mark.long
def test_event_without_a_payload_is_quarantined_and_takes_no_number(journal: Journal) -> None:
    events = [message("p", number, number * 0.1, {"red"}) for number in (1, 2, 3)]
    broken = message("p", 4, 0.4, {"red"}, event=None)
    write_as_pekko(journal, events)
    journal.insert("messages", [broken, message("p", 5, 0.5, {"red"})])
    repair = journal.run("reconcile", "repair", "--apply")
    assert repair.status == 0, repair.stderr
    numbers = {row["sequence_nr"]: row["tag_pid_sequence_nr"] for row in journal.rows("tag_views")}
    assert numbers == {1: 1, 2: 2, 3: 3, 5: 4}
    [quarantined] = journal.own_rows("quarantine")
    assert (
        quarantined["persistence_id"],
        quarantined["sequence_nr"],
        quarantined["timestamp"],
    ) == (
        "p",
        4,
        broken["timestamp"],
    )
    check = journal.run("reconcile", "check", "--run-id", "after")
    assert check.status == 3
    assert findings(journal, "after") == {("unwritable_event", "p", "", 4, 0)}


def test_tags_are_listed_from_messages_rows_and_progress(journal: Journal) -> None:
    write_as_pekko(journal, [*ten_events("a"), *ten_events("bb")])
    lose_progress(journal, "bb")
    row = view_row(journal, "a", "red", 3)
    journal.insert("tag_views", [{**row, "tag_name": "old"}])
    listed = journal.run("reconcile", "tags")
    assert listed.status == 0, listed.stderr
    assert listed.report["counts"] == {
        "tags": 3,
        "tags_without_events": 1,
        "ids_without_progress": 2,
    }
    lines = [line.strip() for line in listed.stdout.splitlines()]
    assert (
        "red: events 12, persistence ids 2, 2024-03-01T00:30:03Z to 2024-03-01T05:00:07Z,"
        " rows 12, progress rows 1, ids without progress 1"
    ) in lines
    assert (
        "old: events 0, persistence ids 0, rows 1, progress rows 0, ids without progress 0"
    ) in lines
    of_one = journal.run("reconcile", "tags", "--persistence-id", "bb", "--limit", "1")
    assert of_one.report["counts"]["tags"] == 2
    assert "blue ✓: events 4, persistence ids 1," in of_one.stdout
    assert "and 1 more; --limit shows them" in of_one.stdout


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("tags", "--persistence-id", "nobody"), "no such persistence id in messages: nobody"),
        (("check", "--persistence-id", "nobody"), "no such persistence id in messages: nobody"),
        (("check", "--tag", "never"), "no such tag in messages: never"),
        (("repair", "--tag", "never", "--apply"), "no such tag in messages: never"),
        (("check", "--all", "--tag", "red"), "contradict each other"),
        (
            ("repair", "--from-findings", "--tag", "red"),
            "--from-findings already selects the persistence ids",
        ),
        (("repair", "--window-start", "2024-03-01T00:00:00Z"), "no window"),
        (
            (
                "check",
                "--window-start",
                "2024-03-01T00:10:00Z",
                "--window-end",
                "2024-03-01T01:00Z",
            ),
            "cuts a time bucket",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line_and_touches_nothing(
    journal: Journal, arguments: tuple[str, ...], what: str
) -> None:
    write_as_pekko(journal, ten_events("a"))
    before = journal.tag_tables()
    result = journal.run("reconcile", *arguments)
    assert result.status == 2
    assert len(result.error_lines) == 1
    assert what in result.error_lines[0]
    assert journal.tag_tables() == before


def test_view_of_another_bucket_size_is_refused(make_journal: Callable[..., Journal]) -> None:
    journal = make_journal(BUCKET_SIZE="Day")
    write_as_pekko(journal, ten_events("a"))
    for arguments in (("check",), ("repair", "--apply")):
        result = journal.run("reconcile", *arguments)
        assert result.status == 3
        assert "bucket size Day is not that of the existing tag views" in result.error_lines[0]
