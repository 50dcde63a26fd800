"""The application tag-write on a mostly done journal: it reads all new events and no others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame

from tests.integration.pekko_journals import delete_messages, write_as_pekko
from tests.integration.support import Journal, Result
from tests.integration.tag_write.test_tag_write import (
    START,
    comparable,
    expected_tag_views,
    message,
    window,
)
from tidemark.cassandra.schema import SCHEMA_DIR
from tidemark.journals.pekko.messages import increments
from tidemark.tag_write import plan, read


def insert(journal: Journal, messages: list[dict[str, Any]]) -> None:
    """Write messages and list their ids, as the plugin does."""
    journal.insert("messages", messages)
    ids = {row["persistence_id"] for row in messages}
    journal.insert("all_persistence_ids", [{"persistence_id": pid} for pid in ids])


def history() -> list[dict[str, Any]]:
    """Return two hours of a busy id, a quiet id and an id without tags."""
    busy = [message("busy", nr, 0.05 * nr, {"red", "blue"}) for nr in range(1, 31)]
    quiet = [message("quiet", nr, 0.1 * nr, {"red"}) for nr in (1, 2)]
    return [*busy, *quiet, message("plain", 1, 0.3, set())]


def news() -> list[dict[str, Any]]:
    """Return the third hour: the busy id goes on, a new one comes, quiet's last event is late."""
    busy = [message("busy", nr, 1.5 + 0.02 * nr, {"blue"}) for nr in range(31, 40)]
    fresh = [message("fresh", nr, 2.1 + 0.1 * nr, {"red"}) for nr in (1, 2, 3)]
    return [*busy, *fresh, message("quiet", 3, 0.25, {"red"})]


def snapshots(pid: str, first: int, last: int, hour: float) -> list[dict[str, Any]]:
    """Return events of an actor that deletes behind its snapshots; each third has a second tag."""
    return [
        message(pid, nr, hour + 0.01 * nr, {"red", "rare"} if nr % 3 == 0 else {"red"})
        for nr in range(first, last + 1)
    ]


@pytest.mark.parametrize(
    ("strategy", "news_share"), [("scan", 4), ("tails", 4), ("index", 4), ("index", 0)]
)
def test_every_strategy_writes_the_same_rows(
    journal: Journal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
    news_share: int,
) -> None:
    """New events, a new persistence id, a late last event, and ids with deleted messages.

    Pekko wrote the rows of `pekko` before the actor deleted messages that no run had seen; the
    messages of `ours` were never tagged. Afterwards Pekko writes no tags. One tag is by rule.
    With a share of 0 the tables are read by key, as after much history.
    """
    monkeypatch.setattr(plan, "NEWS_SHARE", news_share)
    (tmp_path / "last.sql").write_text(
        "/*---\ntag: last\nevent: x INT\n---*/\npersistence_id = 'quiet' AND sequence_nr > 1\n"
    )

    def run(first: int, end: int, *options: str) -> Result:
        result = journal.run("tag_write", *window(first, end), *options, TAGGING_DIR=str(tmp_path))
        assert result.status == 0, result.stderr
        return result

    if strategy == "index":
        journal.index_timestamps()
    pekko, ours = snapshots("pekko", 1, 34, 1.0), snapshots("ours", 1, 34, 1.0)
    insert(journal, [*history(), *ours[:10]])
    journal.insert("all_persistence_ids", [{"persistence_id": "pekko"}])
    write_as_pekko(journal, pekko[:10])
    first = run(0, 2)
    assert "strategy: scan, nothing is known of this journal yet" in first.stdout
    assert first.report["details"]["strategy"] == "scan"
    assert first.report["details"]["strategy_reason"] == "nothing is known of this journal yet"

    insert(journal, [*news(), *(later := snapshots("ours", 11, 25, 2.0))])
    write_as_pekko(journal, pekko_rows := [*pekko[:10], *snapshots("pekko", 11, 25, 2.0)])
    for pid in ("pekko", "ours"):
        delete_messages(journal, pid, 20)
    second = run(2, 3, "--strategy", strategy)
    assert f"strategy: {strategy}" in second.stdout
    assert second.report["details"]["strategy"] == strategy
    assert second.report["details"]["strategy_reason"] == "asked for"
    assert second.report["counts"]["late_tag_rows"] == 2
    assert second.report["counts"]["deleted_unseen"] == 10
    assert "10 messages were deleted before they were seen: they are never tagged" in second.stdout

    insert(journal, more := [m for pid in ("pekko", "ours") for m in snapshots(pid, 26, 34, 3.0)])
    third = run(3, 4, "--strategy", strategy)
    assert third.report["counts"]["deleted_unseen"] == 0
    by_rule = [
        {**m, "tags": {*m["tags"], "last"}} if m in (history()[31], news()[-1]) else m
        for m in [*history(), *news()]
    ]
    remaining = [m for m in [*ours[:10], *later, *more] if not 10 < m["sequence_nr"] <= 20]
    pekko_rows = [*pekko_rows, *(m for m in more if m["persistence_id"] == "pekko")]
    expected = [m for m in remaining if m["persistence_id"] == "ours"]
    assert comparable(journal.rows("tag_views")) == comparable(
        expected_tag_views([*by_rule, *expected, *pekko_rows])
    )
    ends = {row["persistence_id"]: row["sequence_nr"] for row in journal.rows("tag_scanning")}
    assert ends == {"busy": 39, "quiet": 3, "plain": 1, "fresh": 3, "pekko": 34, "ours": 34}


