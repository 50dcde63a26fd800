"""A healthy journal, broken in every named way at once: each is found where it is, and only there.

One persistence id for each way; validate and `reconcile check` look at all of them together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.integration.pekko_journals import (
    HOUR_MS,
    delete_message,
    delete_messages,
    write_as_pekko,
)
from tests.integration.reconcile.test_check import delete_row, view_row
from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import START, message, window
from tidemark.validate.findings.checks import (
    SCANNING_AHEAD,
    TAG_PID_SEQUENCE_NR_DUPLICATE,
    TAG_PID_SEQUENCE_NR_LOST_TAIL,
    TAG_PID_SEQUENCE_NR_MISSING_HEAD,
    TAG_PID_SEQUENCE_NR_OUT_OF_ORDER,
)
from tidemark.validate.tag_views.finding_kinds import KINDS
from tidemark.window import to_millis

pytestmark = pytest.mark.usefixtures("production")

PARTITION_SIZE = 5
HOURS = 4
EVENTS = range(1, 2 * HOURS + 1)
RED, BLUE = (1, 2, 4, 5, 7, 8), (2, 3, 5, 6, 8)
"""The sequence nrs of the events with these tags, in the order of their tag pid sequence nrs."""


NOT_IN_THE_SAMPLE = {
    TAG_PID_SEQUENCE_NR_DUPLICATE.name,
    TAG_PID_SEQUENCE_NR_LOST_TAIL.name,
    TAG_PID_SEQUENCE_NR_MISSING_HEAD.name,
    TAG_PID_SEQUENCE_NR_OUT_OF_ORDER.name,
}
"""What is only told of rows of deleted events, as the gap is that stands for them."""
Way = Callable[[Journal, str], None]
Found = tuple[Any, ...]


@dataclass(frozen=True)
class Damage:
    """A way to break a persistence id, and what is found then.

    Attributes:
        way: breaks it.
        found: what validate and `reconcile check` find: (check, tag, number, expected, hour).
        tags: further tags of events, by sequence nr.
        is_advice: whether only validate looks for it.
    """

    way: Way
    found: set[Found]
    tags: Mapping[int, str] = field(default_factory=dict)
    is_advice: bool = False


def events_of(pid: str, tags: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return two events an hour."""
    return [
        message(
            pid,
            number,
            hours=number * 0.5 - 0.25,
            tags={tag for tag, of in (("red", RED), ("blue", BLUE)) if number in of}
            | ({tags[number]} if number in tags else set()),
            partition_nr=(number - 1) // PARTITION_SIZE,
        )
        for number in EVENTS
    ]


def stored(journal: Journal, pid: str, number: int) -> dict[str, Any]:
    """Return an event as messages has it."""
    key = {"persistence_id": pid, "sequence_nr": number}
    [row] = [row for row in journal.rows("messages") if row.items() >= key.items()]
    return row


def lost_events(*numbers: int) -> Way:
    def damage(journal: Journal, pid: str) -> None:
        for number in numbers:
            delete_message(journal, stored(journal, pid, number))

    return damage


def lost_rows(tag: str, *numbers: int) -> Way:
    def damage(journal: Journal, pid: str) -> None:
        for number in numbers:
            delete_row(journal, view_row(journal, pid, tag, number))

    return damage


def changed_row(tag: str, number: int, **values: Any) -> Way:
    def damage(journal: Journal, pid: str) -> None:
        row = view_row(journal, pid, tag, number)
        delete_row(journal, row)
        journal.insert("tag_views", [{**row, **values}])

    return damage


def further_row(tag: str, number: int, **values: Any) -> Way:
    def damage(journal: Journal, pid: str) -> None:
        journal.insert("tag_views", [{**view_row(journal, pid, tag, number), **values}])

    return damage


def together(*ways: Way) -> Way:
    def damage(journal: Journal, pid: str) -> None:
        for way in ways:
            way(journal, pid)

    return damage


def second_writer(journal: Journal, pid: str) -> None:
    event = stored(journal, pid, 4)
    other = message(pid, 4, 1.9, set())["timestamp"]
    journal.insert("messages", [{**event, "timestamp": other, "tags": None, "writer_uuid": "v"}])


def wrong_partition(journal: Journal, pid: str) -> None:
    event = stored(journal, pid, 4)
    delete_message(journal, event)
    journal.insert("messages", [{**event, "partition_nr": 3}])


