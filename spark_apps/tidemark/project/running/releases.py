"""Blue/green releases: makes a version of a projection live that has caught up.

A version with `release: blue-green` has its own table, ledger and offsets. Readers look up the live
version in one row; without the row, the definition's table is live if the projection was ever
processed in place.
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


def require_table(run: RunContext, analyzed: AnalyzedDefinition, *, create: bool) -> None:
    """Require that the table fits the result; with `create`, create a version's missing table.

    Raises:
        SchemaMismatch: the table differs; names every difference.
    """
    definition = analyzed.definition
    if (
        definition.is_blue_green
        and run.control.table_columns(definition.keyspace, definition.table) is None
    ):
        template = replace(analyzed, definition=replace(definition, table=definition.template))
        require_target(run, template)
        if not create:
            return
        run.say(f"{definition.name}: making the table {definition.target}")
        create_table_like(run.control, definition.keyspace, definition.template, definition.table)
    require_target(run, analyzed)


@dataclass
class Settled:
    """The outcome of the blue/green versions of a run.

    Attributes:
        lines: lines for reports.
        swapped: number of versions that became live.
        unpromoted: why other versions that have caught up did not become live.
    """

    lines: list[str] = field(default_factory=list)
    swapped: int = 0
    unpromoted: list[str] = field(default_factory=list)

    @property
    def error(self) -> WrongData | None:
        """The error of the run, if a version that has caught up did not become live."""
        return WrongData("; ".join(self.unpromoted)) if self.unpromoted else None


def settle(run: RunContext, definitions: Sequence[Definition], passed: Collection[int]) -> Settled:
    """Make versions live that have caught up, unless they skipped more events than the live one.

    A version that is promoted by hand is only reported. `passed` are the time buckets that validate
    has passed.

    Raises:
        LockHeld: another run works on the new version.
        TidemarkError: the live version was changed meanwhile.
    """
    settled = Settled()
    for definition in definitions:
        if not definition.is_blue_green:
            continue
        current = live(run.control, run.settings, definition)
        if is_live(current, definition):
            continue
        done, pending = standing(run.control, run.settings, definition, passed)
        if pending or not done:
            if done:
                live_now = f"; {current}" if current else ""
                line = f"{definition.name}: {building(definition, done, pending)}{live_now}"
                settled.lines.append(line)
            continue
        if definition.is_promoted_by_hand:
            reason = why_not_live(run.control, run.settings, definition, current, passed)
            settled.lines.append(f"{definition.name}: {reason}")
            continue
        try:
            _swap(run, definition, current, passed)
        except WrongData as error:
            settled.unpromoted.append(str(error))
            continue
        settled.lines.append(f"{definition.name}: version {definition.version} is live now")
        settled.swapped += 1
    return settled


def _swap(
    run: RunContext, definition: Definition, current: Live | None, passed: Collection[int]
) -> None:
    with lock_of(run, definition):
        done = require_ready(run.control, run.settings, definition, current, passed)
        make_live(run, definition, current)
        audit.record(
            run,
            "release",
            definition.identity(run.settings.journal_keyspace),
            [swap_line(definition, current)],
            {"buckets": len(done)},
        )


def make_live(run: RunContext, definition: Definition, current: Live | None) -> None:
    """Make this version live, unless the live version has changed; call it under the lock.

    Raises:
        TidemarkError: the live version was changed meanwhile.
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
        expected={"live_table": current.table} if current and current.is_stored else None,
    ):
        raise TidemarkError(
            f"what is live of projection {definition.name} was changed meanwhile",
            where=projection,
            do="look at `project.py releases` and run again",
        )


def swap_line(definition: Definition, current: Live | None) -> str:
    """Describe a swap, for reports and the audit table."""
    after = f"now version {definition.version} in {definition.target}"
    return f"{current or 'nothing is live'}; {after}"
