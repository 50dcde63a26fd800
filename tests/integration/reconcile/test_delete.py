"""The operation delete of reconcile in a real Cassandra, on tag views in any condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.pekko_journals import (
    delete_message,
    delete_messages,
    tag_rows,
    write_as_pekko,
)
from tests.integration.support import Journal, Result
from tests.integration.tag_write.test_tag_write import message
from tidemark.cassandra.control import Control

TAGS: list[set[str]] = [{"red"}, {"red", "blue"}, set(), {"blue"}]
EVERYTHING = ("messages", "metadata", "tag_views", "tag_write_progress", "tag_scanning")


def three_ids(partition_of: Callable[[int], int] = lambda number: 0) -> list[dict[str, Any]]:
    """Return twelve events of each id over six hours, tagged red, both, none and blue in turn."""
    return [
        message(
            pid,
            number,
            hours=number * 0.5 + place * 0.01,
            tags=TAGS[number % 4],
            partition_nr=partition_of(number),
        )
        for place, pid in enumerate(["a|1", "a|2", "ünï ✓"])
        for number in range(1, 13)
    ]


@pytest.fixture
def written(journal: Journal) -> Journal:
    write_as_pekko(journal, three_ids())
    return journal


def delete(journal: Journal, *arguments: str, apply: bool = True) -> Result:
    return journal.run("reconcile", "delete", *arguments, *(["--apply"] if apply else []))


def deleted(journal: Journal, *arguments: str) -> dict[str, int]:
    result = delete(journal, *arguments)
    assert result.status == 0, result.stderr
    counts: dict[str, int] = result.report["counts"]
    return counts


def state(journal: Journal) -> dict[str, list[Any]]:
    return {name: journal.rows(name) for name in EVERYTHING}


def without(
    before: dict[str, list[Any]], persistence_ids: set[str], tags: set[str]
) -> dict[str, list[Any]]:
    """Return the rows that must be left when tags of persistence ids are deleted."""

    def stays(name: str, row: Any) -> bool:
        if name == "tag_scanning":
            return row["persistence_id"] not in persistence_ids
        tag = {"tag_views": "tag_name", "tag_write_progress": "tag"}.get(name)
        return tag is None or row["persistence_id"] not in persistence_ids or row[tag] not in tags

    return {name: [row for row in rows if stays(name, row)] for name, rows in before.items()}


def test_one_tag_of_one_id(written: Journal) -> None:
    before = state(written)
    assert deleted(written, "--persistence-id", "a|1", "--tag", "red") == {
        "tag_rows_deleted": 6,
        "progress_rows_deleted": 1,
        "scanning_rows_deleted": 1,
    }
    assert state(written) == without(before, {"a|1"}, {"red"})


@pytest.mark.long
def test_ids_without_a_tag_lose_all_their_tags(written: Journal) -> None:
    before = state(written)
    counts = deleted(written, "--persistence-id", "a|1", "--persistence-id", "ünï ✓")
    assert counts == {
        "tag_rows_deleted": 24,
        "progress_rows_deleted": 4,
        "scanning_rows_deleted": 2,
    }
    assert state(written) == without(before, {"a|1", "ünï ✓"}, {"red", "blue"})


@pytest.mark.long
def test_a_tag_without_ids_goes_as_a_whole(
    written: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver reads no persistence id, and sends no statement for one."""
    statements: list[str] = []
    for name in ("execute_many", "stream"):
        monkeypatch.setattr(Control, name, recording(statements, getattr(Control, name)))
    before = state(written)
    counts = deleted(written, "--tag", "red")
    partitions = {row["timebucket"] for row in before["tag_views"] if row["tag_name"] == "red"}
    assert counts == {
        "partitions_deleted": len(partitions),
        "progress_rows_deleted": 3,
        "scanning_rows_deleted": 3,
    }
    assert state(written) == without(before, {"a|1", "a|2", "ünï ✓"}, {"red"})
    assert [cql for cql in statements if "persistence_id" in cql] == []


