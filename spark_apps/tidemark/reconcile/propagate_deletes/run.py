"""reconcile propagate-deletes: deletes the tag-view rows of events deleted from messages.

Pekko never does this. Numbering, progress and scanning are unchanged, so that actors and readers
continue; `verdicts` has the rules for which rows may be deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark import clock
from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.journals.pekko import frames, tag_view_rows, tag_views
from tidemark.partitioning import keys
from tidemark.purge.needs.tag_views import all_needs
from tidemark.purge.plan import frontier
from tidemark.reconcile.operation import ReconcileOperation
from tidemark.reconcile.propagate_deletes import store as propagate_store
from tidemark.reconcile.propagate_deletes import verdicts
from tidemark.validate.scope import Scope, require_known
from tidemark.window import to_millis

EXAMPLES = 10
_MEANING = {
    verdicts.GOES: ("tag_rows_deleted", "rows of deleted events go", ""),
    verdicts.YOUNG: (
        "kept_young",
        "stay for now: in this time bucket or the one before, where live readers look back",
        "",
    ),
    verdicts.NEEDED: ("kept_needed", "stay: a projection has not consumed them", ""),
    verdicts.BEHIND: (
        "kept_behind",
        "stay: a row with a lower number stays, and no reader survives a gap",
        "",
    ),
    verdicts.NO_PROGRESS: (
        "kept_without_progress",
        "stay: nothing else says how far the numbering came",
        "; `reconcile repair` puts tag_write_progress right",
    ),
    verdicts.BEYOND: (
        "kept_beyond_search_limit",
        "stay: a reader without an offset would fail at the first number left, more than"
        f" {verdicts.MAX_MISSING_TO_SEARCH:,} above 1",
        "; if all readers start from an offset, give --allow-unsearchable",
    ),
}


def operation(scope: Scope, *, allow_unsearchable: bool = False) -> ReconcileOperation:
    """Delete the tag-view rows of deleted events, the first ones of each persistence id and tag.

    `allow_unsearchable` also deletes them if the first remaining number is more than 5001.

    Raises:
        InvalidInput: there is a window. When planning: an id or a tag does not exist.
    """
    if scope.window is not None:
        raise InvalidInput(
            "propagate-deletes takes no window",
            where=str(scope),
            do="rows go from the front of each persistence id, wherever that lies",
        )
    return ReconcileOperation(
        "propagate-deletes",
        str(scope),
        lambda run: _plan(run, scope, allow_unsearchable=allow_unsearchable),
    )


def _plan(run: RunContext, scope: Scope, *, allow_unsearchable: bool) -> Plan:
    require_known(run, scope)
    run.say("comparing the tag views with what was deleted")
    verdict_rows = verdicts.with_verdicts(
        _candidates(run, scope),
        frames.write_progress(run.spark, run.settings),
        first_young=_first_young(run),
        needed_from=_needed_from(run),
        allow_unsearchable=allow_unsearchable,
    ).localCheckpoint()
    by_verdict = {
        row.verdict: row["rows"]
        for row in verdict_rows.groupBy("verdict").agg(F.count("*").alias("rows")).collect()
    }
    counts = {name: by_verdict.get(verdict, 0) for verdict, (name, _, _) in _MEANING.items()}

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        ensure_locked()
        deletions = verdict_rows.where(F.col("verdict") == verdicts.GOES)
        propagate_store.delete_rows(deletions, run.settings)
        return counts

    number_to_delete = by_verdict.get(verdicts.GOES, 0)
    return Plan(counts, _lines(verdict_rows, by_verdict), apply if number_to_delete else None)


def _candidates(run: RunContext, scope: Scope) -> DataFrame:
    spark, settings = run.spark, run.settings
    rows, deleted = tag_view_rows.tag_view_keys(spark, settings), frames.deleted(spark, settings)
    if scope.tags is not None:
        rows = rows.where(F.col("tag").isin(*scope.tags))
    if scope.persistence_ids is not None:
        deleted = deleted.where(F.col("persistence_id").isin(*scope.persistence_ids))
    index = frames.message_index(spark, settings)
    return verdicts.with_is_deleted(rows, index, deleted)


def _first_young(run: RunContext) -> int:
    """Return the start of the previous time bucket, which live readers still read."""
    size = run.settings.bucket_size
    return keys.time_bucket(to_millis(clock.now()), size) - size.milliseconds


def _needed_from(run: RunContext) -> dict[str, int]:
    """Return by tag the first time bucket with rows that some projection has not consumed."""
    tags_of: dict[int, list[str]] = defaultdict(list)
    for tag, time_bucket in tag_views.partitions(run.control, run.settings):
        tags_of[time_bucket].append(tag)
    all_tags = {tag for tags in tags_of.values() for tag in tags}
    needed: dict[str, int] = {}
    for need in all_needs(run.control, run.settings):
        if (first := frontier(tags_of, need)) is not None:
            for tag in all_tags if need.tags is None else need.tags:
                needed[tag] = min(first, needed.get(tag, first))
    return needed


def _lines(verdict_rows: DataFrame, counts: Mapping[str, int]) -> list[str]:
    lines = []
    for verdict, (_, meaning, remedy) in _MEANING.items():
        if count := counts.get(verdict, 0):
            lines.append(f"{count:,} {meaning}{remedy}")
            lines += _examples(verdict_rows.where(F.col("verdict") == verdict))
    return lines or ["no tag-view row belongs to a deleted event"]


def _examples(verdict_rows: DataFrame) -> Sequence[str]:
    series = verdicts.series(verdict_rows).head(EXAMPLES + 1)
    lines = [
        f"  {row.persistence_id}, tag {row.tag}: {row['rows']:,} rows;"
        f" first number left: {_number(row.first_left)}"
        for row in series[:EXAMPLES]
    ]
    return lines + (["  and more"] if len(series) > EXAMPLES else [])


def _number(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"
