"""The rollups of a run, which come after the projections whose read models they read."""

from __future__ import annotations

from collections.abc import Collection

from tidemark.context import RunContext
from tidemark.project.definition.catalog import Rollup
from tidemark.project.rollups import make, standing
from tidemark.project.running.outcome import RunTally, failure_of
from tidemark.project.testing.preview import table_lines
from tidemark.project.writing.target import create_statement, lacks_table, require_target
from tidemark.text import counted


def attempt(run: RunContext, rollup: Rollup, tally: RunTally, *, force: bool) -> None:
    """Bring a rollup up to date, and add what came of it; its failure stops no other projection."""
    name = rollup.definition.name
    failure = failure_of(lambda: _make(run, rollup, tally, force=force))
    if failure is not None:
        tally.lines.append(f"{name}: failed")
        tally.errors.append(failure.within(f"projection {name} failed"))


def _make(run: RunContext, rollup: Rollup, tally: RunTally, *, force: bool) -> None:
    definition = rollup.definition
    made = make.make(run, rollup, force=force)
    if made is None:
        tally.lines.append(line(run, rollup))
        return
    tally.rollups += 1
    tally.counts["rows_written"] += made.stored.rows
    tally.counts["rows_deleted"] += made.stored.deleted
    tally.counts["check_warnings"] += sum(check.failing for check in made.stored.warnings)
    tally.read.add(made.table)
    tally.written.add(definition.target)
    if rollup.source.name in tally.moved:
        tally.moved[definition.name] = tally.moved[rollup.source.name]
    tally.lines.append(
        f"{definition.name}: made from {made.table}, {counted(made.stored.rows, 'row')} written,"
        f" {made.stored.deleted:,} deleted"
    )
    tally.lines += [f"{definition.name}: warning: {check}" for check in made.stored.warnings]


def is_due(run: RunContext, rollup: Rollup, planned: Collection[str]) -> bool:
    """Return whether a run makes a rollup, if the projections of these names have pieces to do."""
    return rollup.source.name in planned or bool(standing.read(run, rollup).reason)


def tried(run: RunContext, rollup: Rollup, planned: Collection[str], rows: int) -> list[str]:
    """Check a rollup as a run does; with `rows`, show so many of its rows, and a table to create.

    Args:
        run: the context of the run.
        rollup: the projection.
        planned: the projections that have pieces to do.
        rows: 0 to show none.

    Raises:
        DefinitionError, SchemaMismatch: the SELECT, the source or the target cannot be used.
    """
    definition, name = rollup.definition, rollup.definition.name
    now = standing.read(run, rollup)
    standing.require_tables(run, rollup, now)
    lines = [line(run, rollup, planned)]
    if now.present is None or not (now.reason or rows):
        return lines
    checked = make.analyzed(run, rollup, now.present.table)
    if rows and lacks_table(run.control, definition):
        lines.append(f"{name}: {definition.target} does not exist yet; this makes it")
        lines += create_statement(checked)
    else:
        require_target(run.control, checked)
    if rows:
        lines.append(f"{name}: the first {rows} rows of the result")
        lines += table_lines(make.result(run, checked, now.present.table), rows)
    return lines


def line(run: RunContext, rollup: Rollup, planned: Collection[str] = ()) -> str:
    """Return how a rollup stands, if the projections of these names have pieces to do."""
    source = rollup.source.name
    after = f"; {source} is planned, and the rollup comes after it" if source in planned else ""
    return f"{rollup.definition.name}: {standing.read(run, rollup).line(rollup)}{after}"