def test_an_id_that_was_deleted_and_numbered_anew_by_its_actor_is_no_contradiction(
    journal: Journal,
) -> None:
    """After `reconcile delete`, Pekko numbers the events that are left of the id from 1."""
    insert(journal, events := snapshots("p", 1, 30, 0.0))
    assert journal.run("tag_write", *window(0, 1)).status == 0
    delete_messages(journal, "p", 20)
    deleted = journal.run("reconcile", "delete", "--persistence-id", "p", "--apply")
    assert deleted.status == 0, deleted.stderr
    write_as_pekko(journal, events[20:])
    insert(journal, snapshots("p", 31, 33, 1.0))
    result = journal.run("tag_write", *window(1, 2), "--strategy", "tails")
    assert result.status == 0, result.stderr
    numbers = {
        row["sequence_nr"]: row["tag_pid_sequence_nr"]
        for row in journal.rows("tag_views")
        if row["tag_name"] == "red"
    }
    assert numbers == {nr: nr - 20 for nr in range(21, 34)}


@pytest.mark.long
def test_rows_are_found_across_partitions(journal: Journal) -> None:
    """A partition has three events; a write group is stored in the partition of its last event."""
    insert(
        journal,
        [message("p", nr, 0.1 * nr, {"t"}, partition_nr=(nr - 1) // 3) for nr in range(1, 6)],
    )
    options = {"TARGET_PARTITION_SIZE": "3"}
    assert journal.run("tag_write", *window(0, 1), **options).status == 0
    group = [message("p", nr, 1 + 0.05 * nr, {"t"}, partition_nr=2) for nr in (6, 7, 8)]
    rest = [message("p", nr, 1.5 + 0.01 * nr, {"t"}, partition_nr=(nr - 1) // 3) for nr in (9, 10)]
    insert(journal, [*group, *rest])
    result = journal.run("tag_write", *window(1, 2), "--strategy", "tails", **options)
    assert result.status == 0, result.stderr
    numbers = {row["sequence_nr"]: row["tag_pid_sequence_nr"] for row in journal.rows("tag_views")}
    assert numbers == {nr: nr for nr in range(1, 11)}


def numbers_of(journal: Journal, pid: str) -> dict[int, int]:
    """Return the numbers of an id's rows by sequence nr."""
    return {
        row["sequence_nr"]: row["tag_pid_sequence_nr"]
        for row in journal.rows("tag_views")
        if row["persistence_id"] == pid
    }


def test_a_lost_event_hides_none_of_those_after_it(journal: Journal) -> None:
    """The lost event is the next one after the tail."""
    insert(journal, [message("p", nr, 0.1 * nr, {"t"}) for nr in range(1, 6)])
    assert journal.run("tag_write", *window(0, 1)).status == 0
    insert(journal, [message("p", nr, 1 + 0.01 * nr, {"t"}) for nr in (7, 8, 9)])
    result = journal.run("tag_write", *window(1, 2), "--strategy", "tails")
    assert result.status == 0, result.stderr
    assert numbers_of(journal, "p") == {**{nr: nr for nr in range(1, 6)}, 7: 6, 8: 7, 9: 8}


@pytest.mark.long
def test_a_front_that_expired_hides_none_of_the_events_after_it(journal: Journal) -> None:
    """Five partitions are empty, metadata has no row, and the tail was forgotten."""
    events = [message("p", nr, 0.05 * nr, {"t"}, partition_nr=(nr - 1) // 2) for nr in range(1, 13)]
    insert(journal, [*events, message("q", 1, 0.1, {"t"})])
    options = {"TARGET_PARTITION_SIZE": "2"}
    assert journal.run("tag_write", *window(0, 1), **options).status == 0
    journal.control.execute(
        f"DELETE FROM {journal.own_keyspace}.tag_write_tail"
        f" WHERE journal_keyspace = '{journal.keyspace}' AND persistence_id = 'p'"
    )
    for partition in range(5):
        journal.control.execute(
            f"DELETE FROM {journal.keyspace}.messages"
            f" WHERE persistence_id = 'p' AND partition_nr = {partition}"
        )
    insert(journal, [message("p", 13, 1.5, {"t"}, partition_nr=6)])
    result = journal.run("tag_write", *window(1, 2), "--strategy", "tails", **options)
    assert result.status == 0, result.stderr
    assert numbers_of(journal, "p") == {nr: nr for nr in range(1, 14)}


def test_an_id_that_only_the_index_knows_is_tagged(journal: Journal) -> None:
    journal.index_timestamps()
    insert(journal, [message("known", nr, 0.01 * nr, {"t"}) for nr in range(1, 31)])
    assert journal.run("tag_write", *window(0, 1)).status == 0
    journal.insert("messages", [message("unlisted", nr, 1.1 * nr, {"t"}) for nr in (1, 2)])
    result = journal.run("tag_write", *window(1, 3), "--strategy", "index")
    assert result.status == 0, result.stderr
    assert numbers_of(journal, "unlisted") == {1: 1, 2: 2}


@pytest.mark.parametrize("strategy", ["tails", "index"])
def test_a_run_reads_little_more_than_its_window(journal: Journal, strategy: str) -> None:
    if strategy == "index":
        journal.index_timestamps()
    insert(journal, [message("p", nr, 0.01 * nr, {"t"}) for nr in range(1, 951)])
    insert(journal, [message("q", nr, 0.1 * nr, {"t"}) for nr in range(1, 96)])
    assert journal.run("tag_write", *window(0, 1)).status == 0
    read: list[int] = []

    def counted(*arguments: Any, **options: Any) -> DataFrame:
        messages = after(*arguments, **options)
        read.append(messages.count())
        return messages

    after = increments.after
    with patch.object(increments, "after", counted):
        result = journal.run("tag_write", *window(1, 3), "--strategy", strategy)
    assert result.status == 0, result.stderr
    assert result.report["counts"]["events_read"] == 220
    assert 220 <= read[0] <= 1.25 * 220 + 2 * 16


@pytest.mark.long
@pytest.mark.parametrize("size", ["1", "500000"])
def test_another_partition_size_than_that_of_the_messages_is_refused(
    journal: Journal, size: str
) -> None:
    """A run would ask the wrong partitions; a rebuild would delete rows and write none."""
    messages = [message("p", nr, 0.1 * nr, {"t"}, partition_nr=(nr - 1) // 3) for nr in range(1, 9)]
    write_as_pekko(journal, messages)
    written = journal.rows("tag_views")
    for command in (
        ("tag_write", *window(0, 1)),
        ("reconcile", "rebuild", "--persistence-id", "p", "--apply"),
    ):
        refused = journal.run(*command, TARGET_PARTITION_SIZE=size)
        assert (refused.status, len(refused.error_lines)) == (2, 1)
        assert f"target partition size {size} is not that of the messages" in refused.stderr
    assert journal.rows("tag_views") == written


@pytest.mark.long
def test_ids_that_are_not_listed_are_looked_at(journal: Journal) -> None:
    """This holds with as many ids listed as known; an id cleaned up for good is not missed."""
    old = [message("old", nr, 4 + 0.001 * nr, {"t"}) for nr in range(1, 41)]
    journal.insert("messages", old)
    insert(journal, listed := [message("a", nr, 0.01 * nr, {"t"}) for nr in range(1, 41)])
    insert(journal, gone := [message("gone", nr, 0.01 * nr, {"t"}) for nr in range(1, 41)])
    assert journal.run("tag_write", *window(0, 1)).status == 0
    newest = [message("old", 41, 1.5, {"t"}), message("a", 41, 1.5, {"t"})]
    journal.insert("messages", newest)
    second = journal.run("tag_write", *window(1, 2))
    assert second.status == 0, second.stderr
    assert "all_persistence_ids does not list every persistence id" in second.stdout
    assert comparable(journal.rows("tag_views")) == comparable(
        [
            row
            for row in expected_tag_views([*listed, *gone, *old, *newest])
            if (row["persistence_id"], row["sequence_nr"]) not in {("old", nr) for nr in range(41)}
        ]
    )

    # Cleanup with neverUseAgain has run, and the old id is listed now.
    delete_messages(journal, "gone", 40)
    for name in ("metadata", "all_persistence_ids"):
        journal.control.execute(
            f"DELETE FROM {journal.keyspace}.{name} WHERE persistence_id = 'gone'"
        )
    journal.insert("all_persistence_ids", [{"persistence_id": "old"}])
    assert "strategy: tails" in journal.run("tag_write", *window(2, 3)).stdout
    assert journal.run("tag_write", *window(3, 5)).status == 0
    assert comparable(journal.rows("tag_views")) == comparable(
        expected_tag_views([*listed, *gone, *old, *newest])
    )


@pytest.mark.parametrize("lost", ["tag_write_progress", "tag_scanning"])
def test_numbering_goes_on_when_one_table_of_ours_was_lost(journal: Journal, lost: str) -> None:
    insert(journal, history())
    assert journal.run("tag_write", *window(0, 2)).status == 0
    journal.control.execute_ddl(f"TRUNCATE {journal.keyspace}.{lost}")
    insert(journal, news())
    result = journal.run("tag_write", *window(2, 3), "--strategy", "tails")
    assert result.status == 0, result.stderr
    assert comparable(journal.rows("tag_views")) == comparable(
        expected_tag_views([*history(), *news()])
    )


@pytest.mark.long
def test_truncated_tag_tables_are_counted_anew(journal: Journal) -> None:
    """Emptied tables, as Pekko's Reconciliation leaves them, void the stored numbers."""
    insert(journal, history())
    assert journal.run("tag_write", *window(0, 2)).status == 0
    for name in ("tag_views", "tag_write_progress", "tag_scanning"):
        journal.control.execute_ddl(f"TRUNCATE {journal.keyspace}.{name}")
    insert(journal, news())
    result = journal.run("tag_write", *window(2, 3), "--strategy", "tails")
    assert "strategy: scan, nothing is known of this journal yet" in result.stdout
    assert comparable(journal.rows("tag_views")) == comparable(
        expected_tag_views([*history(), *news()])
    )


@pytest.mark.long
def test_tags_whose_progress_disagrees_are_found_by_tails(journal: Journal) -> None:
    insert(journal, history())
    assert journal.run("tag_write", *window(0, 2)).status == 0
    journal.control.execute(
        f"UPDATE {journal.keyspace}.tag_write_progress SET tag_pid_sequence_nr = 77"
        " WHERE persistence_id = 'quiet' AND tag = 'red'"
    )
    insert(journal, news())
    result = journal.run("tag_write", *window(2, 3), "--strategy", "tails")
    assert result.status == 3
    assert "quiet tag red: progress says tag pid sequence nr 77" in result.error_lines[0]
    assert {row["persistence_id"] for row in journal.rows("tag_views")} >= {"busy", "fresh"}


@pytest.mark.long
@pytest.mark.parametrize("many_keys", [read.MANY_KEYS, 0], ids=["by key", "by a scan"])
def test_lost_progress_of_an_id_with_deleted_messages_is_read_from_its_rows(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, many_keys: int
) -> None:
    """Counting the remaining events from 1 would write every event a second time."""
    monkeypatch.setattr(read, "MANY_KEYS", many_keys)
    messages = [message("p", nr, 0.1 * nr, {"t"}) for nr in range(1, 8)]
    insert(journal, messages[:5])
    assert journal.run("tag_write", *window(0, 1)).status == 0
    for name in ("tag_write_progress", "tag_scanning"):
        journal.control.execute_ddl(f"TRUNCATE {journal.keyspace}.{name}")
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.messages"
        " WHERE persistence_id = 'p' AND partition_nr = 0 AND sequence_nr <= 3"
    )
    insert(journal, messages[5:])
    assert journal.run("tag_write", *window(0, 1), "--force").status == 0
    numbers = [
        (row["sequence_nr"], row["tag_pid_sequence_nr"]) for row in journal.rows("tag_views")
    ]
    assert sorted(numbers) == [(nr, nr) for nr in range(1, 8)]


def test_buckets_within_reach_of_live_readers_are_left_for_later(
    make_journal: Callable[..., Journal],
) -> None:
    """A reader that has not met the id would demand its older rows there, and fail."""
    journal = make_journal(BUCKET_SIZE="Minute")
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    just_ended = [(minute - timedelta(minutes=back)).isoformat() for back in (1, 0)]
    options = ("--window-start", just_ended[0], "--window-end", just_ended[1])
    no_delay = {"EVENTS_BY_TAG_EVENTUAL_CONSISTENCY_DELAY": "0"}
    in_reach = (minute - timedelta(seconds=30) - START) / timedelta(hours=1)
    insert(journal, [message("p", number, in_reach, {"t"}) for number in (1, 2)])
    left = journal.run("tag_write", *options, **no_delay)
    assert (left.status, left.report["state"]) == (0, "nothing-to-do"), left.stderr
    assert "left for later: live readers may still look back at them" in left.stdout
    assert [row["state"] for row in journal.own_rows("piece")] == ["planned"]
    assert not any(journal.tag_tables().values())
    forced = journal.run("tag_write", *options, "--force", **no_delay)
    assert forced.status == 0, forced.stderr
    assert [row["state"] for row in journal.own_rows("piece")] == ["done"]
    assert [row["tag_pid_sequence_nr"] for row in journal.rows("tag_views")] == [1, 2]


def test_window_inside_the_eventual_consistency_delay_is_refused(journal: Journal) -> None:
    ten_years = str(10 * 365 * 86_400)
    options = {"EVENTS_BY_TAG_EVENTUAL_CONSISTENCY_DELAY": ten_years}
    result = journal.run("tag_write", *window(0, 1), **options)
    assert result.status == 2
    assert "--window-end" in result.error_lines[0]


@pytest.mark.long
def test_rows_live_as_long_as_asked_for(journal: Journal) -> None:
    insert(journal, [message("p", 1, 0.1, {"t"})])
    assert journal.run("tag_write", *window(0, 1), EVENTS_BY_TAG_TIME_TO_LIVE="9999").status == 0
    (row,) = journal.control.execute(f"SELECT ttl(event) AS left FROM {journal.keyspace}.tag_views")
    assert 9000 < row["left"] <= 9999


@pytest.mark.long
def test_tables_of_other_names_are_used(journal: Journal) -> None:
    """As `journal.table` and `events-by-tag.table` may name them in the plugin's configuration."""
    text = (SCHEMA_DIR / "pekko.cql").read_text()
    names = {"messages": "journal_2", "tag_views": "views_2"}
    for old, new in names.items():
        statement = text[text.index(f"CREATE TABLE IF NOT EXISTS ${{keyspace}}.{old} ") :]
        statement = statement[: statement.index(";")].replace(f".{old} ", f".{new} ")
        journal.control.execute_ddl(statement.replace("${keyspace}", journal.keyspace))
    events = [message("p", nr, 0.1 * nr, {"t"}) for nr in (1, 2)]
    journal.insert("journal_2", events)
    options = {"JOURNAL_TABLE": "journal_2", "EVENTS_BY_TAG_TABLE": "views_2"}
    result = journal.run("tag_write", *window(0, 1), **options)
    assert result.status == 0, result.stderr
    assert comparable(journal.rows("views_2")) == comparable(expected_tag_views(events))
    assert journal.rows("tag_views") == []
