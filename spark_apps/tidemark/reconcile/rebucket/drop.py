"""reconcile rebucket --drop-old: drops the old tag views after the switch to new ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.cassandra.schema import identifier
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, WrongData
from tidemark.journals.pekko import bucket_size
from tidemark.reconcile.operation import ReconcileOperation
from tidemark.reconcile.rebucket import compare as rebucket_rows
from tidemark.reconcile.rebucket import read as rebucket_read
from tidemark.reconcile.rebucket import store as rebucket_store


def operation(old_table: str) -> ReconcileOperation:
    """Drop tag views that were re-bucketed into the configured ones, if those have all their rows.

    Rows that only the configured table has were written after the switch.

    Raises:
        InvalidInput: when planning: the configured table was not made from that table.
        WrongData: when planning: rows of the old table are missing in the configured one.
    """
    return ReconcileOperation("rebucket drop-old", old_table, lambda run: _plan(run, old_table))


def _plan(run: RunContext, old_table: str) -> Plan:
    settings = run.settings
    new = settings.events_by_tag_table
    _require_switched(run, old_table)
    counts = {"rows_verified": 0, "tables_dropped": 0}
    if run.control.table_columns(settings.journal_keyspace, old_table) is None:
        line = f"table {old_table} is gone already, as a run that died left it"
        return Plan(counts, [line], partial(_drop, run, old_table, counts))
    run.say(f"looking for every row of {old_table} in {new}")
    old = rebucket_read.settings_of(settings, old_table, settings.bucket_size)
    totals = rebucket_rows.compare(
        rebucket_rows.rebucketed(rebucket_read.rows(run, old, None), settings.bucket_size),
        rebucket_read.rows(run, settings, None),
    ).totals
    if totals.missing or totals.different:
        raise WrongData(
            f"{totals.missing:,} rows of {old_table} are not in {new}, {totals.different:,} differ",
            where=settings.journal_keyspace,
            do="nothing was dropped; somebody still writes the old table, or rows of the new one"
            " were deleted or purged: then drop the old one by hand",
        )
    counts = {"rows_verified": totals.equal, "tables_dropped": 1}
    line = f"drop table {old_table}: all its {totals.equal:,} rows are in {new}"
    return Plan(counts, [line], partial(_drop, run, old_table, counts))


def _drop(
    run: RunContext, old_table: str, counts: Mapping[str, int], ensure_locked: EnsureLocked
) -> Mapping[str, int]:
    ensure_locked()
    rebucket_store.drop_table(run.control, run.settings, old_table)
    ensure_locked()
    rebucket_store.forget(run.control, run.settings)
    return counts


def _require_switched(run: RunContext, old_table: str) -> None:
    """Require that the configured table was made from the old one, in its bucket size."""
    settings = run.settings
    new = settings.events_by_tag_table
    identifier(old_table)
    state = rebucket_store.read_state(run.control, settings)
    recorded = bucket_size.recorded_bucket_size(run.control, settings)
    if state is None or state.source != old_table or recorded is not settings.bucket_size:
        raise InvalidInput(
            f"{new}, the configured table, was not re-bucketed from {old_table}",
            where="--drop-old, TIDEMARK_EVENTS_BY_TAG_TABLE, TIDEMARK_BUCKET_SIZE",
            do="drop the old table after the switch, with the new table and bucket size configured",
        )
