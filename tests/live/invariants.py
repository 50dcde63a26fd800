"""Invariants that must hold after every step of a history, and at its end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.live.chain import Ended
from tests.live.readmodels import READ_MODELS, ReadModel
from tests.live.world import KILLED, World

INPUT_REFUSED, WRONG_DATA = 2, 3
LOST = re.compile(
    r"(?P<gone>\d*)(?: of the \d+ events? that its result was made from (?:is|are) no longer there"
    r"|its tag views were deleted by purge)"
)
Row = Mapping[str, Any]
Key = tuple[str, int, str]


class Broken(AssertionError):
    """An invariant that does not hold."""


def require(holds: object, text: str) -> None:
    """Raise `Broken` with the text unless the invariant holds."""
    if not holds:
        raise Broken(text)


def after_step(world: World, ended: Iterable[Ended]) -> None:
    """Require all that must hold after a step; `ended` are the runs of the step."""
    numbers_are_given_once(world)
    done_is_written(world, ended)
    progress_never_leads(world)
    frozen_is_gone(world)
    reds_are_true(world, ended)


def numbers_are_given_once(world: World) -> None:
    """Require that a row's number counts the events before it, and stays once it is given."""
    truth = world.truth
    numbers: dict[Key, int] = {}
    for row in world.journal.rows(world.tag_views):
        key = (row["persistence_id"], row["sequence_nr"], row["tag_name"])
        if key[0] in world.damaged:
            continue
        number = row["tag_pid_sequence_nr"]
        require(
            numbers.setdefault(key, number) == number,
            f"{key} has the numbers {numbers[key]} and {number}",
        )
        event = truth.events.get(key[0], {}).get(key[1])
        require(event is not None and key[2] in event.tags, f"nobody wrote {key}")
        before = truth.tagged.get(key)
        require(before in (None, number), f"{key} had the number {before} and has {number}")
    truth.see(numbers, world.now)
    _rows_stay(world, set(numbers))
    expected = truth.numbers()
    for key, number in numbers.items():
        low = expected[key] - _excusable(world, key)
        require(
            low <= number <= expected[key] or number == expected[key],
            f"{key} has the number {number}, and is the {expected[key]}. of its series",
        )
    taken: dict[tuple[str, str, int], Key] = {}
    for key, number in truth.tagged.items():
        other = taken.setdefault((key[0], key[2], number), key)
        require(other == key, f"{key} and {other} have the number {number}")


def _rows_stay(world: World, present: set[Key]) -> None:
    """Require that rows go only by their time to live, or by a purge when they are old enough."""
    truth = world.truth
    for key in set(truth.tagged) - present - truth.expired:
        if key[0] not in world.damaged:
            require(_may_be_purged(world, key), f"the row of {key} has gone")
            truth.expired.add(key)


def _may_be_purged(world: World, key: Key) -> bool:
    days = world.profile.retention_days
    kept_since = round((world.now - timedelta(days=days)).timestamp() * 1000)
    bucket = world.truth.events[key[0]][key[1]].time_bucket(world.bucket_ms)
    return bool(days) and bucket + world.bucket_ms <= kept_since


def _excusable(world: World, key: Key) -> int:
    """Return how many events before this one need not be counted."""
    return sum(
        other[0] == key[0] and other[2] == key[2] and other[1] < key[1]
        for other in world.truth.excused
        if other not in world.truth.tagged
    )


def done_is_written(world: World, ended: Iterable[Ended]) -> None:
    """Require tags of all events that tag-write could see in the time buckets it has done."""
    if not any(one.application == "tag_write" and one.state == "success" for one in ended):
        return
    done = {
        bucket for (_, bucket), row in world.pieces("tag-write").items() if row["state"] == "done"
    }
    for one in world.truth.visible():
        if one.persistence_id in world.damaged:
            continue
        if one.time_bucket(world.bucket_ms) in done and one.place <= world.visible_to_last_run:
            for tag in one.tags:
                key = (one.persistence_id, one.sequence_nr, tag)
                require(key in world.truth.tagged, f"tag-write has done the bucket of {key}")


def progress_never_leads(world: World) -> None:
    """Require that no event up to the progress or the scanning of its id lacks its row."""
    truth = world.truth
    missing = {
        (event.persistence_id, event.sequence_nr, tag)
        for event in truth.visible()
        for tag in event.tags
        if (event.persistence_id, event.sequence_nr, tag) not in truth.tagged
        and event.persistence_id not in world.damaged
    }
    for row in world.journal.rows("tag_write_progress"):
        pid, tag, reached = row["persistence_id"], row["tag"], row["sequence_nr"]
        led = {key for key in missing if key[0] == pid and key[2] == tag and key[1] <= reached}
        require(not led, f"the progress of {pid} {tag} is {reached}, and {led} have no row")
        number = None if pid in world.damaged else truth.tagged.get((pid, reached, tag))
        require(
            number in (None, row["tag_pid_sequence_nr"]),
            f"the progress of {pid} {tag} says {row['tag_pid_sequence_nr']}, its row {number}",
        )
    for row in world.journal.rows("tag_scanning"):
        led = {k for k in missing if k[0] == row["persistence_id"] and k[1] <= row["sequence_nr"]}
        require(not led, f"scanning is at {row['sequence_nr']}, and {led} have no row")


def frozen_is_gone(world: World) -> None:
    """Require that a frozen result lacks at least as many events as its piece says."""
    for (name, bucket), row in world.pieces("project").items():
        lost = LOST.search(str(row["error"])) if row["state"] == "failed" else None
        if lost is None:
            continue
        model = READ_MODELS[name]
        events = [
            event
            for event in world.consumed_by(model)
            if event.time_bucket(world.bucket_ms) == bucket
        ]
        gone = len(events) - len(world.left_of(model, events))
        require(gone >= int(lost["gone"] or 1), f"{name} {_at(bucket)}: {lost[0]}, but {gone}")
        world.frozen.add((name, bucket))


