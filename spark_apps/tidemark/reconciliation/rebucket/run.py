"""reconcile rebucket: the tag views in another bucket size, in a table beside the old one.

Pekko cannot do this. Every run compares the two tables and puts the new one right: the first run
finds it empty and copies all, later ones copy what arrived meanwhile and delete what went. Then
they are compared again, so that a run that ends well has verified them, row for row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.cassandra.schema import identifier
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, TidemarkError, WrongData
from tidemark.journal import bucket_size
from tidemark.partitioning import keys
from tidemark.partitioning.keys import BucketSize
from tidemark.reconciliation.operation import Operation, Plan
from tidemark.reconciliation.rebucket import compare as rebucket_rows
from tidemark.reconciliation.rebucket import read as rebucket_read
from tidemark.reconciliation.rebucket import store as rebucket_store
from tidemark.reconciliation.rebucket.compare import DIFFERENT, EXTRA, MISSING, Difference, Totals
from tidemark.settings import Settings
from tidemark.window import from_millis, iso, to_millis

ROUNDS = 3
LOOK_BACK_BUCKETS = 2


def operation(
    to: BucketSize, table_name: str | None = None, *, thorough: bool = False
) -> Operation[Plan]:
    """Bring a table of tag views in that bucket size up to the configured one, and verify it.

    Events younger than the eventual-consistency delay are left to the next run. A run after a
    verified one compares from two time buckets before the end of that one.

    Args:
        to: the bucket size.
        table_name: the new table; by default `<old table>_<bucket size>`, such as `tag_views_day`.
        thorough: compare everything, however far earlier runs verified.

    Raises:
        InvalidInput: when planning: it is the configured bucket size or table, or the table was
            not made by rebucket.
        WrongData: when planning: that table is in use, so that its newest rows would be deleted.
    """
    rebucket = _Rebucket(to, table_name, thorough=thorough)
    return Operation("rebucket", f"to {to.value}", rebucket.plan, rebucket.apply)


class _Rebucket:
    """What the plan found to differ is put right; then both tables are compared again."""

    def __init__(self, to: BucketSize, table_name: str | None, *, thorough: bool) -> None:
        self._to, self._table_name, self._thorough = to, table_name, thorough
        self._found: Difference | None = None
        self._first_ms: int | None = None
        self._end_ms = 0

    def plan(self, run: RunContext) -> Plan:
        source, target = run.settings, self._target(run)
        delay = source.events_by_tag_eventual_consistency_delay
        self._end_ms = to_millis(clock.now()) - round(delay * 1000)
        state = rebucket_store.read_state(run.control, target)
        exists = _exists(run, target)
        if exists:
            self._first_ms = self._compare_from(source, state)
            _require_not_used(run, target)
            self._found = self._compare(run, target)
            self._require_no_newer_rows(run, target, self._found)
            totals = self._found.totals
        else:
            run.say(f"counting the rows of {source.events_by_tag_table}")
            rows = rebucket_read.keys(run, source).where(rebucket_rows.before(self._end_ms))
            totals = Totals(equal=0, missing=rows.count(), extra=0, different=0)
        is_verified = state is not None and state.verified_to is not None
        return Plan(
            _counts(totals),
            [*_lines(source, target, totals, self._first_ms), *_how_to_switch(source, target)],
            is_empty=exists and is_verified and not totals.differing,
        )

    def apply(self, run: RunContext, plan: Plan, check: Callable[[], None]) -> Mapping[str, int]:
        source, target = run.settings, self._target(run)
        done = Counter(plan.counts)
        found = self._found
        if found is None:
            check()
            rebucket_store.create_table(run.control, source, target)
            check()
            run.say(f"copying {plan.counts['rows_copied']:,} rows")
            rebucket_store.copy_rows(self._source_rows(run), target)
            found = self._compare(run, target)
            done.update(_counts(found.totals))
        for _ in range(ROUNDS):
            if not found.totals.differing:
                check()
                rebucket_store.write_verified(run.control, target, from_millis(self._end_ms))
                return {**done, "rows_verified": found.totals.equal}
            self._put_right(run, target, found, check)
            found = self._compare(run, target)
            done.update(_counts(found.totals))
        raise TidemarkError(
            f"after {ROUNDS} rounds {source.events_by_tag_table} and {target.events_by_tag_table}"
            f" still differ in {found.totals.differing:,} rows",
            where=source.journal_keyspace,
            do="stop the writers and run again; if that does not help, run `reconcile check`",
        )

    def _put_right(
        self, run: RunContext, target: Settings, found: Difference, check: Callable[[], None]
    ) -> None:
        verdict = F.col("verdict")
        run.say(f"putting {found.totals.differing:,} rows right")
        check()
        rebucket_store.delete_rows(found.rows.where(verdict.isin(EXTRA, DIFFERENT)), target)
        check()
        wanted = found.rows.where(verdict.isin(MISSING, DIFFERENT)).drop("verdict")
        rows = self._source_rows(run).join(wanted, on=rebucket_rows.KEY, how="left_semi")
        rebucket_store.copy_rows(rows, target)

    def _compare(self, run: RunContext, target: Settings) -> Difference:
        run.say("comparing both tables, row for row")
        stored = rebucket_read.rows(run, target, self._first_ms)
        return rebucket_rows.compare(
            self._source_rows(run).drop("ttl"), stored.where(rebucket_rows.before(self._end_ms))
        )

    def _require_no_newer_rows(self, run: RunContext, target: Settings, found: Difference) -> None:
        """Refuse to delete rows that came after the last of the source.

        Raises:
            WrongData: somebody writes the target.
        """
        if not found.totals.extra:
            return
        of_target = found.rows.where(F.col("verdict") == EXTRA)
        newest = rebucket_rows.newest_ticks(of_target)
        if newest > rebucket_rows.newest_ticks(self._source_rows(run)):
            raise _in_use(run, target, "it has rows that are newer than all of")

    def _source_rows(self, run: RunContext) -> DataFrame:
        rows = rebucket_read.rows(run, run.settings, self._first_ms, with_ttl=True)
        return rebucket_rows.rebucketed(rows.where(rebucket_rows.before(self._end_ms)), self._to)

    def _target(self, run: RunContext) -> Settings:
        settings = run.settings
        name = self._table_name or f"{settings.events_by_tag_table}_{self._to.value.lower()}"
        if settings.bucket_size is self._to or settings.events_by_tag_table == name:
            raise InvalidInput(
                f"the tag views in {settings.events_by_tag_table} have bucket size"
                f" {settings.bucket_size.value} already",
                where="--to, --table",
                do="name another bucket size and another table",
            )
        identifier(name)
        target = rebucket_read.settings_of(settings, name, self._to)
        if _exists(run, target) and (
            bucket_size.recorded_bucket_size(run.control, target) is not self._to
        ):
            raise InvalidInput(
                f"table {name} exists, and not as tag views of bucket size {self._to.value}",
                where=settings.journal_keyspace,
                do="name another table with --table",
            )
        return target

    def _compare_from(self, source: Settings, state: rebucket_store.State | None) -> int | None:
        """Aligned to both bucket sizes, so that both tables are cut at the same time."""
        if self._thorough or state is None or state.verified_to is None:
            return None
        size = max(source.bucket_size, self._to, key=lambda size: size.milliseconds)
        first = keys.time_bucket(to_millis(state.verified_to), size)
        return first - LOOK_BACK_BUCKETS * size.milliseconds


def _require_not_used(run: RunContext, target: Settings) -> None:
    """Refuse to bring tag views up to others that nobody writes any more.

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


def _counts(found: Totals) -> dict[str, int]:
    return {
        "rows_copied": found.missing + found.different,
        "rows_deleted": found.extra + found.different,
        "rows_verified": found.equal,
    }


def _lines(source: Settings, target: Settings, found: Totals, first_ms: int | None) -> list[str]:
    old, new = source.events_by_tag_table, target.events_by_tag_table
    compared = "all rows" if first_ms is None else f"rows from {iso(from_millis(first_ms))} on"
    return [
        f"{old} ({source.bucket_size.value}) to {new} ({target.bucket_size.value}), {compared}:"
        f" {found.missing:,} to copy, {found.different:,} to replace, {found.extra:,} to delete,"
        f" {found.equal:,} equal",
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
