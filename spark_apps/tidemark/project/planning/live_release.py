"""Which version of a projection is live, and how far the next one is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.errors import WrongData
from tidemark.ledger.applications import PROJECT
from tidemark.ledger.frontier.state import LedgerState
from tidemark.ledger.pieces import Pieces, State
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.project.definition.model import Definition
from tidemark.settings import Settings
from tidemark.text import counted

TABLE = "projection_release"
Counts = Sequence[tuple[int, int]]
"""How many events of each piece were skipped, and how many were read."""


@dataclass(frozen=True)
class Live:
    """What the readers of a projection see.

    Attributes:
        version: of its definition.
        table: `keyspace.table`.
        is_stored: whether a release says so; otherwise it is what was processed in place.
        since: when it was swapped to.
        owner: by whom.
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
    """Return the highest version that was processed in place, into the template; 0 for none."""
    in_place = definition.identity(settings.journal_keyspace)
    versions = _pieces(control, settings, in_place).versions
    return max((int(version.split("-")[0]) for version in versions), default=0)


def stored(control: Control, settings: Settings, definition: Definition) -> Live | None:
    """Read the release that readers look up, if there is one."""
    rows = control.execute(
        "SELECT live_version, live_table, since, owner"
        f" FROM {table(settings.keyspace, TABLE)} WHERE projection = ?",
        (definition.identity(settings.journal_keyspace),),
    )
    if not rows:
        return None
    row = rows[0]
    return Live(row["live_version"], row["live_table"], True, row["since"], row["owner"])


def is_live(now: Live | None, definition: Definition) -> bool:
    """Return whether the readers see this version, by the result of `live`."""
    return now is not None and now.table == definition.target


def require_in_place(control: Control, settings: Settings, definition: Definition) -> None:
    """Refuse to write in place what readers look up elsewhere.

    Raises:
        DefinitionError: the projection was released blue/green and is not any more.
    """
    if definition.is_blue_green:
        return
    now = stored(control, settings, definition)
    if now is not None:
        raise definition.error(
            f"{definition.name} was released blue/green, {now}",
            "keep `release: blue-green`, or give the projection another name",
            definition.header_lines["release"],
        )


def inherited(control: Control, settings: Settings, definition: Definition) -> TimeBuckets:
    """Return the time buckets that the live version has processed and a new version has to."""
    none = TimeBuckets([], settings.bucket_size.milliseconds)
    if not definition.is_blue_green:
        return none
    now = live(control, settings, definition)
    if now is None or is_live(now, definition):
        return none
    return _pieces(control, settings, subject_of(settings, definition, now)).done


def at_version(definition: Definition, version: int) -> Definition:
    """Return another version of a blue/green projection: its table, its name in the ledger."""
    return replace(definition, version=version, table=f"{definition.template}_v{version}")


def standing(
    control: Control, settings: Settings, definition: Definition, passed: Collection[int]
) -> tuple[TimeBuckets, TimeBuckets]:
    """Return the time buckets that a version has processed, and those still needed for its swap.

    A swap needs all time buckets that the live version has processed, and all pieces of the version
    that validate has passed.
    """
    pieces = _pieces(control, settings, definition.subject(settings.journal_keyspace))
    done = pieces.done_by(definition.fingerprint)
    wanted = inherited(control, settings, definition) | pieces.known
    return done, (wanted & passed) - done


def skips_more(
    control: Control, settings: Settings, definition: Definition, now: Live | None
) -> WrongData | None:
    """Return why a version is not promoted: it skipped a larger share of events than the live one.

    A version whose time buckets all keep to the `most-skipped` of its definition is promoted. The
    shares are those of the pieces whose rows the ledger still has.
    """
    if now is None:
        return None
    own = _counts(control, settings, definition.subject(settings.journal_keyspace))
    limit = definition.on_error.most_skipped
    if limit is not None and all(limit.allows(skipped, read) for skipped, read in own):
        return None
    others = _counts(control, settings, subject_of(settings, definition, now))
    if _share(own) <= _share(others):
        return None
    return WrongData(
        f"version {definition.version} of {definition.name} is not promoted: it skipped"
        f" {_in_words(own)}, the live version {_in_words(others)}",
        where=str(definition.file),
        do="correct the definition and raise its version, or state a most-skipped that allows it;"
        " then run again",
    )


def require_ready(
    control: Control,
    settings: Settings,
    definition: Definition,
    now: Live | None,
    passed: Collection[int],
) -> TimeBuckets:
    """Return the time buckets of a version that may become the live one.

    Raises:
        WrongData: it has not caught up, or it skipped more than the live version, as `skips_more`
            compares them.
    """
    done, left = standing(control, settings, definition, passed)
    if left or not done:
        raise WrongData(
            f"version {definition.version} of {definition.name} has not caught up: in"
            f" {definition.target} {counted(len(done), 'bucket')} done, {len(left):,} to do",
            where=str(definition.file),
            do=f"run `project.py` with version {definition.version} in the file until none is to"
            " do",
        )
    if more := skips_more(control, settings, definition, now):
        raise more
    return done


def why_not_live(
    control: Control,
    settings: Settings,
    definition: Definition,
    now: Live | None,
    passed: Collection[int],
) -> str:
    """Return why a version is not live though it has caught up; "" if the next run promotes it."""
    if not definition.is_blue_green or is_live(now, definition):
        return ""
    done, left = standing(control, settings, definition, passed)
    if left or not done:
        return ""
    if more := skips_more(control, settings, definition, now):
        return str(more)
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


def subject_of(settings: Settings, definition: Definition, now: Live) -> str:
    """Return the name of the live version in the ledger."""
    if now.table == definition.template_target:
        return definition.identity(settings.journal_keyspace)
    return at_version(definition, now.version).subject(settings.journal_keyspace)


def building(definition: Definition, done: Collection[int], left: Collection[int]) -> str:
    """Describe how far a version is, from the result of `standing`."""
    return (
        f"version {definition.version} is built in {definition.target},"
        f" {counted(len(done), 'bucket')} done, {len(left):,} to do"
    )


def _pieces(control: Control, settings: Settings, subject: str) -> LedgerState:
    return Pieces.of(control, settings, PROJECT, subject).standing()
