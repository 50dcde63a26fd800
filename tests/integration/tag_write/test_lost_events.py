"""Events that are lost from messages, of which the tag views still have the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.integration.pekko_journals import HOUR_MS, delete_messages, tag_rows, write_as_pekko
from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import message, window
from tests.integration.test_damage import (
    EVENTS,
    PARTITION_SIZE,
    Way,
    lost_events,
    lost_payload,
    together,
)

pytestmark = pytest.mark.usefixtures("production")

LOST: Mapping[str, Way] = {
    "an event": lost_events(4),
    "the first event": lost_events(1),
    "the last events": lost_events(7, 8),
    "the payload of an event": lost_payload(4),
    "the payload of the first event": lost_payload(1),
    "an event behind a deletion": together(
        lambda journal, pid: delete_messages(journal, pid, 3), lost_events(5)
    ),
    "the only event of a tag": lost_events(6),
    "nothing": lambda journal, pid: None,
}
QUIET = ("the last events, and none after them", "the last payload, and none after it")


def event(pid: str, number: int) -> dict[str, Any]:
    tags = {"red", *(["blue"] if number % 2 else []), *(["own"] if number in (6, 11) else [])}
    place = {"partition_nr": (number - 1) // PARTITION_SIZE}
    return message(pid, number, hours=number * 0.5 - 0.25, tags=tags, **place)


def numbers(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {
        (row["persistence_id"], row["tag_name"], row["sequence_nr"], row["tag_pid_sequence_nr"])
        for row in rows
    }


def test_a_lost_event_keeps_its_number_and_those_behind_it_keep_theirs(
    make_journal: Callable[..., Journal],
) -> None:
    journal = make_journal(TARGET_PARTITION_SIZE=str(PARTITION_SIZE))
    ways = {**LOST, QUIET[0]: lost_events(7, 8), QUIET[1]: lost_payload(8)}
    written = [event(pid, number) for pid in ways for number in EVENTS]
    write_as_pekko(journal, written)
    journal.insert("all_persistence_ids", [{"persistence_id": pid} for pid in ways])
    for pid, way in ways.items():
        way(journal, pid)

    def tag(first: int, last: int, hours: tuple[int, int], *options: str) -> None:
        new = [event(pid, number) for pid in LOST for number in range(first, last + 1)]
        journal.insert("messages", new)
        written.extend(new)
        result = journal.run("tag_write", *window(*hours), *options)
        assert result.status == 0, result.stderr
        assert numbers(journal.rows("tag_views")) == numbers(tag_rows(written, HOUR_MS))

    tag(9, 10, (0, 5), "--strategy", "scan")
    tag(11, 12, (5, 6), "--strategy", "tails")
    tag(13, 14, (0, 7), "--strategy", "scan", "--force")
