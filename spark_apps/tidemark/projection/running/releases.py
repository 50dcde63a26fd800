"""Blue/green: which version of a projection its readers see, and the swap to one that caught up.

A version with `release: blue-green` has a table, a ledger and offsets of its own. What is live is
one row, which readers look up; without a row it is the table that the definition names, if the
projection has ever been processed in place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tidemark import clock
from tidemark.cassandra.compare_and_set import compare_and_set
from tidemark.cassandra.control import Control
from tidemark.cassandra.likeness import create_like
from tidemark.cassandra.schema import table
from tidemark.context import Run
from tidemark.errors import TidemarkError
from tidemark.ledger import audit
from tidemark.ledger.applications import PROJECT
from tidemark.ledger.pieces import Entry, Pieces, State
from tidemark.projection.analysis.analyze import Checked
from tidemark.projection.definition.model import Definition
from tidemark.projection.planning.lock import lock_of
from tidemark.projection.writing.target import require_target
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
        """For people."""
        by = f" since {self.since:%Y-%m-%d %H:%M} UTC by {self.owner}" if self.since else ""
        return f"version {self.version} is live in {self.table}{by}"


def live(control: Control, settings: Settings, definition: Definition) -> Live | None:
    """What is live; None if the projection was never processed.

    Raises:
        CassandraUnavailable: a statement failed.
    """
    if (released := stored(control, settings, definition)) is not None:
        return released
    in_place = definition.identity(settings.journal_keyspace)
    versions = [
        entry.definition_version
        for entry in _entries(control, settings, in_place)
        if entry.state is State.DONE
    ]
    used = [int(version.split("-")[0]) for version in versions if version]
    return Live(max(used), definition.template_target) if used else None


def stored(control: Control, settings: Settings, definition: Definition) -> Live | None:
    """The release that readers look up, if there is one.

    Raises:
        CassandraUnavailable: the statement failed.
    """
    rows = control.execute(
        "SELECT live_version, live_table, since, owner"
        f" FROM {table(settings.keyspace, TABLE)} WHERE projection = ?",
        (definition.identity(settings.journal_keyspace),),
    )
    if not rows:
        return None
    row = rows[0]
    return Live(row["live_version"], row["live_table"], True, row["since"], row["owner"])


def inherited(control: Control, settings: Settings, definition: Definition) -> set[int]:
    """The time buckets that the live version has processed and a new one has to.

    Raises:
        CassandraUnavailable: a statement failed.
    """
    if not definition.is_blue_green:
        return set()
    now = live(control, settings, definition)
    if now is None or now.table == definition.target:
        return set()
    former = definition.identity(settings.journal_keyspace)
    if now.table != definition.template_target:
        former = at_version(definition, now.version).subject(settings.journal_keyspace)
    entries = _entries(control, settings, former)
    return {entry.time_bucket for entry in entries if entry.state is State.DONE}


def at_version(definition: Definition, version: int) -> Definition:
    """Another version of a blue/green projection: its table and its name in the ledger."""
    return replace(definition, version=version, table=f"{definition.template}_v{version}")


def require_in_place(
    control: Control, settings: Settings, definitions: Sequence[Definition]
) -> None:
    """Refuse to write in place what readers look up elsewhere.

    Raises:
        DefinitionError: a projection that was released blue/green is not any more.
        CassandraUnavailable: a statement failed.
    """
    for definition in definitions:
        if definition.is_blue_green:
            continue
        now = stored(control, settings, definition)
        if now is not None:
            raise definition.error(
                f"{definition.name} was released blue/green, {now}",
                "keep `release: blue-green`, or give the projection another name",
                definition.header_lines["release"],
            )


def require_table(run: Run, checked: Checked, *, create: bool) -> None:
    """Refuse a result that its table cannot hold; a version's own table is made if it is missing.

    Raises:
        SchemaMismatch: naming every difference at once.
        CassandraUnavailable: a statement failed.
    """
    definition = checked.definition
    if (
        definition.is_blue_green
        and run.control.table_columns(definition.keyspace, definition.table) is None
    ):
        template = replace(checked, definition=replace(definition, table=definition.template))
        require_target(run.control, template)
        if not create:
            return
        run.say(f"{definition.name}: making the table {definition.target}")
        create_like(run.control, definition.keyspace, definition.template, definition.table)
    require_target(run.control, checked)


def settle(
    run: Run, definitions: Sequence[Definition], passed: Collection[int]
) -> tuple[list[str], int]:
    """Swap to every version that has caught up; lines for people, and how many were swapped.

    Args:
        run: the application's frame.
        definitions: the projections of the run.
        passed: the time buckets that validate is done with.

    Raises:
        LockHeld: another run works on the new version.
        TidemarkError: somebody else changed what is live meanwhile.
        CassandraUnavailable: a statement failed.
    """
    lines, swapped = [], 0
    for definition in definitions:
        if not definition.is_blue_green:
            continue
        before = live(run.control, run.settings, definition)
        if before is not None and before.table == definition.target:
            continue
        done, left = standing(run.control, run.settings, definition, passed)
        if left or not done:
            if done:
                beside = f"; {before}" if before else ""
                lines.append(f"{definition.name}: {building(definition, done, left)}{beside}")
            continue
        _swap(run, definition, before, passed)
        lines.append(f"{definition.name}: version {definition.version} is live now")
        swapped += 1
    return lines, swapped


def standing(
    control: Control, settings: Settings, definition: Definition, passed: Collection[int]
) -> tuple[set[int], set[int]]:
    """The time buckets that a version has processed, and those that it needs to be swapped to.

    Those are what the live version has processed, and its own pieces that are not done, as far as
    validate has passed them.

    Raises:
        CassandraUnavailable: a statement failed.
    """
    entries = _entries(control, settings, definition.subject(settings.journal_keyspace))
    done = {entry.time_bucket for entry in entries if entry.is_done(definition.fingerprint)}
    wanted = inherited(control, settings, definition) | {entry.time_bucket for entry in entries}
    return done, (wanted & set(passed)) - done


def building(definition: Definition, done: Collection[int], left: Collection[int]) -> str:
    """How far the version is by what `standing` says, for people."""
    return (
        f"version {definition.version} is built in {definition.target},"
        f" {counted(len(done), 'bucket')} done, {len(left):,} to do"
    )


def _swap(run: Run, definition: Definition, before: Live | None, passed: Collection[int]) -> None:
    settings, projection = run.settings, definition.identity(run.settings.journal_keyspace)
    with lock_of(run, definition):
        done, left = standing(run.control, settings, definition, passed)
        is_ready = bool(done) and not left
        if not is_ready or not compare_and_set(
            run.control,
            table(settings.keyspace, TABLE),
            {"projection": projection},
            {
                "live_version": definition.version,
                "live_table": definition.target,
                "since": clock.now(),
                "owner": run.owner,
            },
            expected={"live_table": before.table} if before and before.is_stored else None,
        ):
            raise TidemarkError(
                f"what is live of projection {definition.name} was changed meanwhile",
                where=projection,
                do="look at `project.py releases` and run again",
            )
        now = f"now version {definition.version} in {definition.target}"
        audit.record(
            run,
            "release",
            projection,
            [f"{before or 'nothing is live'}; {now}"],
            {"buckets": len(done)},
        )


def _entries(control: Control, settings: Settings, subject: str) -> list[Entry]:
    return Pieces.of(control, settings, PROJECT, subject).entries()
