"""A check: what it reads, what it takes for a finding, and what puts a finding right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

RESTORE = "restore the lost events from a backup or their tag views"


class Layer(StrEnum):
    """What a finding is about."""

    MESSAGES = "messages"
    TAG_VIEWS = "tag_views"
    KAFKA_JOURNAL = "kafka_journal"
    KAFKA_TOPIC = "kafka_topic"
    """The tables of kafka-journal beside the topics that they are replicated from."""
    STORAGE = "storage"
    """How long the tables keep their rows, and how they compact them."""
    PROJECTIONS = "projections"
    USER = "user"
    """What the SELECT of a user's check reads."""


class Severity(StrEnum):
    """What a finding of a check does to what is downstream."""

    BLOCKS = "blocks"
    WARNS = "warns"


class Inputs(Enum):
    """What the rule of a check reads, which decides where it is made."""

    DIFFERENCES = auto()
    """The events of a persistence id, its rows, its progress and its scanning."""
    NUMBERS = auto()
    """The same, as they are once all differences are put right: no repair changes what is found."""
    TIME_BUCKET = auto()
    """The events of a time bucket, with those just before them, or its rows."""
    MESSAGE_PARTITIONS = auto()
    """Partitions of messages: an incremental examination judges those that new events reach."""
    JOURNAL = auto()
    """All events, rows or snapshots: an incremental examination leaves the check out."""
    LAYER = auto()
    """What the layer itself reads, if it is neither messages nor tag views."""


class Repair(Enum):
    """What `reconcile repair` does about a finding."""

    ROW_WRITTEN = auto()
    ROW_DELETED = auto()
    ROW_RENUMBERED = auto()
    """The row is written under its number, then deleted under the other."""
    ROW_MOVED = auto()
    """The row is written into its time bucket, then deleted in the other."""
    PROGRESS = auto()
    """The row of tag_write_progress is written, or deleted if its series has none."""
    SCANNING = auto()
    """The row of tag_scanning is written, unless its event's row is, which puts it right."""
    OTHER_ROWS = auto()
    """The missing row is written if the time bucket of its event was not compared. Where the event
    is missing as well, people restore it."""


@dataclass(frozen=True)
class Check:
    """A check by its name, with its rule in one line for people.

    Attributes:
        name: in findings, reports and Data Docs.
        rule: what holds where it finds nothing.
        layer: the tables that a finding is about.
        inputs: what the rule reads.
        remedy: what puts a finding right: a repair, or a clause for people. What is missing from
            messages is in no other table, so only a backup or an operator's decision helps. Empty
            for advice.
        severity: what a finding does.
        subject: what the field `tag` of a finding names, if it is no tag.
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
        """Whether `reconcile repair` puts a finding right."""
        return isinstance(self.remedy, Repair)

    @property
    def for_people(self) -> str:
        """What people do about a finding that `reconcile repair` leaves, if it may leave any."""
        if self.remedy is Repair.OTHER_ROWS:
            return RESTORE
        return self.remedy if isinstance(self.remedy, str) else ""


def checks_of(module: Mapping[str, object]) -> tuple[Check, ...]:
    """Return the checks that a module defines, in the order in which it does."""
    return tuple(value for value in module.values() if isinstance(value, Check))
