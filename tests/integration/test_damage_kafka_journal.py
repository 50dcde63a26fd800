"""kafka-journal's tables, broken in every named way at once: each is found where it is, only there.

One journal for each way, beside healthy ones; validate looks at all of them in one run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.replicate.replicator import (
    LAST,
    SIZE,
    TOPIC,
    Replicator,
    record_id,
    segment_of,
)
from tests.integration.support import Journal, Result
from tests.integration.tag_write.test_tag_write import START, message, window
from tidemark.validate.no_time_bucket import NO_TIME_BUCKET

Way = Callable[[Replicator, str], None]
Found = tuple[str, int, int | None]


@dataclass(frozen=True)
class Damage:
    """A way to break a journal, and what is found then: (check, number, expected)."""

    way: Way
    found: set[Found]


def lost(*numbers: int) -> Way:
    return lambda tables, key: tables.no_events(key, numbers)


def head(**columns: Any) -> Way:
    return lambda tables, key: tables.head(key, **columns)


def no_head(tables: Replicator, key: str) -> None:
    tables.no_head(key)


def moved_head(tables: Replicator, key: str) -> None:
    tables.no_head(key)
    tables.head(key, segment=segment_of(key) + 1)


def moved_event(tables: Replicator, key: str) -> None:
    tables.no_events(key, [5])
    tables.events(key, [5], segment=7)


def second_writer(tables: Replicator, key: str) -> None:
    tables.events(
        key, [4], timestamp=START, origin="host-2", offset=41, meta_record_id=record_id(key, 1)
    )


def earlier_life(tables: Replicator, key: str) -> None:
    tables.no_events(key, [2, 3])
    tables.events(key, [2, 3], meta_record_id=record_id(key, 0))


def deleted_beyond(tables: Replicator, key: str) -> None:
    tables.no_events(key, range(1, LAST + 1))
    tables.head(key, delete_to=9)


def lower_append(tables: Replicator, key: str) -> None:
    """Append 5 once more behind 7: the head goes down to 5, and what it was stays."""
    tables.no_events(key, [5])
    tables.events(key, [5], offset=80)
    tables.head(key, seq_nr=5, offset=80)


DAMAGES: Mapping[str, Damage] = {
    "the head is lost": Damage(no_head, {("kafka_events_without_head", 1, None)}),
    "the head is in a segment of its own": Damage(
        moved_head,
        {
            (
                "kafka_head_in_wrong_segment",
                segment_of("the head is in a segment of its own") + 1,
                segment_of("the head is in a segment of its own"),
            )
        },
    ),
    "a head by each formula": Damage(
        head(segment=segment_of("a head by each formula", 100)),
        {
            (
                "kafka_two_heads",
                segment_of("a head by each formula", 100),
                segment_of("a head by each formula"),
            )
        },
    ),
    "an event in a wrong segment": Damage(moved_event, {("kafka_event_in_wrong_segment", 5, None)}),
    "a crash before the head": Damage(
        head(seq_nr=5, offset=50), {("kafka_events_behind_head", 6, 5)}
    ),
    "an append with lower numbers": Damage(lower_append, {("kafka_seq_nr_went_down", 6, 5)}),
    "the last events are lost": Damage(lost(6, 7), {("kafka_lost_tail", 5, 7)}),
    "all events are lost": Damage(lost(*range(1, LAST + 1)), {("kafka_lost_tail", 0, 7)}),
    "events of an earlier life": Damage(earlier_life, {("kafka_foreign_events", 2, None)}),
    "two writers": Damage(second_writer, {("kafka_duplicate_seq_nr", 4, 4)}),
    "an event is lost": Damage(lost(5), {("kafka_seq_nr_gap", 6, 5)}),
    "the first event is lost": Damage(lost(1), {("kafka_seq_nr_gap", 2, 1)}),
    # What lies next after 2 is in segment 0, where a reader finds nothing more.
    "a gap across the end of a segment": Damage(lost(3), {("kafka_hidden_events", 4, 3)}),
    "a whole segment is lost": Damage(lost(4, 5, 6), {("kafka_hidden_events", 7, 4)}),
    "a crash within a delete": Damage(head(delete_to=2), {("kafka_undeleted_events", 1, 3)}),
    "deleted beyond the end": Damage(
        deleted_beyond,
        {("kafka_delete_to_beyond_seq_nr", 9, 7)},
    ),
}


def deleted_to_4(tables: Replicator, key: str) -> None:
    tables.head(key, delete_to=4)
    tables.no_events(key, range(1, 5))


def deleted_all(tables: Replicator, key: str) -> None:
    tables.head(key, delete_to=LAST)
    tables.no_events(key, range(1, LAST + 1))


def of_old_release(tables: Replicator, key: str) -> None:
    tables.no_head(key)
    tables.head(key, segment=segment_of(key, 100))


HEALTHY: Mapping[str, Way] = {
    "whole": lambda tables, key: None,
    "Größer ist NICHT kleiner": lambda tables, key: None,
    "the first events are deleted": deleted_to_4,
    "all events are deleted": deleted_all,
    "its head is where old releases put it": of_old_release,
}


@dataclass(frozen=True)
class Look:
    """What a run of validate has found by journal, and how it ended."""

    journal: Journal
    result: Result
    found: Mapping[str, set[Found]]

    def run(self, *options: str) -> Result:
        """Run validate once more."""
        keyspace = self.journal.keyspace
        return self.journal.run(
            "validate", *window(0, 2), *options, KAFKA_JOURNAL_KEYSPACE=keyspace
        )


def found_in(journal: Journal) -> Mapping[str, set[Found]]:
    """Return what the table `finding` has of kafka-journal, by journal."""
    found: Mapping[str, set[Found]] = defaultdict(set)
    for row in journal.own_rows("finding"):
        assert (row["layer"], row["tag"]) == ("kafka_journal", TOPIC)
        assert row["time_bucket"] == NO_TIME_BUCKET
        found[row["persistence_id"]].add((row["check_name"], row["number"], row["expected"]))
    return found


@pytest.fixture(scope="module")
def look(make_journals: Callable[..., Journal], tmp_path_factory: pytest.TempPathFactory) -> Look:
    """Return what is found where every journal but the healthy is broken; Pekko's is whole."""
    journal = make_journals(DATA_DOCS_DIR=str(tmp_path_factory.mktemp("damage") / "docs"))
    journal.insert("messages", [message("a", 1, 0.5, set())])
    tables = Replicator(journal)
    for key in (*DAMAGES, *HEALTHY):
        tables.whole(key)
    for key, way in {**{key: damage.way for key, damage in DAMAGES.items()}, **HEALTHY}.items():
        way(tables, key)
    # Made by a delete, so without a record id, with a size of its own.
    journal.insert(
        "metajournal",
        [
            {"topic": TOPIC, "segment": segment_of("odd"), "id": "odd", "segment_size": 5}
            | {"seq_nr": 3, "delete_to": 3, "partition": 0, "offset": 1}
        ],
    )
    result = journal.run(
        "validate",
        *window(0, 2),
        *("--layer", "kafka_journal"),
        KAFKA_JOURNAL_KEYSPACE=journal.keyspace,
    )
    return Look(journal, result, found_in(journal))


