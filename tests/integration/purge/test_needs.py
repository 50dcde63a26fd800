"""What purge must leave, of a journal that real projections have read in part."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.contexts import context
from tests.integration.project.projections import (
    FILES,
    LATEST,
    LATEST_TABLE,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    event,
)
from tests.java_hash import java_hash
from tidemark.purge.needs.events import EventNeeds, needed
from tidemark.spark.local_rows import local_rows

SOME = TOTALS.replace("{tags: [red, blue]}", "{persistence-ids: [a|1]}")


def needs(projections: Projections, *given_up: str) -> EventNeeds:
    names = [("a|1",), ("b|1",), ("never|1",), ("a|1",)]
    ids = local_rows(SparkSession.active(), names, "persistence_id string")
    run = context(
        projections.journal, PROJECTIONS_DIR=str(projections.directory), PROJECT_LOOK_BACK="0"
    )
    return needed(run, ids, given_up)


def by_id(found: EventNeeds) -> dict[str, tuple[int, str]]:
    rows = found.per_id.collect()
    return {row.persistence_id: (row.needed_from, row.reader) for row in rows}


def test_what_each_kind_of_reader_still_needs(projections: Projections) -> None:
    projections.insert_messages(
        event("a|1", 1, 0.1, kind="in", amount=1),
        event("a|1", 2, 1.1, kind="in", amount=1),
        event("a|1", 3, 2.1, kind="in", amount=1),
        event("b|1", 1, 0.2, kind="in", amount=1),
    )
    # Nobody reads the journal.
    assert by_id(needs(projections)) == {}
    # Nobody has run: from the first event on, or from the first in the projection's buckets.
    late = LATEST.replace("mode:", "from: 2024-03-01T01:00Z\nmode:")
    projections.define(late, LATEST_TABLE, "latest.sql")
    assert by_id(needs(projections)) == {
        "a|1": (2, "latest"),
        "b|1": (2, "latest"),
        "never|1": (1, "latest"),
    }
    projections.define(LATEST, file="latest.sql")
    projections.validated(0, 1)
    assert projections.run(0, 2).status == 0
    assert by_id(needs(projections)) == {
        "a|1": (3, "latest"),
        "b|1": (2, "latest"),
        "never|1": (1, "latest"),
    }
    # A changed definition reads the time buckets again that it has done; pausing changes nothing.
    projections.define(LATEST.replace("version: 1", "version: 2"), file="latest.sql")
    assert projections.manage("pause", "latest").status == 0
    assert by_id(needs(projections)) == {
        "a|1": (1, "latest"),
        "b|1": (1, "latest"),
        "never|1": (1, "latest"),
    }
    projections.define(LATEST, file="latest.sql")
    assert projections.manage("resume", "latest").status == 0

    # A mode that replaces time buckets: of the whole one in which an event may be late.
    projections.define(FILES, file="files.sql")
    (projections.directory / "latest.sql").rename(projections.directory / "latest.txt")
    projections.journal.environment = {
        **projections.journal.environment,
        "TIDEMARK_EXPORT_DIR": str(projections.directory / "exported"),
    }
    assert projections.run(0, 2).status == 0
    assert by_id(needs(projections))["a|1"] == (3, "files")
    projections.insert_messages(event("b|1", 2, 1.9, kind="in", amount=1))
    found = needs(projections, "latest")
    assert by_id(found) == {"a|1": (2, "files"), "b|1": (2, "files"), "never|1": (1, "files")}
    assert found.everything == ()

    # latest has run and has no file: what it reads is unknown.
    (line,) = needs(projections).everything
    assert line.startswith("latest holds back what it is not done with: it has run, but has no")


def test_only_the_persistence_ids_of_a_source_are_needed(projections: Projections) -> None:
    projections.insert_messages(
        event("a|1", 1, 0.1, kind="in", amount=1), event("b|1", 1, 0.2, kind="in", amount=1)
    )
    projections.define(SOME, TOTALS_TABLE)
    assert by_id(needs(projections)) == {"a|1": (1, "totals")}
    # tag-write has come to a|1 only.
    projections.journal.insert("tag_scanning", [{"persistence_id": "a|1", "sequence_nr": 1}])
    projections._note("tag-write", "done", 0)
    assert by_id(needs(projections)) == {
        "a|1": (1, "totals"),
        "b|1": (1, "tag-write"),
        "never|1": (1, "tag-write"),
    }


def uuid_at(hours: float) -> uuid.UUID:
    return event("x|1", 0, hours).timestamp


def register(projections: Projections, reader: str, **columns: Any) -> None:
    """Register a reader as docs/readers.md says."""
    row = {"name": "", "persistence_id": "", "updated_at": datetime.now(UTC), **columns}
    row |= {"journal_keyspace": projections.journal.keyspace, "reader": reader}
    marks = ", ".join("?" * len(row))
    projections.journal.control.execute(
        f"INSERT INTO {projections.journal.own_keyspace}.external_reader"
        f" ({', '.join(row)}) VALUES ({marks})",
        list(row.values()),
    )


@pytest.mark.long
def test_registered_readers_of_messages(projections: Projections) -> None:
    needs(projections)  # makes the tables
    projections.insert_messages(
        *(event("a|1", number, number - 0.5, kind="in", amount=1) for number in range(1, 6)),
        event("b|1", 1, 0.2, kind="in", amount=1),
    )
    register(projections, "by-time", source="messages", offset=uuid_at(3.1))
    # Its bucket and the one before are read again; of b|1 only what comes next.
    assert by_id(needs(projections)) == {
        "a|1": (3, "by-time"),
        "b|1": (2, "by-time"),
        "never|1": (1, "by-time"),
    }
    register(projections, "one", source="messages", persistence_id="a|1", sequence_nr=1)
    assert by_id(needs(projections))["a|1"] == (2, "one")
    found = needs(projections, "by-time")
    assert by_id(found) == {"a|1": (2, "one")}
    assert (found.everything, found.notices) == ((), ())

    register(projections, "one", source="messages", persistence_id="a|1", sequence_nr=None)
    register(projections, "silent", source="messages")
    register(projections, "odd", source="tags", name="red")
    old = datetime(2024, 1, 1, tzinfo=UTC)
    register(projections, "by-time", source="messages", offset=uuid_at(3.1), updated_at=old)
    found = needs(projections)
    assert by_id(found)["a|1"] == (1, "one")
    assert [line.partition(";")[0] for line in found.everything] == [
        "odd holds back all of everything: its source is none of tag, messages, topic, nothing",
        "silent holds back all of messages: it has registered no offset of its kind",
    ]
    assert [line.partition(";")[0] for line in found.notices] == [
        "by-time holds back messages and has not moved since 2024-01-01T00:00:00Z",
        "one holds back all of messages of a|1: it has registered no offset of its kind",
    ]


def pekko_offsets(projections: Projections, *rows: tuple[str, str, str, str]) -> None:
    """Write Pekko's offset store as its dialect of Cassandra does, into the journal's keyspace."""
    name = f"{projections.journal.keyspace}.offset_store"
    projections.journal.control.execute_ddl(
        f"CREATE TABLE IF NOT EXISTS {name} (projection_name text, partition int,"
        " projection_key text, offset text, manifest text, last_updated timestamp,"
        " PRIMARY KEY ((projection_name, partition), projection_key))"
    )
    for projection, key, offset, manifest in rows:
        projections.journal.control.execute(
            f"INSERT INTO {name} (projection_name, partition, projection_key, offset, manifest,"
            " last_updated) VALUES (?, ?, ?, ?, ?, ?)",
            (projection, abs(java_hash(key)) % 5, key, offset, manifest, datetime.now(UTC)),
        )


def test_readers_of_tags_bound_purge_until_they_are_given_up(projections: Projections) -> None:
    journal = projections.journal
    journal.environment = {
        **journal.environment,
        "TIDEMARK_PROJECTIONS_DIR": str(projections.directory),
        "TIDEMARK_PEKKO_PROJECTION_KEYSPACE": journal.keyspace,
    }
    needs(projections)  # makes the tables
    projections.insert(
        *(event("a|1", number, number - 0.5, "red", kind="in") for number in range(1, 7)),
        event("a|1", 7, 6.5, "blue", kind="in"),
    )

    def planned() -> tuple[int, str]:
        result = journal.run("purge")
        assert result.status == 0, result.stderr
        return result.report["pieces"]["planned"], result.stdout

    assert planned()[0] == 7
    pekko_offsets(
        projections,
        ("carts", "red", str(uuid_at(4.5)), "TBU"),
        ("other", "nowhere", str(uuid_at(0)), "TBU"),
    )
    number, shown = planned()
    # Bucket 4 is that of the offset, and 3 is the one before.
    assert number == 3
    assert "keep 4 time buckets: needed by carts" in shown
    assert "other of Pekko's offset store holds nothing back: its key 'nowhere' is no tag" in shown

    register(projections, "search", source="tag", name="blue")
    number, shown = planned()
    assert number == 3
    assert "search holds back all of tag blue: it has registered no offset of its kind" in shown
    register(projections, "search", source="tag", name="red", offset=uuid_at(2.2))
    assert planned()[0] == 1
    # A Pekko projection under another key, and one whose offset is not there.
    register(projections, "late", source="tag", name="red", pekko_projection="nothing-is-stored")
    assert planned()[0] == 0
    assert "Pekko's offset store has no key 'red' of projection nothing-is-stored" in planned()[1]

    assert journal.run("purge", "--give-up", "nobody").status == 2
    names = ("--give-up", "late", "--give-up", "search", "--give-up", "carts")
    result = journal.run("purge", *names, "--apply")
    assert result.status == 0, result.stderr
    assert result.report["counts"]["buckets_purged"] == 7
    [audited] = [row for row in journal.own_rows("audit") if row["operation"] == "purge started"]
    assert "gives up the reader carts of tag red" in audited["plan"]
    rows = {(row["reader"], row["source"]) for row in journal.own_rows("external_reader")}
    assert rows == {("carts", "nothing")}
