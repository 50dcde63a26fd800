"""Journals as Akka's plugin made them before 1.0, which Pekko's still reads.

Sources: the table of Pekko's EventsByTagMigrationSpec; its Extractors.scala for `tag1` to `tag3`
and `message` (docs/real-systems.md, "Older journals").
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.integration.project.projections import Projections
from tests.integration.support import Journal, Result
from tests.integration.tag_write.tags_and_messages import EVERY, EVERY_TABLE
from tests.integration.tag_write.test_tag_write import (
    comparable,
    expected_tag_views,
    message,
    window,
)
from tidemark.journals.pekko import frames
from tidemark.settings import Settings

pytestmark = pytest.mark.usefixtures("production")

PARTITION_SIZE = 5
OLD_MESSAGES = """
CREATE TABLE {keyspace}.messages (
    used boolean static, persistence_id text, partition_nr bigint, sequence_nr bigint,
    timestamp timeuuid, timebucket text, writer_uuid text, ser_id int, ser_manifest text,
    event_manifest text, event blob, meta_ser_id int, meta_ser_manifest text, meta blob,
    tag1 text, tag2 text, tag3 text, message blob, tags set<text>,
    PRIMARY KEY ((persistence_id, partition_nr), sequence_nr, timestamp, timebucket))
"""


def make_old(journal: Journal) -> Journal:
    """Replace messages by the table of the older plugin, after its migration added `tags`."""
    journal.control.execute_ddl(f"DROP TABLE {journal.keyspace}.messages")
    journal.control.execute_ddl(OLD_MESSAGES.format(keyspace=journal.keyspace))
    return journal


def use_partition(journal: Journal, pid: str, *partitions: int) -> None:
    """Write the static column, as the older plugin did with the first event of a partition."""
    journal.control.execute_many(
        f"UPDATE {journal.keyspace}.messages SET used = true"
        " WHERE persistence_id = ? AND partition_nr = ?",
        [(pid, partition) for partition in partitions],
    )


def old_event(pid: str, number: int, *old_tags: str, tags: frozenset[str] = frozenset()) -> Any:
    """Return an event, two an hour, with tags in the columns `tag1` to `tag3` and in `tags`."""
    columns = {f"tag{place}": tag for place, tag in enumerate(old_tags, start=1)}
    place = {"partition_nr": (number - 1) // PARTITION_SIZE}
    return message(pid, number, number * 0.5 - 0.25, set(tags), **columns, **place)


def with_all_tags(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events as a newer plugin would have written them."""
    newer = []
    for event in events:
        tags = {event.get(f"tag{place}") for place in (1, 2, 3)} | set(event["tags"] or ())
        row = {name: value for name, value in event.items() if not name.startswith("tag")}
        newer.append({**row, "tags": tags - {None}})
    return newer


OF_ALL_KINDS = [
    *[old_event("a|1", number, "red") for number in (1, 2, 3)],
    old_event("a|1", 4, "blue", "red", "grün ✓"),
    *[old_event("a|1", number, "red", tags=frozenset({"blue", "red"})) for number in range(5, 8)],
    *[old_event("a|1", number, tags=frozenset({"red"})) for number in range(8, 13)],
    *[old_event("untagged", number) for number in range(1, 13)],
    *[old_event("half", number, "red") for number in range(6, 13)],
]
"""Of `half`, the first partition is deleted."""


@pytest.fixture
def old_journal(make_journal: Callable[..., Journal]) -> Journal:
    """Return a journal of six hours with an index; two partitions have nothing but `used`."""
    journal = make_old(make_journal(TARGET_PARTITION_SIZE=str(PARTITION_SIZE)))
    journal.index_timestamps()
    journal.insert("messages", OF_ALL_KINDS)
    ids = ("a|1", "untagged", "half", "gone")
    journal.insert("all_persistence_ids", [{"persistence_id": pid} for pid in ids])
    deleted = [("half", 5), ("gone", 5)]
    journal.insert("metadata", [{"persistence_id": p, "deleted_to": n} for p, n in deleted])
    for pid in ("a|1", "untagged", "half"):
        use_partition(journal, pid, 0, 1, 2)
    use_partition(journal, "gone", 0)
    return journal


def succeeded(result: Result) -> Result:
    assert result.status == 0, result.stderr + result.stdout
    return result


