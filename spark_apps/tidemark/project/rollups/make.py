"""Makes rollups: applies the SELECT to the read model, and writes the rows that differ.

The order of the steps is fixed: read the state of the source, then its rows; write rows that
differ, delete rows that are not in the result, and record the state of the source. The next run
repeats a run that was killed between two steps, with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from tidemark.cassandra import connector
from tidemark.context import RunContext
from tidemark.project.analysis import analyze
from tidemark.project.analysis.analyze import AnalyzedDefinition
from tidemark.project.definition.catalog import Rollup
from tidemark.project.offset_store import rolled_up
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.planning.lock import lock_of
from tidemark.project.rollups import standing
from tidemark.project.transformation import result_checks
from tidemark.project.writing import write as modes
from tidemark.project.writing.mode import Counted, WriteRequest
from tidemark.project.writing.target import require_target


@dataclass(frozen=True)
class MadeRollup:
    """The result of making a rollup.

    Attributes:
        table: `keyspace.table` of the source.
        stored: counts of written and deleted rows, and warnings of checks.
    """

    table: str
    stored: Counted


def analyzed(run: RunContext, rollup: Rollup, table: str) -> AnalyzedDefinition:
    """Check a rollup's SELECT and checks against the columns of its source's table.

    Raises:
        DefinitionError: Spark does not accept them.
    """
    columns = _rows(run, table).schema
    checked = analyze.analyze_rollup(run.spark, rollup.definition, columns)
    result_checks.analyze(run.spark, checked)
    return checked


def result(run: RunContext, checked: AnalyzedDefinition, table: str) -> DataFrame:
    """Return the rows of a rollup, computed from a read model."""
    return analyze.apply(checked, _rows(run, table))


def make(run: RunContext, rollup: Rollup, *, force: bool = False) -> MadeRollup | None:
    """Update a rollup; None if it is up to date, or if its source has processed no time bucket.

    `force` makes a rollup that is up to date, too.

    Raises:
        LockHeld: another run makes the rollup.
        LockLost: the lock expired during the work.
        DefinitionError, SchemaMismatch: the SELECT, the source or the target cannot be used.
        WrongData: a blocking check fails.
        TidemarkError: the rows cannot be stored under the target's key.
    """
    definition = rollup.definition
    state = standing.read(run, rollup)
    standing.require_tables(run, rollup, state)
    if state.present is None or not (state.reason or force):
        return None
    with lock_of(run, definition) as locks:
        # Another run may have made it meanwhile.
        locked_state = standing.read(run, rollup)
        source = locked_state.present
        if source is None or not (locked_state.reason or force):
            return None
        run.say(f"{definition.name}: reading {source.table}")
        checked = analyzed(run, rollup, source.table)
        require_target(run, checked)
        store = OffsetStore.of(run, definition)
        request = WriteRequest(run, locks, store, ())
        write_counts = modes.write(request, result(run, checked, source.table), lambda: None)
        locks.check()
        rolled_up.note(store, source)
    return MadeRollup(source.table, write_counts)


def _rows(run: RunContext, table: str) -> DataFrame:
    keyspace, _, name = table.partition(".")
    columns = run.control.table_columns(keyspace, name) or {}
    return connector.read(run.spark, keyspace, name, *columns)
