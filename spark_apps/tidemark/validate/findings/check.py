"""A check: its inputs, its rule, and the remedy for its findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

RESTORE = "restore the lost events from a backup or their tag views"


class Layer(StrEnum):
    """The part of the data that a finding is about."""

    MESSAGES = "messages"
    TAG_VIEWS = "tag_views"
    KAFKA_JOURNAL = "kafka_journal"
    KAFKA_TOPIC = "kafka_topic"
    """The tables of kafka-journal compared with the topics from which they are replicated."""
    STORAGE = "storage"
    """The retention and compaction of the tables."""
    PROJECTIONS = "projections"
    USER = "user"
    """The data that the SELECT of a user's check reads."""


class Severity(StrEnum):
    """The effect of a finding on downstream applications."""

    BLOCKS = "blocks"
    WARNS = "warns"


class Inputs(Enum):
    """The data that the rule of a check reads, which decides where the check is run."""

    DIFFERENCES = auto()
    """The events of a persistence id, its rows, its progress and its scanning."""
    NUMBERS = auto()
    """The same data as it is once all differences are repaired: no repair changes the findings."""
    TIME_BUCKET = auto()
    """The events of a time bucket, with those just before them, or its rows."""
    MESSAGE_PARTITIONS = auto()
    """Partitions of messages: an incremental check judges those with new events."""
    JOURNAL = auto()
    """All events, rows or snapshots: an incremental check leaves this check out."""
    LAYER = auto()
    """The data of another layer than messages and tag views."""


class Repair(Enum):
    """The repair of a finding by `reconcile repair`."""

    ROW_WRITTEN = auto()
    ROW_DELETED = auto()
    ROW_RENUMBERED = auto()
    """The row is written with the right number, then deleted with the wrong number."""
    ROW_MOVED = auto()
    """The row is written to the right time bucket, then deleted from the wrong time bucket."""
    PROGRESS = auto()
    """The row of tag_write_progress is written, or deleted if its series has no rows."""
    SCANNING = auto()
    """The row of tag_scanning is written, unless its event's row is written, which is enough."""
    OTHER_ROWS = auto()
    """The missing row is written if the time bucket of its event was not compared. If the event is
    missing too, people restore it."""


@dataclass(frozen=True)
class Check:
    """A check by its name, with its rule in one line for people.

    Attributes:
        name: the name in findings, reports and Data Docs.
        rule: the statement that is true if there are no findings.
        layer: the tables that a finding is about.
        inputs: the data that the rule reads.
        remedy: a repair, or a clause for people. Events missing from messages are in no other
            table, so only a backup or an operator's decision helps. Empty for advice.
        severity: the effect of a finding.
        subject: the kind of thing that the field `tag` of a finding names.
    """

    name: str
    rule: str
    layer: Layer
    inputs: Inputs = Inputs.LAYER
    remedy: Repair | str = ""
    severity: Severity = Severity.BLOCKS
    subject: str = "tag"

    @property
    def is_repairable(self) -> bool:
        """Whether `reconcile repair` repairs findings."""
        return isinstance(self.remedy, Repair)

    @property
    def for_people(self) -> str:
        """The remedy for findings that `reconcile repair` leaves; empty if it leaves none."""
        if self.remedy is Repair.OTHER_ROWS:
            return RESTORE
        return self.remedy if isinstance(self.remedy, str) else ""


def checks_of(module: Mapping[str, object]) -> tuple[Check, ...]:
    """Return the checks that a module defines, in order of definition."""
    return tuple(value for value in module.values() if isinstance(value, Check))