def test_every_strategy_and_every_check_reads_an_older_table(old_journal: Journal) -> None:
    journal = old_journal
    for first, strategy in ((0, "scan"), (2, "tails"), (4, "index")):
        wrote = succeeded(
            journal.run("tag_write", *window(first, first + 2), "--strategy", strategy)
        )
        assert wrote.report["details"]["strategy"] == strategy
    expected = expected_tag_views(with_all_tags(OF_ALL_KINDS))
    assert comparable(journal.rows("tag_views")) == comparable(expected)
    written = journal.tag_tables()
    validated = succeeded(journal.run("validate", *window(0, 6)))
    assert validated.report["counts"]["messages_checked"] == len(OF_ALL_KINDS)
    checked = succeeded(journal.run("reconcile", "check"))
    assert checked.report["counts"]["messages_checked"] == len(OF_ALL_KINDS)
    both = ("--persistence-id", "a|1", "--persistence-id", "half")
    succeeded(journal.run("validate", *both))
    succeeded(journal.run("reconcile", "rebuild", *both, "--apply"))
    assert comparable(journal.rows("tag_views")) == comparable(written["tag_views"])


@pytest.mark.long
def test_what_has_nothing_left_but_a_static_column_has_no_events(
    old_journal: Journal, tmp_path: Path
) -> None:
    journal = old_journal
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.metadata WHERE persistence_id = 'gone'"
    )
    unknown = journal.run("reconcile", "check", "--persistence-id", "gone")
    assert "no such persistence id in messages: gone" in unknown.error_lines[0]
    projections = Projections(journal, tmp_path)
    projections.define(EVERY.replace("event:", "on-error: skip\nevent:"), EVERY_TABLE)
    projections.validated(*range(6))
    ran = succeeded(projections.run(0, 6))
    assert ran.report["pieces"]["done"] == 6
    moved = ("set-offset", "every", "--to", "1", "--apply", "--persistence-id")
    assert "the journal has no event of gone" in projections.manage(*moved, "gone").error_lines[0]
    succeeded(projections.manage(*moved, "a|1"))


@pytest.mark.long
def test_events_of_an_older_table_are_deleted_and_come_back(
    old_journal: Journal, tmp_path: Path
) -> None:
    """Two partitions go whole, of another a range; `used` comes back with the events."""
    journal = old_journal
    succeeded(journal.run("tag_write", *window(0, 6)))
    before = journal.rows("messages")
    (tmp_path / "projections").mkdir()
    settings = {"PROJECTIONS_DIR": str(tmp_path / "projections"), "SAVE_DIRS": str(tmp_path)}

    def clean_up(*arguments: str) -> Result:
        return succeeded(journal.run("cleanup", *arguments, "--apply", **settings))

    saving = ("--save-to", str(tmp_path / "saves"))
    deleted = clean_up("events-to", "--to", "11", "--persistence-id", "a|1", *saving)
    assert deleted.report["counts"]["events_deleted"] == 11
    assert deleted.report["counts"]["partitions_deleted"] == 2
    [left] = [row for row in journal.rows("messages") if row["persistence_id"] == "a|1"]
    assert left["sequence_nr"] == 12
    clean_up("restore", "--from", str(tmp_path / "saves"))
    assert comparable(journal.rows("messages")) == comparable(before)


HIDDEN = [
    *[message("p", number, number * 0.2, {"red"}) for number in range(1, 13)],
    *[message("q", number, number * 0.2, {"red"}) for number in range(1, 13)],
]
DELETED_TO = {"p": 1000, "q": 4}
"""Of p it is wrong; the delete of q was cut short."""


@pytest.fixture(scope="module")
def indexed(make_journals: Callable[..., Journal]) -> Journal:
    journal = make_journals()
    journal.index_timestamps()
    return journal


@pytest.fixture
def hidden(indexed: Journal) -> Journal:
    """Return the shared journal with the events of HIDDEN only."""
    tables = ("tag_views", "tag_write_progress", "tag_scanning", "messages", "metadata")
    own = ("tag_write_tail", "piece", "finding", "settled_finding")
    for keyspace, names in ((indexed.keyspace, tables), (indexed.own_keyspace, own)):
        for name in names:
            indexed.control.execute_ddl(f"TRUNCATE {keyspace}.{name}")
    indexed.insert("messages", HIDDEN)
    indexed.insert("all_persistence_ids", [{"persistence_id": pid} for pid in DELETED_TO])
    deleted = [{"persistence_id": pid, "deleted_to": to} for pid, to in DELETED_TO.items()]
    indexed.insert("metadata", deleted)
    return indexed


def rows_of(journal: Journal) -> list[tuple[str, int, int]]:
    names = ("persistence_id", "sequence_nr", "tag_pid_sequence_nr")
    return sorted(tuple(row[name] for name in names) for row in journal.rows("tag_views"))