@pytest.mark.parametrize("key", DAMAGES)
def test_damage_is_found_where_it_is(look: Look, key: str) -> None:
    assert look.found[key] == DAMAGES[key].found, look.result.stderr


def test_nothing_healthy_is_accused(look: Look) -> None:
    assert look.result.status == 3, look.result.stderr
    assert look.found.keys().isdisjoint(HEALTHY)
    heads = len(DAMAGES) - 1 + 1 + len(HEALTHY) + 1
    assert look.found[""] == {
        ("kafka_mixed_segment_size", 5, SIZE),
        ("kafka_heads_without_record_id", 1, 0),
    }
    details = {row["detail"] for row in look.journal.own_rows("finding")}
    assert f"1 of {heads} heads have no record id" in details
    assert any("two events, two origins: offset" in detail for detail in details)


@pytest.mark.long
def test_layer_that_blocks_stops_the_line_until_it_is_mended(look: Look) -> None:
    journal = look.journal
    assert look.result.report["pieces"]["failed"] == 2
    [line] = look.result.error_lines
    assert "kafka_events_without_head" in line
    assert "reconcile.py settle --check" in line

    # Nobody asks for the layer, and it is looked at again; what is settled blocks no more.
    again = look.run()
    assert again.status == 3, again.stderr
    options = ("--tag", TOPIC, "--reason", "a test", "--apply")
    settled = journal.run("reconcile", "settle", *options)
    assert settled.status == 0, settled.stderr
    Replicator(journal).whole("an event is lost")
    after = look.run("--layer", "kafka_journal")
    assert after.status == 0, after.stderr
    assert after.report["counts"]["settled_findings"] == look.result.report["counts"]["findings"]
    now = found_in(journal)
    assert now.keys() == look.found.keys() - {"an event is lost"}