def recording(
    statements: list[str], execute: Callable[..., Any]
) -> Callable[[Control, str], object]:
    def recorded(control: Control, cql: str, *values: object, **options: object) -> object:
        statements.append(cql)
        return execute(control, cql, *values, **options)

    return recorded


@pytest.mark.parametrize("arguments", [("--persistence-id", "a|1"), ("--tag", "blue")])
def test_dry_run_is_the_default_touches_nothing_and_counts_exactly(
    written: Journal, arguments: tuple[str, ...]
) -> None:
    before = state(written)
    planned = delete(written, *arguments, apply=False)
    assert planned.report["state"] == "planned"
    assert planned.report["dry_run"] is True
    assert state(written) == before
    [audited] = written.own_rows("audit")
    assert (audited["operation"], audited["dry_run"]) == ("delete", True)
    assert audited["counts"] == deleted(written, *arguments) == planned.report["counts"]
    operations = sorted(row["operation"] for row in written.own_rows("audit"))
    assert operations == ["delete", "delete", "delete started"]


@pytest.mark.long
def test_run_twice_has_nothing_to_do(written: Journal) -> None:
    deleted(written, "--persistence-id", "a|1", "--tag", "red")
    again = delete(written, "--persistence-id", "a|1", "--tag", "red")
    assert (again.status, again.report["state"]) == (0, "nothing-to-do")


@pytest.mark.long
def test_gaps_doubled_rows_and_unreadable_events_go_too(written: Journal) -> None:
    """Pekko's own tool fails here: it reads the tag as a stream, which ends at the first gap."""
    before = state(written)
    red = [row for row in tag_rows(three_ids(), 3_600_000) if row["tag_name"] == "red"]
    of_the_id = [row for row in red if row["persistence_id"] == "a|1"]
    doubled = {**of_the_id[1], "tag_pid_sequence_nr": 77}
    unreadable = {**of_the_id[2], "tag_pid_sequence_nr": 78, "event": None, "ser_id": None}
    written.insert("tag_views", [doubled, unreadable])
    lost = of_the_id[3]
    written.control.execute(
        f"DELETE FROM {written.keyspace}.tag_views"
        " WHERE tag_name = ? AND timebucket = ? AND timestamp = ? AND persistence_id = ?",
        [lost[key] for key in ("tag_name", "timebucket", "timestamp", "persistence_id")],
    )
    assert deleted(written, "--persistence-id", "a|1", "--tag", "red")["tag_rows_deleted"] == 7
    assert state(written) == without(before, {"a|1"}, {"red"})


@pytest.mark.long
def test_progress_and_scanning_may_be_lost(written: Journal) -> None:
    before = state(written)
    for name in ("tag_write_progress", "tag_scanning"):
        written.control.execute(f"TRUNCATE {written.keyspace}.{name}")
    assert deleted(written, "--persistence-id", "a|1") == {
        "tag_rows_deleted": 12,
        "progress_rows_deleted": 0,
        "scanning_rows_deleted": 0,
    }
    assert written.rows("tag_views") == without(before, {"a|1"}, {"red", "blue"})["tag_views"]


@pytest.mark.parametrize("tags", [("red",), ()])
def test_rows_of_events_that_are_deleted_from_messages_go_too(
    written: Journal, tags: tuple[str, ...]
) -> None:
    delete_messages(written, "a|1", to=7)
    before = state(written)
    options = [word for tag in tags for word in ("--tag", tag)]
    result = delete(written, "--persistence-id", "a|1", *options)
    assert "their first events are deleted from messages" in result.stdout
    assert state(written) == without(before, {"a|1"}, set(tags) or {"red", "blue"})


