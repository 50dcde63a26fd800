"""The rollups of a run, made after the projections whose read models they read."""

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
    """Update a rollup and add the result to the tally; a failure stops no other projection."""
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
    """Return whether a run makes a rollup; `planned` are the projections that have pieces."""
    return rollup.source.name in planned or bool(standing.read(run, rollup).reason)


def checked_lines(
    run: RunContext, rollup: Rollup, planned: Collection[str], rows: int
) -> list[str]:
    """Check a rollup as a run does; with `rows`, show that many rows, and the table to create.

    Raises:
        DefinitionError, SchemaMismatch: the SELECT, the source or the target cannot be used.
    """
    definition, name = rollup.definition, rollup.definition.name
    state = standing.read(run, rollup)
    standing.require_tables(run, rollup, state)
    lines = [line(run, rollup, planned)]
    if state.present is None or not (state.reason or rows):
        return lines
    analyzed = make.analyzed(run, rollup, state.present.table)
    if rows and lacks_table(run, definition):
        lines.append(f"{name}: {definition.target} does not exist yet; this makes it")
        lines += create_statement(run, analyzed)
    else:
        require_target(run, analyzed)
    if rows:
        lines.append(f"{name}: the first {rows} rows of the result")
        lines += table_lines(make.result(run, analyzed, state.present.table), rows)
    return lines


def line(run: RunContext, rollup: Rollup, planned: Collection[str] = ()) -> str:
    """Describe the state of a rollup; `planned` are the projections that have pieces."""
    source = rollup.source.name
    after = f"; {source} is planned, and the rollup comes after it" if source in planned else ""
    return f"{rollup.definition.name}: {standing.read(run, rollup).line(rollup)}{after}"
