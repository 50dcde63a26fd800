"""rebuild of a window: the rows of its time buckets, with the numbers that they had to have.

Progress and scanning stay as they are: the numbers before and after the window do not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.context import RunContext
from tidemark.continuity.scope import Scope, require_known
from tidemark.errors import JournalDamaged
from tidemark.journal import tag_views
from tidemark.journal.tables import PAYLOAD_COLUMNS
from tidemark.ledger.purged import emptied_buckets
from tidemark.reconciliation.operation import Operation
from tidemark.tagging import numbering, read, rules, store, transform
from tidemark.window import to_millis


def operation(scope: Scope) -> Operation:
    """Drop the partitions of the window's time buckets, of all tags or those named; write them."""
    return Operation("rebuild", str(scope), lambda run: _plan(run, scope))


def _plan(run: RunContext, scope: Scope) -> Plan:
    require_known(run, scope)
    rules.require_applied(run.control, run.settings, rules.load(run.settings.tagging_dir))
    doomed = _partitions(run, scope)
    counts = {"partitions": len(doomed)}
    lines = [
        f"drops {len(doomed)} partitions of {run.settings.events_by_tag_table} and writes them"
        " anew with the same numbers",
        "readers of what is rebuilt must be stopped",
    ]

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        with ExitStack() as in_memory:
            rows = _rows(run, scope, in_memory)
            ensure_locked()
            tag_views.delete_partitions(run.control, run.settings, doomed)
            ensure_locked()
            stamp = run.control.write_time()
            store.write_tag_views(
                transform.tag_view_rows(rows), run.settings, len(doomed), write_time=stamp
            )
        return counts

    return Plan(counts, lines, apply)


def _bounds(scope: Scope) -> tuple[int, int]:
    assert scope.window is not None  # noqa: S101 - `rebuild.operation` sends none without
    return to_millis(scope.window.start), to_millis(scope.window.end)


def _partitions(run: RunContext, scope: Scope) -> list[tuple[str, int]]:
    first, end = _bounds(scope)
    return [
        (tag, bucket)
        for tag, bucket in tag_views.partitions(run.control, run.settings)
        if first <= bucket < end and (scope.tags is None or tag in scope.tags)
    ]


def _rows(run: RunContext, scope: Scope, in_memory: ExitStack) -> DataFrame:
    """Return the rows of the window, numbered as tag-write numbers them.

    Raises:
        JournalDamaged: progress contradicts the messages, so that no number is certain.
    """
    settings = run.settings
    first, end = _bounds(scope)
    tag_rules = rules.load(settings.tagging_dir)
    source = read.all_of(run, tag_rules)
    in_window = (F.col("time_bucket") >= first) & (F.col("time_bucket") < end)
    kept = read.kept(source, tag_rules, in_window)
    in_memory.callback(kept.unpersist)
    ranking = read.ranked(run, source, kept.drop(*PAYLOAD_COLUMNS), counts_rows=False)
    series = numbering.anchored(ranking.ranked, source.known, ranking.anchors).localCheckpoint()
    bad = series.where(F.col("contradiction").isNotNull()).limit(1).collect()
    if bad:
        raise JournalDamaged(
            f"{bad[0].persistence_id} tag {bad[0].tag}: {bad[0].contradiction}",
            where=settings.journal_keyspace,
            do="run `spark_apps/reconcile.py repair`, or rebuild that persistence id as a whole",
        )
    purged = emptied_buckets(run.control, settings)
    is_wanted = in_window & ~F.col("time_bucket").isin(*purged) if purged else in_window
    of_tags = F.lit(True) if scope.tags is None else F.col("tag").isin(*sorted(scope.tags))
    rows = numbering.numbered(ranking.ranked, series)
    return transform.with_payload(rows.where(F.col("tag").isNotNull() & is_wanted & of_tags), kept)
