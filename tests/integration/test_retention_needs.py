"""What purge must leave, of a journal that real projections have read in part."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.integration.contexts import context
from tests.integration.projections import (
    FILES,
    LATEST,
    LATEST_TABLE,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    event,
)
from tidemark.retention.needs.events import EventNeeds, needed
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