@pytest.mark.parametrize(
    "strategy",
    ["tails", *(pytest.param(name, marks=pytest.mark.long) for name in ("scan", "index"))],
)
def test_no_strategy_tags_what_counts_as_deleted_and_one_finding_names_a_wrong_deleted_to(
    hidden: Journal, tmp_path: Path, strategy: str
) -> None:
    journal = hidden
    succeeded(journal.run("tag_write", *window(0, 3), "--strategy", strategy))
    of_q = [("q", number, number - 4) for number in range(5, 13)]
    assert rows_of(journal) == of_q
    validated = journal.run("validate", *window(0, 3))
    assert validated.status == 3, validated.stdout
    [finding] = journal.own_rows("finding")
    known = ("check_name", "persistence_id", "number", "expected", "severity")
    assert [finding[name] for name in known] == ["deleted_to_ahead", "p", 12, 1000, "blocks"]
    assert "set metadata.deleted_to to the last sequence nr that was deleted" in validated.stdout
    if strategy == "scan":
        checked = journal.run("reconcile", "check")
        assert checked.report["counts"]["findings"] == 1, checked.stdout
        succeeded(journal.run("reconcile", "rebuild", "--all", "--apply"))
        assert rows_of(journal) == of_q
        none = {"PROJECTIONS_DIR": str(tmp_path)}
        kept = succeeded(journal.run("cleanup", "deleted-events", "--apply", **none))
        assert kept.report["counts"]["events_deleted"] == 4
        assert "p: deleted_to is 1,000, beyond the last event 12" in kept.stdout
    # What the finding advises.
    journal.insert("metadata", [{"persistence_id": "p", "deleted_to": 2}])
    succeeded(journal.run("tag_write", *window(3, 4)))
    assert rows_of(journal) == [*[("p", number, number - 2) for number in range(3, 13)], *of_q]
    succeeded(journal.run("validate", *window(0, 3)))


@pytest.mark.long
def test_what_is_deleted_while_validate_reads_is_no_wrong_deleted_to(
    hidden: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The actor of p writes 13 and deletes all, after messages were read and before metadata."""
    journal = hidden
    journal.insert("metadata", [{"persistence_id": "p", "deleted_to": 2}])
    succeeded(journal.run("tag_write", *window(0, 3)))
    read = frames.deleted

    def delete(spark: SparkSession, settings: Settings, ids: DataFrame | None = None) -> DataFrame:
        journal.insert("messages", [message("p", 13, 3.5, {"red"})])
        journal.insert("metadata", [{"persistence_id": "p", "deleted_to": 13}])
        return read(spark, settings, ids)

    monkeypatch.setattr(frames, "deleted", delete)
    succeeded(journal.run("validate", *window(0, 3)))


TOO_LONG, LONGEST = "ü" * 32_761, "ü" * 32_760 + "x"
"""Of 65,522 bytes, and of the 65,521 that fit into a key of the tag views."""


@pytest.mark.long
def test_an_event_that_cannot_be_tagged_is_quarantined_and_the_rest_is_written(
    make_journal: Callable[..., Journal],
) -> None:
    journal = make_old(make_journal(TARGET_PARTITION_SIZE=str(PARTITION_SIZE)))
    of_0_6 = {"event": None, "message": b"a PersistentRepr", "ser_id": None}
    journal.insert(
        "messages",
        [
            old_event("p", 1, "red"),
            {**old_event("p", 2, "red"), **of_0_6},
            old_event("p", 3, tags=frozenset({"red", TOO_LONG})),
            old_event("p", 4, tags=frozenset({"red", LONGEST})),
            {**old_event("p", 5), **of_0_6},
        ],
    )
    result = succeeded(journal.run("tag_write", *window(0, 3)))
    assert result.report["counts"]["quarantined"] == 2
    assert set(rows_of(journal)) == {("p", 1, 1), ("p", 4, 1), ("p", 4, 2)}
    causes = {row["sequence_nr"]: row["cause"] for row in journal.own_rows("quarantine")}
    assert causes == {
        2: "no payload that can be copied: it is in the column `message`,"
        " which plugins before 0.7 wrote",
        3: "it has a tag of more than 65,521 bytes",
    }
    validated = journal.run("validate", *window(0, 3))
    found = {(row["check_name"], row["number"]) for row in journal.own_rows("finding")}
    assert found == {("unwritable_event", 2), ("unwritable_event", 3)}, validated.stdout
    checked = journal.run("reconcile", "check")
    assert checked.report["counts"]["unwritable_event"] == 2
    assert checked.report["counts"]["findings"] == 2
