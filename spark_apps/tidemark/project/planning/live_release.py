"""The live version of a projection, and whether the next version is ready to replace it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.errors import WrongData
from tidemark.ledger.applications import PROJECT
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.piece import State
from tidemark.ledger.pieces import Pieces
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.project.definition.model import Definition
from tidemark.settings import Settings
from tidemark.text import counted

TABLE = "projection_release"
Counts = Sequence[tuple[int, int]]
"""Numbers of skipped and of read events of each piece."""


@dataclass(frozen=True)
class Live:
    """The version of a projection that its readers see.

    Attributes:
        version: version of the definition.
        table: `keyspace.table`.
        is_stored: whether a release was stored; False for a version processed in place.
        since: when the version became live.
        owner: who made it live.
    """

    version: int
    table: str
    is_stored: bool = False
    since: datetime | None = None
    owner: str = ""

    def __str__(self) -> str:
        """Return the text for reports."""
        by = f" since {self.since:%Y-%m-%d %H:%M} UTC by {self.owner}" if self.since else ""
        return f"version {self.version} is live in {self.table}{by}"


def live(control: Control, settings: Settings, definition: Definition) -> Live | None:
    """Read the live release; None if the projection was never processed."""
    if (released := stored(control, settings, definition)) is not None:
        return released
    version = in_place_version(control, settings, definition)
    return Live(version, definition.template_target) if version else None


def in_place_version(control: Control, settings: Settings, definition: Definition) -> int:
    """Return the highest version that was processed into the template table; 0 for none."""
    in_place = definition.identity(settings.journal_keyspace)
    versions = _pieces(control, settings, in_place).versions
    return max((int(version.split("-")[0]) for version in versions), default=0)


def stored(control: Control, settings: Settings, definition: Definition) -> Live | None:
    """Read the stored release, if any."""
    rows = control.execute(
        "SELECT live_version, live_table, since, owner"
        f" FROM {table(settings.keyspace, TABLE)} WHERE projection = ?",
        (definition.identity(settings.journal_keyspace),),
    )
    if not rows:
        return None
    row = rows[0]
    return Live(row["live_version"], row["live_table"], True, row["since"], row["owner"])


def is_live(current: Live | None, definition: Definition) -> bool:
    """Return whether this version is live; `current` is the result of `live`."""
    return current is not None and current.table == definition.target


def require_in_place(control: Control, settings: Settings, definition: Definition) -> None:
    """Refuse to write in place if readers see a blue/green version.

    Raises:
        DefinitionError: the projection has a blue/green release, but no longer defines one.
    """
    if definition.is_blue_green:
        return
    current = stored(control, settings, definition)
    if current is not None:
        raise definition.error(
            f"{definition.name} was released blue/green, {current}",
            "keep `release: blue-green`, or give the projection another name",
            definition.header_lines["release"],
        )


def inherited(control: Control, settings: Settings, definition: Definition) -> TimeBuckets:
    """Return the time buckets of the live version, which a new version must process, too."""
    none = TimeBuckets([], settings.bucket_size.milliseconds)
    if not definition.is_blue_green:
        return none
    current = live(control, settings, definition)
    if current is None or is_live(current, definition):
        return none
    return _pieces(control, settings, subject_of(settings, definition, current)).done


def versions_with_table(control: Control, definition: Definition) -> list[int]:
    """Return the versions that have a table of their own, ascending."""
    rows = control.execute(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?",
        (definition.keyspace,),
    )
    pattern = re.compile(rf"{re.escape(definition.template)}_v([1-9]\d*)")
    return sorted(
        int(match.group(1)) for row in rows if (match := pattern.fullmatch(row["table_name"]))
    )


def at_version(definition: Definition, version: int) -> Definition:
    """Return the definition of another version of a blue/green projection."""
    return replace(definition, version=version, table=f"{definition.template}_v{version}")


def standing(
    control: Control, settings: Settings, definition: Definition, passed: Collection[int]
) -> tuple[TimeBuckets, TimeBuckets]:
    """Return the time buckets that a version has processed, and those pending before its promotion.

    A promotion needs all time buckets of the live version and all pieces of the new version, as far
    as validate has passed them.
    """
    pieces = _pieces(control, settings, definition.subject(settings.journal_keyspace))
    done = pieces.done_by(definition.fingerprint)
    required = inherited(control, settings, definition) | pieces.known
    return done, (required & passed) - done


def skips_more(
    control: Control, settings: Settings, definition: Definition, current: Live | None
) -> WrongData | None:
    """Return an error if a version skipped a larger share of events than the live version.

    A version is accepted if all its time buckets keep to the definition's `most-skipped`. The
    shares are of pieces that still have rows in the ledger.
    """
    if current is None:
        return None
    own_counts = _counts(control, settings, definition.subject(settings.journal_keyspace))
    limit = definition.on_error.most_skipped
    if limit is not None and all(limit.allows(skipped, read) for skipped, read in own_counts):
        return None
    live_counts = _counts(control, settings, subject_of(settings, definition, current))
    if _share(own_counts) <= _share(live_counts):
        return None
    return WrongData(
        f"version {definition.version} of {definition.name} is not promoted: it skipped"
        f" {_in_words(own_counts)}, the live version {_in_words(live_counts)}",
        where=str(definition.file),
        do="correct the definition and raise its version, or state a most-skipped that allows it;"
        " then run again",
    )


def require_ready(
    control: Control,
    settings: Settings,
    definition: Definition,
    current: Live | None,
    passed: Collection[int],
) -> TimeBuckets:
    """Return the time buckets of a version that may become the live version.

    Raises:
        WrongData: it has not caught up, or skipped too many events (`skips_more`).
    """
    done, pending = standing(control, settings, definition, passed)
    if pending or not done:
        raise WrongData(
            f"version {definition.version} of {definition.name} has not caught up: in"
            f" {definition.target} {counted(len(done), 'bucket')} done, {len(pending):,} to do",
            where=str(definition.file),
            do=f"run `project.py` with version {definition.version} in the file until none is to"
            " do",
        )
    if error := skips_more(control, settings, definition, current):
        raise error
    return done


def why_not_live(
    control: Control,
    settings: Settings,
    definition: Definition,
    current: Live | None,
    passed: Collection[int],
) -> str:
    """Return why a version that has caught up is not live; "" if the next run promotes it."""
    if not definition.is_blue_green or is_live(current, definition):
        return ""
    done, pending = standing(control, settings, definition, passed)
    if pending or not done:
        return ""
    if error := skips_more(control, settings, definition, current):
        return str(error)
    if not definition.is_promoted_by_hand:
        return ""
    return (
        f"version {definition.version} is ready in {definition.target};"
        f" `project.py promote {definition.name} --apply` makes it the live one"
    )


def _counts(control: Control, settings: Settings, subject: str) -> Counts:
    entries = Pieces.of(control, settings, PROJECT, subject).entries()
    return [
        (entry.counts.get("quarantined", 0), entry.counts.get("events_read", 0))
        for entry in entries
        if entry.state is State.DONE
    ]


def _total(counts: Counts) -> tuple[int, int]:
    return sum(skipped for skipped, _ in counts), sum(read for _, read in counts)


def _share(counts: Counts) -> Fraction:
    skipped, read = _total(counts)
    return Fraction(skipped, read or 1)


def _in_words(counts: Counts) -> str:
    skipped, read = _total(counts)
    return f"{skipped:,} of {counted(read, 'event')}"


def subject_of(settings: Settings, definition: Definition, current: Live) -> str:
    """Return the ledger's name of the live version."""
    if current.table == definition.template_target:
        return definition.identity(settings.journal_keyspace)
    return at_version(definition, current.version).subject(settings.journal_keyspace)


def building(definition: Definition, done: Collection[int], pending: Collection[int]) -> str:
    """Describe the progress of a version, from the result of `standing`."""
    return (
        f"version {definition.version} is built in {definition.target},"
        f" {counted(len(done), 'bucket')} done, {len(pending):,} to do"
    )


def _pieces(control: Control, settings: Settings, subject: str) -> LedgerState:
    return Pieces.of(control, settings, PROJECT, subject).standing()
