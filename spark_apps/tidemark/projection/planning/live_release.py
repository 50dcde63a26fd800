"""Which version of a projection is live, and how far the next one is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.ledger.applications import PROJECT
from tidemark.ledger.frontier.standing import Standing
from tidemark.ledger.pieces import Pieces
from tidemark.partitioning.time_buckets import TimeBuckets
from tidemark.projection.definition.model import Definition
from tidemark.settings import Settings
from tidemark.text import counted

TABLE = "projection_release"


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
    in_place = definition.identity(settings.journal_keyspace)
    versions = _pieces(control, settings, in_place).versions
    used = [int(version.split("-")[0]) for version in versions]
    return Live(max(used), definition.template_target) if used else None


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
    if now is None or now.table == definition.target:
        return none
    former = definition.identity(settings.journal_keyspace)
    if now.table != definition.template_target:
        former = at_version(definition, now.version).subject(settings.journal_keyspace)
    return _pieces(control, settings, former).done


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


def building(definition: Definition, done: Collection[int], left: Collection[int]) -> str:
    """Describe how far a version is, from the result of `standing`."""
    return (
        f"version {definition.version} is built in {definition.target},"
        f" {counted(len(done), 'bucket')} done, {len(left):,} to do"
    )


def _pieces(control: Control, settings: Settings, subject: str) -> Standing:
    return Pieces.of(control, settings, PROJECT, subject).standing()
