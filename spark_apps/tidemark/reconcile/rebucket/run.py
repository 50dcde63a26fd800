"""reconcile rebucket: copies the tag views into a new table with another bucket size.

Pekko cannot do this. Every run compares the two tables and corrects the new one: the first run
finds it empty and copies all rows, later ones copy new rows and delete those that the old table has
lost. Then they are compared again, so that a successful run has verified them, row for row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.cassandra.schema import identifier
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, TidemarkError, WrongData
from tidemark.journals.pekko import bucket_size
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.reconcile.operation import ReconcileOperation
from tidemark.reconcile.rebucket import compare as rebucket_rows
from tidemark.reconcile.rebucket import read as rebucket_read
from tidemark.reconcile.rebucket import store as rebucket_store
from tidemark.reconcile.rebucket.compare import DIFFERENT, EXTRA, MISSING, Totals, ViewDifference
from tidemark.settings import Settings
from tidemark.window import from_millis, iso, to_millis

ROUNDS = 3
LOOK_BACK_BUCKETS = 2


def operation(
    to: BucketSize, table_name: str | None = None, *, recheck: bool = False
) -> ReconcileOperation:
    """Update a table of tag views with that bucket size from the configured one, and verify it.

    Events younger than the eventual-consistency delay are left to the next run. A run after a
    verified one compares from two time buckets before the end of that one, unless `recheck`. The
    table is by default `<old table>_<bucket size>`, such as `tag_views_day`.

    Raises:
        InvalidInput: when planning: it is the configured bucket size or table, or the table was
            not made by rebucket.
        WrongData: when planning: that table is in use, so that its newest rows would be deleted.
    """
    return ReconcileOperation(
        "rebucket", f"to {to.value}", lambda run: _plan(run, to, table_name, recheck=recheck)
    )


def _plan(run: RunContext, to: BucketSize, table_name: str | None, *, recheck: bool) -> Plan:
    source, target = run.settings, _target(run, to, table_name)
    delay = source.events_by_tag_eventual_consistency_delay
    end_ms = to_millis(clock.now()) - round(delay * 1000)
    state = rebucket_store.read_state(run.control, target)
    if _exists(run, target):
        first_ms = None if recheck else _compare_from(source, target, state)
        tables = _Tables(run, target, first_ms, end_ms)
        _require_not_used(run, target)
        difference = tables.compare()
        _require_no_newer_rows(tables, difference)
        totals = difference.totals
    else:
        run.say(f"counting the rows of {source.events_by_tag_table}")
        rows = rebucket_read.keys(run, source).where(rebucket_rows.before(end_ms))
        tables, difference = _Tables(run, target, None, end_ms), None
        totals = Totals(equal=0, missing=rows.count(), extra=0, different=0)
    counts = _counts(totals)

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        sums = Counter(counts)
        differing = difference
        if differing is None:
            differing = _copy(tables, counts["rows_copied"], ensure_locked)
            sums.update(_counts(differing.totals))
        return _correct_all(tables, differing, sums, ensure_locked)

    is_verified = state is not None and state.verified_to is not None
    is_up_to_date = difference is not None and is_verified and not totals.differing
    lines = _lines(source, target, totals, tables.first_ms) + _how_to_switch(source, target)
    return Plan(counts, lines, None if is_up_to_date else apply)


@dataclass(frozen=True)
class _Tables:
    """The configured tag views and the new ones, as far as they are compared.

    Attributes:
        run: its settings name the configured tag views.
        target: settings that name the new ones.
        first_ms: the first time bucket that is compared, epoch ms; None for all of them.
        end_ms: events from this time on are left out, epoch ms.
    """

    run: RunContext
    target: Settings
    first_ms: int | None
    end_ms: int

    def source_rows(self) -> DataFrame:
        """Read the configured tag views with the time buckets of the new ones, and their ttl."""
        rows = rebucket_read.rows(self.run, self.run.settings, self.first_ms, with_ttl=True)
        older = rows.where(rebucket_rows.before(self.end_ms))
        return rebucket_rows.rebucketed(older, self.target.bucket_size)

    def compare(self) -> ViewDifference:
        """Compare both tables, row for row."""
        self.run.say("comparing both tables, row for row")
        target_rows = rebucket_read.rows(self.run, self.target, self.first_ms)
        return rebucket_rows.compare(
            self.source_rows().drop("ttl"), target_rows.where(rebucket_rows.before(self.end_ms))
        )


def _copy(tables: _Tables, rows: int, ensure_locked: EnsureLocked) -> ViewDifference:
    """Create the new table, copy all rows, and compare."""
    run = tables.run
    ensure_locked()
    rebucket_store.create_table(run.control, run.settings, tables.target)
    ensure_locked()
    run.say(f"copying {rows:,} rows")
    rebucket_store.copy_rows(tables.source_rows(), tables.target)
    return tables.compare()


def _correct_all(
    tables: _Tables, difference: ViewDifference, done: Counter[str], ensure_locked: EnsureLocked
) -> Mapping[str, int]:
    """Correct the rows that differ and compare again, until none differ.

    Raises:
        TidemarkError: rows still differ after `ROUNDS`.
    """
    run, target = tables.run, tables.target
    for _ in range(ROUNDS):
        if not difference.totals.differing:
            ensure_locked()
            rebucket_store.write_verified(run.control, target, from_millis(tables.end_ms))
            return {**done, "rows_verified": difference.totals.equal}
        _correct(tables, difference, ensure_locked)
        difference = tables.compare()
        done.update(_counts(difference.totals))
    raise TidemarkError(
        f"after {ROUNDS} rounds {run.settings.events_by_tag_table} and"
        f" {target.events_by_tag_table} still differ in {difference.totals.differing:,} rows",
        where=run.settings.journal_keyspace,
        do="stop the writers and run again; if that does not help, run `reconcile check`",
    )


def _correct(tables: _Tables, difference: ViewDifference, ensure_locked: EnsureLocked) -> None:
    verdict = F.col("verdict")
    tables.run.say(f"putting {difference.totals.differing:,} rows right")
    ensure_locked()
    rebucket_store.delete_rows(difference.rows.where(verdict.isin(EXTRA, DIFFERENT)), tables.target)
    ensure_locked()
    keys_to_copy = difference.rows.where(verdict.isin(MISSING, DIFFERENT)).drop("verdict")
    rows = tables.source_rows().join(keys_to_copy, on=rebucket_rows.KEY, how="left_semi")
    rebucket_store.copy_rows(rows, tables.target)


def _require_no_newer_rows(tables: _Tables, difference: ViewDifference) -> None:
    """Refuse to delete rows that are newer than all rows of the source.

    Raises:
        WrongData: somebody writes the target.
    """
    if not difference.totals.extra:
        return
    extra_rows = difference.rows.where(F.col("verdict") == EXTRA)
    newest = rebucket_rows.newest_ticks(extra_rows)
    if newest > rebucket_rows.newest_ticks(tables.source_rows()):
        raise _in_use(tables.run, tables.target, "it has rows that are newer than all of")


def _target(run: RunContext, to: BucketSize, table_name: str | None) -> Settings:
    """Return settings that name the new tag views.

    Raises:
        InvalidInput: they are the configured ones, or a table that rebucket did not make.
    """
    settings = run.settings
    name = table_name or f"{settings.events_by_tag_table}_{to.value.lower()}"
    if settings.bucket_size is to or settings.events_by_tag_table == name:
        raise InvalidInput(
            f"the tag views in {settings.events_by_tag_table} have bucket size"
            f" {settings.bucket_size.value} already",
            where="--to, --table",
            do="name another bucket size and another table",
        )
    identifier(name)
    target = rebucket_read.settings_of(settings, name, to)
    if _exists(run, target) and bucket_size.recorded_bucket_size(run.control, target) is not to:
        raise InvalidInput(
            f"table {name} exists, and not as tag views of bucket size {to.value}",
            where=settings.journal_keyspace,
            do="name another table with --table",
        )
    return target


def _compare_from(
    source: Settings, target: Settings, state: rebucket_store.CopyState | None
) -> int | None:
    """Return the first time bucket to compare, common to both sizes; None for all."""
    if state is None or state.verified_to is None:
        return None
    size = max(source.bucket_size, target.bucket_size, key=lambda size: size.milliseconds)
    first = keys.time_bucket(to_millis(state.verified_to), size)
    return first - LOOK_BACK_BUCKETS * size.milliseconds


def _require_not_used(run: RunContext, target: Settings) -> None:
    """Refuse to update tag views from a source that is no longer written.

    Raises:
        WrongData: the target was written by tag-write or reconcile since the source was.
    """
    of_source = bucket_size.recorded_at(run.control, run.settings)
    of_target = bucket_size.recorded_at(run.control, target)
    if of_source and of_target and of_target > of_source:
        raise _in_use(run, target, "tag-write or reconcile wrote to it later than to")


def _in_use(run: RunContext, target: Settings, evidence: str) -> WrongData:
    old, new = run.settings.events_by_tag_table, target.events_by_tag_table
    return WrongData(
        f"{new} is in use: {evidence} {old}, and those rows would be deleted",
        where=run.settings.journal_keyspace,
        do=f"set TIDEMARK_EVENTS_BY_TAG_TABLE={new} TIDEMARK_BUCKET_SIZE="
        f"{target.bucket_size.value}, as after a switch; if nobody uses {new} yet, drop it and"
        " rebucket anew",
    )


def _exists(run: RunContext, target: Settings) -> bool:
    columns = run.control.table_columns(target.journal_keyspace, target.events_by_tag_table)
    return columns is not None


def _counts(totals: Totals) -> dict[str, int]:
    return {
        "rows_copied": totals.missing + totals.different,
        "rows_deleted": totals.extra + totals.different,
        "rows_verified": totals.equal,
    }


def _lines(source: Settings, target: Settings, totals: Totals, first_ms: int | None) -> list[str]:
    old, new = source.events_by_tag_table, target.events_by_tag_table
    compared = "all rows" if first_ms is None else f"rows from {iso(from_millis(first_ms))} on"
    return [
        f"{old} ({source.bucket_size.value}) to {new} ({target.bucket_size.value}), {compared}:"
        f" {totals.missing:,} to copy, {totals.different:,} to replace, {totals.extra:,} to delete,"
        f" {totals.equal:,} equal",
    ]


def _how_to_switch(source: Settings, target: Settings) -> list[str]:
    old, new, size = source.events_by_tag_table, target.events_by_tag_table, target.bucket_size
    delay = source.events_by_tag_eventual_consistency_delay
    return [
        f"to switch to {new}: stop the actors and the readers; {delay:g} s later rebucket once"
        " more, until there is nothing to do; set",
        f'  pekko.persistence.cassandra.events-by-tag.table = "{new}"',
        f'  pekko.persistence.cassandra.events-by-tag.bucket-size = "{size.value}"',
        f"  TIDEMARK_EVENTS_BY_TAG_TABLE={new} TIDEMARK_BUCKET_SIZE={size.value}",
        f"start them again; when all is well: reconcile rebucket --drop-old {old} --apply",
    ]