@pytest.mark.long
def test_id_whose_messages_and_metadata_are_all_gone(written: Journal) -> None:
    """Cleanup with neverUseAgain leaves only tag views, progress and scanning: no damage."""
    for row in written.rows("messages"):
        if row["persistence_id"] == "a|1":
            delete_message(written, row)
    before = state(written)
    check = written.run("reconcile", "check")
    assert (check.status, check.report["counts"]["findings"]) == (0, 0), check.stdout
    counted = {
        name: check.report["counts"][name] for name in ("removed_ids", "rows_of_deleted_events")
    }
    assert counted == {"removed_ids": 1, "rows_of_deleted_events": 12}
    assert written.run("reconcile", "repair", "--apply").report["state"] == "nothing-to-do"
    assert deleted(written, "--persistence-id", "a|1")["tag_rows_deleted"] == 12
    assert state(written) == without(before, {"a|1"}, {"red", "blue"})
    again = delete(written, "--persistence-id", "a|1")
    assert (again.status, len(again.error_lines)) == (2, 1)


def test_only_a_delete_that_searches_all_finds_rows_to_which_no_event_leads(
    written: Journal,
) -> None:
    before = state(written)
    own = next(row for row in tag_rows(three_ids(), 3_600_000) if row["persistence_id"] == "a|1")
    wrong_bucket = {**own, "timebucket": own["timebucket"] + 3 * 3_600_000}
    wrong_tag = {**own, "tag_name": "green"}
    written.insert("tag_views", [wrong_bucket, wrong_tag])
    deleted(written, "--persistence-id", "a|1")
    left = [row for row in written.rows("tag_views") if row["persistence_id"] == "a|1"]
    assert len(left) == 2
    result = delete(written, "--persistence-id", "a|1", "--search-all")
    assert result.report["counts"]["tag_rows_deleted"] == 2
    assert state(written) == without(before, {"a|1"}, {"red", "blue"})


@pytest.mark.long
def test_tag_delete_that_searches_all_resets_scanning_of_ids_without_progress(
    written: Journal,
) -> None:
    """Otherwise an actor with a snapshot would never tag the events before it again."""
    written.control.execute(f"TRUNCATE {written.keyspace}.tag_write_progress")
    planned = delete(written, "--tag", "red", apply=False)
    assert planned.report["counts"]["scanning_rows_deleted"] == 0
    assert deleted(written, "--tag", "red", "--search-all")["scanning_rows_deleted"] == 3
    assert written.rows("tag_scanning") == []


@pytest.mark.long
@pytest.mark.parametrize("configured", ["3", "2", "500000"])
def test_events_in_many_partitions_of_messages(
    make_journal: Callable[..., Journal], configured: str
) -> None:
    """Events are in the formula's partition or, in a large write group, in the next partition."""
    journal = make_journal(TARGET_PARTITION_SIZE=configured)
    write_as_pekko(journal, three_ids(lambda number: (number - 1) // 3 + number % 2))
    delete_messages(journal, "a|1", to=6)
    before = state(journal)
    deleted(journal, "--persistence-id", "a|1", "--persistence-id", "a|2", "--tag", "blue")
    assert state(journal) == without(before, {"a|1", "a|2"}, {"blue"})


@pytest.mark.long
def test_batches_of_long_ids_stay_below_the_servers_limit(journal: Journal) -> None:
    long = "x" * 2000
    events = [message(long, number, number / 1000, {"red"}) for number in range(1, 201)]
    write_as_pekko(journal, [*events, *three_ids()])
    before = state(journal)
    assert deleted(journal, "--persistence-id", long)["tag_rows_deleted"] == 200
    assert state(journal) == without(before, {long}, {"red"})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--persistence-id", "nobody"), "nobody"),
        (("--tag", "nothing"), "nothing"),
        (("--persistence-id", "a|1", "--tag", "nothing"), "nothing"),
        (("--persistence-id", "a|1", "--persistence-id", "nobody"), "nobody"),
        ((), "nothing to"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(
    written: Journal, arguments: tuple[str, ...], says: str
) -> None:
    before = state(written)
    result = delete(written, *arguments)
    assert result.status == 2
    [line] = result.error_lines
    assert says in line
    assert state(written) == before