def lost_payload(number: int) -> Callable[[Journal, str], None]:
    def lose(journal: Journal, pid: str) -> None:
        row = stored(journal, pid, number)
        journal.control.execute(
            f"UPDATE {journal.keyspace}.messages SET event = null WHERE persistence_id = ?"
            " AND partition_nr = ? AND sequence_nr = ? AND timestamp = ?",
            [row[name] for name in ("persistence_id", "partition_nr", "sequence_nr", "timestamp")],
        )

    return lose


def no_payload(journal: Journal, pid: str) -> None:
    lost_payload(8)(journal, pid)
    together(lost_rows("red", 6), lost_rows("blue", 5))(journal, pid)
    set_progress(journal, pid, "red", 7, 5)
    set_progress(journal, pid, "blue", 6, 4)


def untagged_without_payload(journal: Journal, pid: str) -> None:
    event = message(pid, 9, 3.9, set(), event=None, partition_nr=8 // PARTITION_SIZE)
    journal.insert("messages", [event])


def clock_that_went_back(journal: Journal, pid: str) -> None:
    delete_message(journal, stored(journal, pid, 6))
    lost_rows("blue", 4)(journal, pid)
    event = message(pid, 6, 2.2, {"blue"}, partition_nr=1)
    journal.insert("messages", [event])
    row = {key: event[key] for key in event.keys() - {"tags", "timebucket", "partition_nr"}}
    place = {"tag_name": "blue", "timebucket": hour(2), "tag_pid_sequence_nr": 4}
    journal.insert("tag_views", [{**row, **place}])


def lost_above_a_deletion(journal: Journal, pid: str) -> None:
    delete_messages(journal, pid, 2)
    lost_events(3)(journal, pid)


def swapped_numbers(journal: Journal, pid: str) -> None:
    rows = [view_row(journal, pid, "red", number) for number in (3, 4)]
    for row, number in zip(rows, (4, 3), strict=True):
        delete_row(journal, row)
        journal.insert("tag_views", [{**row, "tag_pid_sequence_nr": number}])


def shifted(journal: Journal, pid: str) -> None:
    for number in (6, 5, 4):
        changed_row("red", number, tag_pid_sequence_nr=number + 1)(journal, pid)


def row_of_no_event(journal: Journal, pid: str) -> None:
    at = message(pid, 9, 3.9, set())["timestamp"]
    further_row("red", 6, timestamp=at, sequence_nr=9, tag_pid_sequence_nr=7)(journal, pid)


def set_progress(
    journal: Journal, pid: str, tag: str, sequence_nr: int, number: int, at: int | None = None
) -> None:
    """Set progress to an event's sequence nr, a number, and the time of that event or another."""
    times = {event["sequence_nr"]: event["timestamp"] for event in events_of(pid, {})}
    row = {"sequence_nr": sequence_nr, "tag_pid_sequence_nr": number}
    offset = times.get(at or sequence_nr, times[EVENTS[-1]])
    key = {"persistence_id": pid, "tag": tag}
    journal.insert("tag_write_progress", [{**key, **row, "offset": offset}])


def progress(sequence_nr: int, number: int, at: int | None = None) -> Way:
    return lambda journal, pid: set_progress(journal, pid, "red", sequence_nr, number, at)


def no_progress(journal: Journal, pid: str) -> None:
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_write_progress WHERE persistence_id = ?", (pid,)
    )


def scanning_ahead(journal: Journal, pid: str) -> None:
    journal.insert("tag_scanning", [{"persistence_id": pid, "sequence_nr": 12}])


def nothing(journal: Journal, pid: str) -> None:
    pass


def hour(number: int) -> int:
    """Return the time bucket of an hour since START."""
    return to_millis(START) + number * HOUR_MS


