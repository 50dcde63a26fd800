"""rebuild of time buckets, or of tags: writes every expected row anew without dropping any first.

The rows are those that check expects, with the numbers that readers know. Wrong rows are deleted,
and progress is repaired, as repair does it. A row of a deleted or lost event may be the only copy
of it, and a reader that does not find its number fails: such rows are kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.context import RunContext
from tidemark.journals.pekko import frames
from tidemark.journals.pekko.messages.messages_by_key import MESSAGE
from tidemark.journals.pekko.shapes import MESSAGES, TAG_ROWS
from tidemark.journals.pekko.tables import PAYLOAD_COLUMNS
from tidemark.reconcile.findings.find import find
from tidemark.reconcile.repair import run as repair
from tidemark.spark.shapes import shaped
from tidemark.tag_write import rules, store, transform
from tidemark.text import counted
from tidemark.validate.reading import journal_keys
from tidemark.validate.scope import Scope, require_known
from tidemark.validate.tag_views import as_repaired
from tidemark.validate.tag_views.bounds import Bounds
from tidemark.window import to_millis


def plan(run: RunContext, scope: Scope) -> Plan:
    """Plan the rebuild of the rows of time buckets, of tags, or of both.

    Raises:
        WrongData: a tag rule changed although rows of it exist.
    """
    require_known(run, scope)
    rules.require_applied(run.control, run.settings, rules.load(run.settings.tagging_dir))
    comparison = find(run, scope)
    examination = comparison.examination
    repair_plan = repair.planned(run, scope, scope, comparison, is_found=True)
    repaired_rows = as_repaired.rows(examination.read.keys.rows, examination.findings)
    expected = Bounds.of(run, scope.window).within(repaired_rows, "time_bucket")
    rewritable = of_readable_events(expected, examination.read.keys.index).localCheckpoint()
    total, number = expected.count(), rewritable.count()
    counts = {
        **repair_plan.counts,
        "tag_rows_rewritten": number,
        "tag_rows_left": total - number,
        "quarantined": repair_plan.counts["events_quarantined"],
    }

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        if repair_plan.apply is not None:
            repair_plan.apply(ensure_locked)
        run.say(f"writing {number:,} rows of the tag views")
        ensure_locked()
        rows = transform.tag_view_rows(transform.with_payload(rewritable, _messages(run, scope)))
        store.write_tag_views(rows, run.settings, number)
        return counts

    lines = [
        f"writes {counted(number, 'row')} anew, with the numbers that readers know",
        *_left(total - number),
        *repair_plan.lines,
    ]
    return Plan(counts, lines, apply)


@shaped(rows=TAG_ROWS, index=MESSAGES, returns=TAG_ROWS)
def of_readable_events(rows: DataFrame, index: DataFrame) -> DataFrame:
    """Return the rows whose events messages has: any other row may be the only copy."""
    return rows.join(journal_keys.readable_events(index), on=MESSAGE, how="left_semi")


def _left(number: int) -> list[str]:
    if not number:
        return []
    rows = f"{counted(number, 'row')} of deleted or lost events"
    return [f"{rows} stay as they are; `delete` deletes those of the persistence ids it names"]


def _messages(run: RunContext, scope: Scope) -> DataFrame:
    if scope.window is None:
        return frames.message_index(run.spark, run.settings, *PAYLOAD_COLUMNS)
    first, end = to_millis(scope.window.start), to_millis(scope.window.end)
    return frames.messages_between(run.spark, run.settings, first, end)
