"""A journal's messages and tag views as plain values, and the frames made of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from tidemark.continuity.shapes import EVIDENCE, FINDINGS
from tidemark.continuity.tag_views.bounds import Bounds
from tidemark.continuity.tag_views.compare import compare
from tidemark.continuity.tag_views.expected import REMOVED
from tidemark.continuity.tag_views.keys import Keys, once
from tidemark.continuity.tag_views.sums import Doubts
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.reconciliation.repair.run import ACTIONS
from tidemark.spark.local_rows import local_rows

HOUR = BucketSize.HOUR.milliseconds
NOW_MS = 1_700_000_000_000
BOUNDS = Bounds(
    keys.epoch_ms_ticks(NOW_MS),
    keys.epoch_ms_ticks(NOW_MS - 60_000),
    BucketSize.HOUR,
    keys.time_bucket(NOW_MS, BucketSize.HOUR),
    target_partition_size=3,
)
START_MS = NOW_MS - NOW_MS % HOUR - 100 * HOUR


class Event(NamedTuple):
    """A row of messages; `hour` counts from START_MS and may be a fraction."""

    number: int
    hour: float
    tags: str = ""
    cause: str | None = None

    @property
    def ticks(self) -> int:
        return keys.epoch_ms_ticks(round(START_MS + self.hour * HOUR)) + self.number

    @property
    def timestamp(self) -> str:
        return keys.ticks_timeuuid(self.ticks, clock_sequence=1, node=7)

    @property
    def time_bucket(self) -> int:
        return keys.time_bucket(round(START_MS + self.hour * HOUR), BucketSize.HOUR)


class Row(NamedTuple):
    """A row of the tag views of one persistence id."""

    tag: str
    number: int
    event: Event
    time_bucket: int


class Progress(NamedTuple):
    """A row of tag_write_progress."""

    sequence_nr: int
    number: int
    offset: str


@dataclass(frozen=True)
class History:
    """All that is stored about a persistence id."""

    events: frozenset[Event] = frozenset()
    rows: frozenset[Row] = frozenset()
    progress: dict[str, Progress] = field(default_factory=dict)
    scanned_to: int | None = None
    deleted_to: int | None = None
    is_listed: bool = False
    misplaced: frozenset[int] = frozenset()
    """Sequence nrs whose events lie in a wrong partition of messages."""

    @classmethod
    def whole(cls, *events: tuple[float, str], first: int = 1) -> History:
        """Make an undamaged history of events (hour, tags as letters), numbered from `first`."""
        history = [Event(number, *event) for number, event in enumerate(events, first)]
        rows: list[Row] = []
        progress: dict[str, Progress] = {}
        for event in history:
            for tag in event.tags:
                number = progress[tag].number + 1 if tag in progress else 1
                progress[tag] = Progress(event.number, number, event.timestamp)
                rows.append(Row(tag, number, event, event.time_bucket))
        return cls(frozenset(history), frozenset(rows), progress, history[-1].number, None)

    def deleted(self, to: int) -> History:
        """Return the history after a deletion by Pekko: messages go, everything else stays."""
        left = frozenset(event for event in self.events if event.number > to)
        return replace(self, events=left, deleted_to=to)

    def row(self, tag: str, number: int) -> Row:
        """Return the row with this number under a tag."""
        [only] = [row for row in self.rows if (row.tag, row.number) == (tag, number)]
        return only

    def without_events(self, *numbers: int) -> History:
        """Return the history with these events missing from messages."""
        left = frozenset(event for event in self.events if event.number not in numbers)
        return replace(self, events=left)

    def with_rows(self, *rows: Row) -> History:
        return replace(self, rows=self.rows | set(rows))

    def without_rows(self, *rows: Row) -> History:
        return replace(self, rows=self.rows - set(rows))

    def with_progress(self, tag: str, progress: Progress | None) -> History:
        others = {name: reached for name, reached in self.progress.items() if name != tag}
        return replace(self, progress=others | ({tag: progress} if progress else {}))


Journal = dict[str, History]
_FINDING = {**FINDINGS, **EVIDENCE}
Finding = dict[str, Any]


def keys_of(spark: SparkSession, journal: Journal) -> Keys:
    """Return the frames that reconcile would read from the journal."""
    items = sorted(journal.items())
    return Keys(
        _frame(
            spark,
            "persistence_id string, sequence_nr bigint, timestamp string, ticks bigint,"
            " time_bucket bigint, tags array<string>, cause string, partition_nr bigint,"
            " has_payload boolean",
            (
                (
                    *(pid, e.number, e.timestamp, e.ticks, e.time_bucket, _tags(e), e.cause),
                    99 if e.number in history.misplaced else (e.number - 1) // 3 + e.number % 2,
                    e.cause is None,
                )
                for pid, history in items
                for e in history.events
            ),
        ),
        _frame(
            spark,
            "persistence_id string, tag string, sequence_nr bigint, tag_pid_sequence_nr bigint,"
            " timestamp string, ticks bigint, time_bucket bigint",
            (
                (pid, r.tag, r.event.number, r.number, r.event.timestamp, r.event.ticks, r[3])
                for pid, history in items
                for r in history.rows
            ),
        ),
        _frame(
            spark,
            "persistence_id string, tag string, progress_sequence_nr bigint,"
            " progress_number bigint, progress_offset string",
            ((pid, tag, *p) for pid, history in items for tag, p in history.progress.items()),
        ),
        _frame(
            spark,
            "persistence_id string, scanned_to bigint",
            ((pid, history.scanned_to) for pid, history in items if history.scanned_to is not None),
        ),
        _frame(
            spark,
            "persistence_id string, deleted_to bigint",
            (
                (pid, REMOVED if history.deleted_to is None else history.deleted_to)
                for pid, history in items
                if history.deleted_to is not None or not history.events
            ),
        ),
        _frame(
            spark,
            "persistence_id string",
            ((pid,) for pid, history in items if history.is_listed),
        ),
    )


def moved(row: Row, hours: int) -> Row:
    """Return the row in another time bucket."""
    return row._replace(time_bucket=row.time_bucket + hours * HOUR)


TAGS = st.sampled_from(["", "a", "b", "ab", "abc"])
EVENTS = st.lists(st.tuples(st.integers(0, 6), TAGS), min_size=1, max_size=8)


@st.composite
def damaged_history(draw: st.DrawFn) -> tuple[History, History]:
    """Draw a history, and a copy with lost, invented, renumbered, moved rows, wrong progress."""
    undamaged = History.whole(*draw(EVENTS))
    deleted_to = draw(st.sampled_from([0, 0, 1, 2]))
    if 0 < deleted_to < len(undamaged.events):
        undamaged = undamaged.deleted(deleted_to)
    rows = sorted(undamaged.rows)
    damaged = undamaged
    for row in rows:
        change = draw(st.sampled_from(["none"] * 4 + ["lose", "double", "renumber", "move", "tag"]))
        other = {
            "double": row._replace(number=row.number + draw(st.integers(1, 3))),
            "renumber": row._replace(number=row.number + draw(st.integers(1, 3))),
            "move": moved(row, draw(st.sampled_from([-1, 1, 24]))),
            "tag": row._replace(tag="x"),
        }.get(change)
        if change in ("lose", "renumber", "move"):
            damaged = damaged.without_rows(row)
        if other is not None:
            damaged = damaged.with_rows(other)
    for tag, progress in undamaged.progress.items():
        change = draw(st.sampled_from(["none", "none", "lose", "number", "sequence_nr"]))
        if change == "lose":
            damaged = damaged.with_progress(tag, None)
        elif change != "none":
            off = getattr(progress, change) + draw(st.sampled_from([-1, 1, 3]))
            damaged = damaged.with_progress(tag, progress._replace(**{change: max(off, 1)}))
    scanned_to = draw(st.sampled_from([undamaged.scanned_to, None, 1, 12]))
    return undamaged, replace(damaged, scanned_to=scanned_to)


@st.composite
def broken_history(draw: st.DrawFn) -> History:
    """Draw a history whose messages are damaged, and perhaps all that is made of them as well."""
    history = draw(st.sampled_from(draw(damaged_history())))
    lost = draw(st.sets(st.integers(1, 8), max_size=2))
    events = {event for event in history.events if event.number not in lost}
    copied = draw(st.sets(st.sampled_from(sorted(events)), max_size=1)) if events else set()
    return replace(
        history,
        events=frozenset(events | {event._replace(hour=event.hour + 0.5) for event in copied}),
        deleted_to=draw(st.sampled_from([history.deleted_to, None, 1, 3])),
        is_listed=draw(st.booleans()),
        misplaced=draw(st.frozensets(st.integers(1, 8), max_size=1)),
    )


def findings_of(spark: SparkSession, journal: Journal, bounds: Bounds = BOUNDS) -> list[Finding]:
    """Return the findings of a comparison: of `check` unless the bounds have buckets."""
    read = keys_of(spark, journal)
    doubts = Doubts.of(read, bounds.target_partition_size, once)
    compared = compare(read, doubts, bounds, once)
    rows = [row.asDict() for row in compared.findings.collect()]
    return rows


def bounds_of_buckets(buckets: Collection[int], bounds: Bounds = BOUNDS) -> Bounds:
    """Return the bounds by which validate looks at time buckets."""
    last = max(buckets)
    end = keys.epoch_ms_ticks(last + HOUR)
    return replace(
        bounds,
        written_before=end,
        settled_before=min(bounds.settled_before, end),
        last_bucket=last,
        window=None,
        buckets=buckets,
    )


def repaired(spark: SparkSession, journal: Journal, findings: list[Finding]) -> tuple[Journal, int]:
    """Return the journal after `repair` of the findings, and the number of changed tag rows."""
    frame = local_rows(
        spark,
        [tuple(finding[name] for name in _FINDING) for finding in findings],
        ", ".join(f"{name} {kind}" for name, kind in _FINDING.items()),
    )
    result, changes = dict(journal), 0
    for action, condition in ACTIONS.items():
        for finding in frame.where(condition).collect():
            changes += action.startswith("tag_rows")
            pid = finding["persistence_id"]
            result[pid] = _acted(result[pid], journal[pid], action, finding.asDict())
    return result, changes


def _acted(history: History, before: History, action: str, finding: Finding) -> History:
    events = before.events | {row.event for row in before.rows}
    event = next((e for e in events if e.timestamp == finding["timestamp"]), None)
    tag, expected = finding["tag"], finding["expected_sequence_nr"]
    if action == "tag_rows_written":
        assert event in events
        row = Row(
            tag, finding["expected_tag_pid_sequence_nr"], event, finding["expected_time_bucket"]
        )
        assert row not in history.rows
        return history.with_rows(row)
    if action == "tag_rows_deleted":
        assert event is not None
        row = Row(
            tag, finding["tag_pid_sequence_nr"], event, finding["held_in"] or finding["time_bucket"]
        )
        assert row in history.rows
        return history.without_rows(row)
    if action.startswith("progress"):
        progress = Progress(
            expected, finding["expected_tag_pid_sequence_nr"], finding["expected_timestamp"]
        )
        return history.with_progress(tag, progress if expected is not None else None)
    if action.startswith("scanning"):
        return replace(history, scanned_to=expected)
    return history


def _tags(event: Event) -> list[str] | None:
    # As in `tagging.events.tagged`, an event that cannot be written has no tags.
    return list(event.tags) if event.tags and event.cause is None else None


def _frame(spark: SparkSession, schema: str, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
    return local_rows(spark, list(rows), schema)