DAMAGES = {
    # Of what is lost from messages, rows in tag views are the only copy: they are no findings.
    "an event is lost": Damage(lost_events(4), {("sequence_nr_gap", "", 5, 4, 2)}),
    "the first event is lost": Damage(lost_events(1), {("sequence_nr_missing_head", "", 2, 1, 0)}),
    "the last events are lost": Damage(lost_events(7, 8), {("sequence_nr_lost_tail", "", 6, 8, 3)}),
    "all events are lost": Damage(lost_events(*EVENTS), {("sequence_nr_lost_tail", "", 0, 8, 3)}),
    "the event above a deletion is lost": Damage(
        lost_above_a_deletion, {("sequence_nr_missing_head", "", 4, 3, 1)}
    ),
    "an event and its rows are lost": Damage(
        together(lost_events(5), lost_rows("red", 4), lost_rows("blue", 3)),
        {
            ("sequence_nr_gap", "", 6, 5, 2),
            ("tag_pid_sequence_nr_gap", "red", 5, 4, 3),
            ("tag_pid_sequence_nr_gap", "blue", 4, 3, 2),
        },
    ),
    "deleted_to is beyond the last event": Damage(
        lambda journal, pid: journal.insert(
            "metadata", [{"persistence_id": pid, "deleted_to": 1000}]
        ),
        {("deleted_to_ahead", "", 8, 1000, 3)},
    ),
    "two writers": Damage(second_writer, {("sequence_nr_duplicate", "", 4, 4, 1)}),
    "an event in a wrong partition": Damage(
        wrong_partition, {("wrong_partition_nr", "", 4, None, 1)}
    ),
    "an event without payload": Damage(no_payload, {("unwritable_event", "", 8, None, 3)}),
    "a payload that only the rows still have": Damage(
        lost_payload(4), {("null_payload", "", 4, None, 1)}
    ),
    "an untagged event without payload": Damage(
        untagged_without_payload, {("null_payload", "", 9, None, 3)}
    ),
    "a clock that went back": Damage(
        clock_that_went_back, {("event_out_of_order", "", 6, None, 2)}, is_advice=True
    ),
    "a row is lost": Damage(lost_rows("red", 3), {("untagged_event", "red", 4, None, 1)}),
    "the first row is lost": Damage(lost_rows("red", 1), {("untagged_event", "red", 1, None, 0)}),
    "the last row is lost": Damage(lost_rows("red", 6), {("untagged_event", "red", 8, None, 3)}),
    "rows of all tags of an event are lost": Damage(
        together(lost_rows("red", 4), lost_rows("blue", 3)),
        {("untagged_event", "red", 5, None, 2), ("untagged_event", "blue", 5, None, 2)},
    ),
    "a time bucket of a tag is lost": Damage(
        lost_rows("own", 2, 3),
        {("untagged_event", "own", 3, None, 1), ("untagged_event", "own", 4, None, 1)},
        tags={1: "own", 3: "own", 4: "own", 5: "own"},
    ),
    # No repair brings back the row of an event that is deleted.
    "a row of a deleted event is lost": Damage(
        together(lambda journal, pid: delete_messages(journal, pid, 6), lost_rows("red", 3)),
        {("tag_pid_sequence_nr_gap", "red", 4, 3, 2)},
    ),
    "a row twice": Damage(
        further_row("red", 3, tag_pid_sequence_nr=9), {("doubled_row", "red", 9, 3, 1)}
    ),
    "one number twice": Damage(
        changed_row("red", 4, tag_pid_sequence_nr=3), {("wrong_number", "red", 3, 4, 2)}
    ),
    "a row with another number": Damage(
        changed_row("red", 3, tag_pid_sequence_nr=9), {("wrong_number", "red", 9, 3, 1)}
    ),
    "two numbers are swapped": Damage(
        swapped_numbers, {("wrong_number", "red", 4, 3, 1), ("wrong_number", "red", 3, 4, 2)}
    ),
    "numbers are shifted": Damage(
        shifted,
        {
            ("wrong_number", "red", 5, 4, 2),
            ("wrong_number", "red", 6, 5, 3),
            ("wrong_number", "red", 7, 6, 3),
        },
    ),
    "a row in another time bucket": Damage(
        changed_row("red", 3, timebucket=hour(2)), {("wrong_time_bucket", "red", 3, None, 1)}
    ),
    "a row of an event that never was": Damage(row_of_no_event, {("extra_row", "red", 7, None, 3)}),
    "a row under a tag that its event has not": Damage(
        further_row("red", 3, tag_name="alien"), {("extra_row", "alien", 3, None, 1)}
    ),
    "progress ahead": Damage(progress(12, 9), {("progress_ahead", "red", 9, 6, 3)}),
    "progress with too high a number": Damage(progress(8, 9), {("progress_ahead", "red", 9, 6, 3)}),
    "progress behind": Damage(progress(5, 4), {("progress_behind", "red", 4, 6, 2)}),
    "progress at another time": Damage(progress(8, 6, at=7), {("progress_wrong", "red", 6, 6, 3)}),
    "no progress": Damage(
        no_progress,
        {("progress_missing", "red", 0, 6, 3), ("progress_missing", "blue", 0, 5, 3)},
    ),
    "scanning ahead": Damage(scanning_ahead, {("scanning_ahead", "", 12, 8, None)}),
}
HEALTHY: Mapping[str, Way] = {
    "whole": nothing,
    "the first events are deleted": lambda journal, pid: delete_messages(journal, pid, 3),
    "all events are deleted": lambda journal, pid: delete_messages(journal, pid, 8),
    "rows have followed their deleted events": together(
        lambda journal, pid: delete_messages(journal, pid, 2),
        lost_rows("red", 1, 2),
        lost_rows("blue", 1),
    ),
}


