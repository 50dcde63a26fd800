"""Blue/green: which version of a projection its readers see, and the swap to one that caught up.

A version with `release: blue-green` has a table, a ledger and offsets of its own. What is live is
one row, which readers look up; without a row it is the table that the definition names, if the
projection has ever been processed in place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from tidemark import clock
from tidemark.cassandra.conditional import compare_and_set
from tidemark.cassandra.schema import create_table_like, table
from tidemark.context import RunContext
from tidemark.errors import TidemarkError, WrongData
from tidemark.ledger import audit
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.model import Definition
from tidemark.project.planning.live_release import (
    TABLE,
    Live,
    building,
    is_live,
    live,
    require_ready,
    standing,
    why_not_live,
)
from tidemark.project.planning.lock import lock_of
from tidemark.project.writing.target import require_target


def require_table(run: RunContext, checked: AnalyzedDefinition, *, create: bool) -> None:
    """Refuse a result that its table cannot hold; a version's own table is made if it is missing.

    Raises:
        SchemaMismatch: naming every difference at once.
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
        create_table_like(run.control, definition.keyspace, definition.template, definition.table)
    require_target(run.control, checked)


@dataclass
class Settled:
    """What became of the blue/green versions of a run.

    Attributes:
        lines: for reports.
        swapped: how many are live now.
        unpromoted: why others are not, though they have caught up.
    """

    lines: list[str] = field(default_factory=list)
    swapped: int = 0
    unpromoted: list[str] = field(default_factory=list)

    @property
    def error(self) -> WrongData | None:
        """The error of the run, if a version that has caught up is not live."""
        return WrongData("; ".join(self.unpromoted)) if self.unpromoted else None


def settle(run: RunContext, definitions: Sequence[Definition], passed: Collection[int]) -> Settled:
    """Swap every version that has caught up, unless it skipped more events than the live one.

    A version that is promoted by hand is only reported.

    Args:
        run: the context of the run.
        definitions: the projections of the run.
        passed: the time buckets that validate is done with.

    Raises:
        LockHeld: another run works on the new version.
        TidemarkError: somebody else changed what is live meanwhile.
    """
    settled = Settled()
    for definition in definitions:
        if not definition.is_blue_green:
            continue
        before = live(run.control, run.settings, definition)
        if is_live(before, definition):
            continue
        done, left = standing(run.control, run.settings, definition, passed)
        if left or not done:
            if done:
                beside = f"; {before}" if before else ""
                line = f"{definition.name}: {building(definition, done, left)}{beside}"
                settled.lines.append(line)
            continue
        if definition.is_promoted_by_hand:
            reason = why_not_live(run.control, run.settings, definition, before, passed)
            settled.lines.append(f"{definition.name}: {reason}")
            continue
        try:
            _swap(run, definition, before, passed)
        except WrongData as error:
            settled.unpromoted.append(str(error))
            continue
        settled.lines.append(f"{definition.name}: version {definition.version} is live now")
        settled.swapped += 1
    return settled


def _swap(
    run: RunContext, definition: Definition, before: Live | None, passed: Collection[int]
) -> None:
    with lock_of(run, definition):
        done = require_ready(run.control, run.settings, definition, before, passed)
        make_live(run, definition, before)
        audit.record(
            run,
            "release",
            definition.identity(run.settings.journal_keyspace),
            [swap_line(definition, before)],
            {"buckets": len(done)},
        )


def make_live(run: RunContext, definition: Definition, before: Live | None) -> None:
    """Let readers see this version, if what is live is still what it was; under its lock.

    Raises:
        TidemarkError: somebody else changed what is live meanwhile.
    """
    settings, projection = run.settings, definition.identity(run.settings.journal_keyspace)
    if not compare_and_set(
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


def swap_line(definition: Definition, before: Live | None) -> str:
    """Return what a swap changes, for reports and the audit table."""
    now = f"now version {definition.version} in {definition.target}"
    return f"{before or 'nothing is live'}; {now}"