def reds_are_true(world: World, ended: Iterable[Ended]) -> None:
    """Require that only real damage is reported, and that no undisturbed run fails."""
    frozen = {name for name, _ in world.frozen}
    for run in ended:
        statuses = {result.status for result in run.results}
        if WRONG_DATA in statuses:
            bad = world.damaged | (frozen if run.application == "project" else set())
            bad |= {pid for pid, _ in world.poisoned}
            require(bad, f"nothing is damaged: {run}")
            require([name for name in bad if name in run.why], f"no damage is named: {run}")
        require(INPUT_REFUSED not in statuses, f"its arguments were refused: {run}")
        is_excused = world.disturbed or world.damaged or statuses & {WRONG_DATA, KILLED}
        require(run.state != "failed" or is_excused, f"nothing kept it from its work: {run}")
        for result in run.results:
            require("Traceback" not in result.stderr, f"{run}: {result.stderr[-2000:]}")


def at_the_end(world: World) -> None:
    """Require all that must hold after enough undisturbed runs with a quiet journal."""
    progress_never_leads(world)
    numbers_are_given_once(world)
    _tag_views_are_complete(world)
    _progress_is_complete(world)
    _ledgers_are_closed(world)
    for model in world.models:
        _read_model_is_right(world, model)
        _offsets_are_right(world, model)
    require(not world.journal.own_rows("lock"), "a lock is left")
    last = {run.application: run for run in world.seen}
    for run in last.values():
        require(run.state != "failed", f"at the end: {run}")


def _tag_views_are_complete(world: World) -> None:
    truth = world.truth
    rows = {
        (
            row["persistence_id"],
            row["sequence_nr"],
            row["tag_name"],
            row["tag_pid_sequence_nr"],
            row["timestamp"],
        )
        for row in world.journal.rows(world.tag_views)
    }
    expected = {
        (*key, number, truth.events[key[0]][key[1]].timestamp)
        for key, number in truth.numbers().items()
        if key not in truth.expired
    }
    # A row that was tagged late and purged in the same run was never seen.
    expected -= {row for row in expected - rows if _may_be_purged(world, row[:3])}
    _require_equal("tag_views", rows, expected)


def _progress_is_complete(world: World) -> None:
    truth = world.truth
    numbers = truth.numbers()
    expected = {
        (pid, tag, events[-1].sequence_nr, numbers[pid, events[-1].sequence_nr, tag])
        for (pid, tag), events in truth.series().items()
    }
    rows = {
        (row["persistence_id"], row["tag"], row["sequence_nr"], row["tag_pid_sequence_nr"])
        for row in world.journal.rows("tag_write_progress")
    }
    _require_equal("tag_write_progress", rows, expected)


def _ledgers_are_closed(world: World) -> None:
    """Require that each application has done every bucket from its first to its last."""
    for application in ("tag-write", "validate", "project"):
        entries = world.pieces(application)
        for (subject, bucket), row in entries.items():
            if bucket < world.quiet_since:
                piece = f"{application} {subject} {_at(bucket)}"
                require(row["state"] == "done", f"{piece} is {row['state']}: {row['error']}")
        subjects = {subject for subject, _ in entries}
        for subject in subjects:
            own = [bucket for name, bucket in entries if name == subject]
            for bucket in range(min(own), max(own), world.bucket_ms):
                missing = f"{application} {subject} never took up {_at(bucket)}"
                require((subject, bucket) in entries, missing)


def _at(bucket: int) -> str:
    return f"{datetime.fromtimestamp(bucket / 1000, UTC):%Y-%m-%d %H:%M}"


def _read_model_is_right(world: World, model: ReadModel) -> None:
    rows = model.rows(world.journal, world.exports)
    consumed = world.consumed_by(model)
    expected = model.expected(consumed, world.bucket_ms)
    for bucket, left in world.remade.get(model.name, {}).items():
        # Whether a bucket had to be made of the events left depends on the order of waiting pieces.
        if {row for row in rows if row[0] == bucket} == model.expected(left, world.bucket_ms):
            expected = {row for row in expected if row[0] != bucket}
            rows = {row for row in rows if row[0] != bucket}
    _require_equal(model.name, rows, expected)


def _offsets_are_right(world: World, model: ReadModel) -> None:
    truth = world.truth
    expected: dict[tuple[str, str], int] = {}
    if model.tags:
        for (pid, number, tag), given in truth.numbers().items():
            if tag in model.tags and number:
                expected[pid, tag] = max(given, expected.get((pid, tag), 0))
    else:
        expected = {(pid, ""): truth.last(pid) for pid in truth.events}
    offsets = {
        (row["persistence_id"], row["tag"]): row["tag_pid_sequence_nr"] or row["sequence_nr"]
        for row in world.journal.own_rows("projection_offset")
        if row["projection"].partition("/")[2] == model.name
    }
    _require_equal(f"offsets of {model.name}", set(offsets.items()), set(expected.items()))


def _require_equal(subject: str, rows: set[Any], expected: set[Any]) -> None:
    missing, extra = expected - rows, rows - expected
    require(
        not missing and not extra,
        f"{subject}: {len(missing)} missing, such as {_some(missing)};"
        f" {len(extra)} that should not be there, such as {_some(extra)}",
    )


def _some(rows: set[Any]) -> str:
    return re.sub(r"datetime\.", "", str(sorted(rows, key=str)[:4]))