@dataclass(frozen=True)
class Looks:
    """What the two looks have found, by persistence id, and the table after each of them."""

    validate: Mapping[str, set[Found]]
    check: Mapping[str, set[Found]]
    after_validate: list[dict[str, Any]]
    after_check: list[dict[str, Any]]


@pytest.fixture(scope="module")
def looks(make_journals: Callable[..., Journal], tmp_path_factory: pytest.TempPathFactory) -> Looks:
    """Return what is found in a journal of which every persistence id but the healthy is broken."""
    docs = tmp_path_factory.mktemp("damage") / "docs"
    journal = make_journals(TARGET_PARTITION_SIZE=str(PARTITION_SIZE), DATA_DOCS_DIR=str(docs))
    tags: dict[str, Mapping[int, str]] = {pid: damage.tags for pid, damage in DAMAGES.items()}
    tags |= {pid: {} for pid in HEALTHY}
    write_as_pekko(journal, [event for pid in tags for event in events_of(pid, tags[pid])])
    journal.insert("all_persistence_ids", [{"persistence_id": pid} for pid in tags])
    for pid, way in {**{pid: damage.way for pid, damage in DAMAGES.items()}, **HEALTHY}.items():
        way(journal, pid)

    validated = journal.run("validate", *window(0, HOURS), "--run-id", "validate")
    of_validate = journal.own_rows("finding")
    checked = journal.run("reconcile", "check", "--run-id", "check")
    of_both = journal.own_rows("finding")

    assert (validated.status, checked.status) == (3, 3), validated.stderr + checked.stderr
    looks = Looks(defaultdict(set), defaultdict(set), of_validate, of_both)
    for row in of_validate:
        looks.validate[row["persistence_id"]].add(fact(row))
    for row in of_both:
        if row["run_id"] == "check":
            looks.check[row["persistence_id"]].add(fact(row))
    return looks


def fact(row: Mapping[str, Any]) -> Found:
    """Return what a row of the table says."""
    # tag_scanning has no time: each run names the newest of its time buckets.
    is_placed = row["check_name"] != SCANNING_AHEAD.name
    at = (row["time_bucket"] - hour(0)) // HOUR_MS if is_placed else None
    return (row["check_name"], row["tag"], row["number"], row["expected"], at)


@pytest.mark.parametrize("pid", DAMAGES)
def test_damage_is_found_where_it_is(looks: Looks, pid: str) -> None:
    damage = DAMAGES[pid]
    of_check = set() if damage.is_advice else damage.found
    assert (looks.validate[pid], looks.check[pid]) == (damage.found, of_check)


def test_what_both_find_is_one_finding(looks: Looks) -> None:
    short = ("check_name", "persistence_id", "tag", "number")
    key = [
        *short,
        "expected",
        "time_bucket",
        "sequence_nr",
        "timestamp",
        "row_time_bucket",
        "layer",
    ]
    first = {tuple(row[name] for name in short): row for row in looks.after_validate}
    both = [
        (first[name], row)
        for row in looks.after_check
        if row["run_id"] == "check"
        and (name := tuple(row[part] for part in short)) in first
        and row["check_name"] != SCANNING_AHEAD.name
    ]
    kinds = {row["check_name"] for _, row in both}
    assert kinds == {*KINDS} - {SCANNING_AHEAD.name, *NOT_IN_THE_SAMPLE}
    for mine, its in both:
        assert [mine[name] for name in key] == [its[name] for name in key]
        assert mine["first_seen"] == its["first_seen"] < its["last_seen"]


def test_what_only_validate_looks_for_stays_when_check_has_run(looks: Looks) -> None:
    kept = {row["check_name"] for row in looks.after_check if row["run_id"] == "validate"}
    assert kept == {"event_out_of_order"}


def test_nothing_healthy_is_accused(looks: Looks) -> None:
    accused = looks.validate.keys() | looks.check.keys()
    assert accused.isdisjoint(HEALTHY)


def test_there_are_as_many_ways_as_were_promised() -> None:
    assert len(DAMAGES) >= 25
    assert all(damage.found for damage in DAMAGES.values())
