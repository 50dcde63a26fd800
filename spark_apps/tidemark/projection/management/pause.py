"""Pausing and resuming projections: a flag that every run reads before it plans.

It needs no running projection and no Spark. Each change is a lightweight transaction upon the
revision that was read, and leaves an audit row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark import clock
from tidemark.application import preflight
from tidemark.cassandra.compare_and_set import compare_and_set
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.context import DONE, NOTHING, Outcome, Run
from tidemark.errors import TidemarkError
from tidemark.ledger import audit
from tidemark.projection.definition import catalog
from tidemark.projection.definition.model import Definition
from tidemark.settings import Settings

TABLE = "projection_management"


@dataclass(frozen=True)
class Standing:
    """What was said of a projection by hand, last by whom and when."""

    paused: bool = False
    revision: int = 0
    owner: str = ""
    last_updated: datetime | None = None

    def __str__(self) -> str:
        """For people."""
        if self.last_updated is None:
            return "never paused"
        what = "paused" if self.paused else "resumed"
        return f"{what} {self.last_updated:%Y-%m-%d %H:%M} UTC by {self.owner}"


def standing(control: Control, settings: Settings, definition: Definition) -> Standing:
    """How a projection stands.

    Raises:
        CassandraUnavailable: the statement failed.
    """
    rows = control.execute(
        "SELECT paused, revision, owner, last_updated"
        f" FROM {table(settings.keyspace, TABLE)} WHERE projection = ?",
        (definition.identity(settings.journal_keyspace),),
    )
    return Standing(**rows[0]) if rows else Standing()


def set_paused(run: Run, names: Sequence[str], *, paused: bool) -> Outcome:
    """Pause or resume projections; what stands so already is said and left alone.

    A run that is under way is not stopped: it finishes its pieces, the next one plans none.

    Args:
        run: the application's frame.
        names: the projections; all if empty.
        paused: what they are to be.

    Raises:
        InvalidInput: a projection is unknown.
        DefinitionError: a projection file cannot be used.
        TidemarkError: somebody else changed one of them meanwhile.
        CassandraUnavailable: a statement failed.
    """
    definitions = catalog.select(run.settings.projections_dir, names)
    preflight.check_journal(run, has_journal=catalog.reads_pekko(definitions))
    lines, changed = [], 0
    for definition in definitions:
        before = standing(run.control, run.settings, definition)
        if before.paused == paused:
            state = "paused" if paused else "not paused"
            lines.append(f"{definition.name}: is {state} already, {before}")
            continue
        _change(run, definition, before, paused)
        changed += 1
        lines.append(f"{definition.name}: {'paused' if paused else 'resumed'}")
    return Outcome(DONE if changed else NOTHING, counts={"changed": changed}, lines=lines)


def unpaused(
    run: Run, definitions: Sequence[Definition], say: Callable[[str], None]
) -> list[Definition]:
    """The definitions that a run may process; of the others `say` gets a line each.

    Raises:
        CassandraUnavailable: a statement failed.
    """
    going = []
    for definition in definitions:
        now = standing(run.control, run.settings, definition)
        if now.paused:
            say(f"{definition.name}: left out, {now}; `project.py resume {definition.name}`")
        else:
            going.append(definition)
    return going


def _change(run: Run, definition: Definition, before: Standing, paused: bool) -> None:
    settings, subject = run.settings, definition.identity(run.settings.journal_keyspace)
    is_changed = compare_and_set(
        run.control,
        table(settings.keyspace, TABLE),
        {"projection": subject},
        {
            "paused": paused,
            "revision": before.revision + 1,
            "owner": run.owner,
            "last_updated": clock.now(),
        },
        expected={"revision": before.revision} if before.revision else None,
    )
    if not is_changed:
        now = standing(run.control, settings, definition)
        raise TidemarkError(
            f"projection {definition.name} was changed meanwhile: {now}",
            where=subject,
            do="look at `project.py status` and decide anew",
        )
    operation = "pause" if paused else "resume"
    audit.record(run, operation, subject, [f"{operation} {definition.name}"], {"changed": 1})
