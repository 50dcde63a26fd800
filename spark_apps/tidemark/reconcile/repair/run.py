"""repair: the smallest change after which check finds only what cannot be repaired.

Rows are written before wrong ones are deleted, and rows before progress before scanning: a crash
between any two leaves a state that the next run finds and repairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.journals.pekko import bucket_size
from tidemark.journals.pekko.messages import messages_by_key
from tidemark.journals.pekko.shapes import EVENT, WHOLE_MESSAGES
from tidemark.journals.pekko.tables import PAYLOAD_COLUMNS
from tidemark.reconcile import deletes
from tidemark.reconcile.check import describe
from tidemark.reconcile.findings import store as findings
from tidemark.reconcile.findings.find import ComparisonResult, find
from tidemark.reconcile.operation import ReconcileOperation
from tidemark.reconcile.repair import store as repair_store
from tidemark.spark.shapes import shaped
from tidemark.tag_write import events, rules, store, transform
from tidemark.tag_write.shapes import PROGRESS_ROWS, VIEW_ROWS
from tidemark.validate import store as store_of_findings
from tidemark.validate.findings import checks
from tidemark.validate.reading import journal_keys
from tidemark.validate.scope import Scope, require_known
from tidemark.validate.shapes import EVIDENCE, FINDINGS
from tidemark.validate.tag_views import finding_kinds

MOST_IDS = 100_000
"""The most persistence ids with findings that one run compares."""
COMPARED_BY_KEY = 10_000
"""The most persistence ids that are compared by key under the lock."""
NOTHING_FOUND = Plan({}, ["no open finding is one that a repair puts right"], None)


ACTIONS = {
    "events_quarantined": finding_kinds.any_of([checks.UNWRITABLE_EVENT.name]),
    "tag_rows_written": finding_kinds.IS_WRITTEN,
    "tag_rows_deleted": finding_kinds.IS_DELETED,
    "progress_rows_written": f"{finding_kinds.IS_OF_PROGRESS} AND {finding_kinds.IS_EXPECTED}",
    "progress_rows_deleted": f"{finding_kinds.IS_OF_PROGRESS} AND NOT {finding_kinds.IS_EXPECTED}",
    "scanning_rows_written": finding_kinds.IS_SCANNING,
}
"""The actions in their order, each with the condition of its findings, which have the columns of
EVIDENCE."""
IS_LEFT = f"({finding_kinds.IS_LEFT}) OR {ACTIONS['events_quarantined']}"
"""The condition of findings that remain after all actions."""


def operation(scope: Scope) -> ReconcileOperation:
    """Repair the findings of check in a scope."""

    def plan(run: RunContext) -> Plan:
        require_known(run, scope)
        return _plan(run, scope)

    def prepare(run: RunContext) -> Callable[[], Plan]:
        require_known(run, scope)
        return _prepared(run, scope)

    return ReconcileOperation("repair", str(scope), plan, prepare)


def of_findings() -> ReconcileOperation:
    """Repair the persistence ids with open findings of validate or check."""

    def plan(run: RunContext) -> Plan:
        scope = _scope_of_findings(run)
        return NOTHING_FOUND if scope is None else _plan(run, scope, is_found=True)

    def prepare(run: RunContext) -> Callable[[], Plan]:
        scope = _scope_of_findings(run)
        if scope is None:
            return lambda: NOTHING_FOUND
        return _prepared(run, scope, is_found=True)

    return ReconcileOperation("repair", "persistence ids with open findings", plan, prepare)


@shaped(findings_of_rows={**FINDINGS, **EVIDENCE}, messages=WHOLE_MESSAGES, returns=VIEW_ROWS)
def view_rows(findings_of_rows: DataFrame, messages: DataFrame) -> DataFrame:
    """Return the rows of the tag views that findings require."""
    rows = findings_of_rows.select(
        *messages_by_key.MESSAGE,
        "tag",
        F.col("expected_tag_pid_sequence_nr").alias("tag_pid_sequence_nr"),
        F.col("expected_time_bucket").alias("time_bucket"),
    )
    complete = messages.select(*messages_by_key.MESSAGE, *PAYLOAD_COLUMNS)
    return transform.tag_view_rows(rows.join(complete, on=messages_by_key.MESSAGE, how="inner"))


@shaped(findings_of_progress={**FINDINGS, **EVIDENCE}, returns=PROGRESS_ROWS)
def progress_rows(findings_of_progress: DataFrame) -> DataFrame:
    """Return the rows of tag_write_progress that findings require."""
    return findings_of_progress.select(
        "persistence_id",
        "tag",
        F.col("expected_sequence_nr").alias("sequence_nr"),
        F.col("expected_tag_pid_sequence_nr").alias("tag_pid_sequence_nr"),
        F.col("expected_timestamp").alias("offset"),
    )


@shaped(findings_of_scanning={**FINDINGS, **EVIDENCE}, returns=EVENT)
def scanning_rows(findings_of_scanning: DataFrame) -> DataFrame:
    """Return the rows of tag_scanning that findings require."""
    return findings_of_scanning.select(
        "persistence_id", F.col("expected_sequence_nr").alias("sequence_nr")
    )


def _scope_of_findings(run: RunContext) -> Scope | None:
    """Return the persistence ids with findings, most of which may be out of date; None without any.

    Raises:
        InvalidInput: there are more than MOST_IDS.
    """
    ids = list(islice(store_of_findings.repairable_ids(run.control, run.settings), MOST_IDS + 1))
    if len(ids) > MOST_IDS:
        raise InvalidInput(
            f"more than {MOST_IDS:,} persistence ids have findings",
            where="--from-findings",
            do="leave it out, so that all are compared",
        )
    return Scope(frozenset(ids)) if ids else None


def _plan(run: RunContext, scope: Scope, *, is_found: bool = False) -> Plan:
    _require_rules(run)
    return planned(run, scope, scope, find(run, scope), is_found=is_found)


def _prepared(run: RunContext, scope: Scope, *, is_found: bool = False) -> Callable[[], Plan]:
    """Compare a scope without the lock of the journal; return the function that plans under it.

    Under the lock, the persistence ids with findings are compared once more, by key if they are
    few: actors and other runs may have changed them meanwhile. A few given persistence ids are
    compared only under the lock, which takes no longer.
    """
    scope_ids = scope.persistence_ids
    if scope_ids is not None and len(scope_ids) <= COMPARED_BY_KEY:
        return lambda: _plan(run, scope, is_found=is_found)
    _require_rules(run)
    comparison = find(run, scope)
    ids = _some_ids(comparison.examination.found, COMPARED_BY_KEY)
    if ids is None:
        return lambda: _plan(run, scope, is_found=is_found)
    if not ids:
        return lambda: planned(run, scope, scope, comparison, is_found=is_found)

    # Reads by key cover the places where rows of the events can be, and those in stored findings.
    findings.replace(run, scope, comparison.examination.found)

    def plan() -> Plan:
        _require_rules(run)
        compared = replace(scope, persistence_ids=ids)
        return planned(run, scope, compared, find(run, compared), is_found=is_found)

    return plan


def _require_rules(run: RunContext) -> None:
    rules.require_applied(run.control, run.settings, rules.load(run.settings.tagging_dir))


def planned(
    run: RunContext, scope: Scope, compared: Scope, comparison: ComparisonResult, *, is_found: bool
) -> Plan:
    """Return the plan that a comparison requires.

    `compared` is the compared part of `scope`; it includes all persistence ids with findings. The
    stored findings of the scope are replaced, with `is_found` even if nothing else is to change.
    """
    [row] = comparison.examination.findings.agg(
        *(F.count_if(F.expr(condition)).alias(name) for name, condition in ACTIONS.items())
    ).collect()
    counts = row.asDict()
    remaining = comparison.examination.found.where(f"reason IS NOT NULL OR {IS_LEFT}")

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        _repair(run, compared, comparison, counts, ensure_locked)
        findings.replace(run, scope, remaining)
        return counts

    # Findings that no longer apply are deleted from the table.
    return Plan(counts, describe(comparison), apply if is_found or any(counts.values()) else None)


def _some_ids(rows: DataFrame, most: int) -> frozenset[str] | None:
    """Return the persistence ids of findings, or None if there are more than `most`."""
    ids = rows.select("persistence_id").distinct().limit(most + 1).collect()
    return None if len(ids) > most else frozenset(row["persistence_id"] for row in ids)


def _repair(
    run: RunContext,
    scope: Scope,
    comparison: ComparisonResult,
    counts: Mapping[str, int],
    ensure_locked: EnsureLocked,
) -> None:
    settings = run.settings
    # For given persistence ids only their own messages were counted.
    number = comparison.read["messages_checked"] if scope.persistence_ids is None else None
    tag_rules = rules.load(settings.tagging_dir)
    actions: dict[str, Callable[[DataFrame], None]] = {
        "events_quarantined": lambda part: store.quarantine_unwritable(
            run, events.tagged(_messages(run, part, number), tag_rules)
        ),
        "tag_rows_written": lambda part: store.write_tag_views(
            _rows(run, comparison, part, number), settings, counts["tag_rows_written"]
        ),
        "tag_rows_deleted": lambda part: repair_store.delete_rows(part, settings),
        "progress_rows_written": lambda part: store.write_progress(
            progress_rows(part), settings, write_time=comparison.read_at
        ),
        "progress_rows_deleted": lambda part: deletes.delete_progress(part, settings),
        "scanning_rows_written": lambda part: store.write_scanning(
            scanning_rows(part), settings, write_time=comparison.read_at
        ),
    }
    ensure_locked()
    deletes.forget(comparison.examination.findings.select("persistence_id").distinct(), settings)
    bucket_size.record_bucket_size(run.control, settings)
    rules.record(run.control, settings, tag_rules)
    for name, condition in ACTIONS.items():
        if counts[name]:
            run.say(f"{counts[name]:,} {name.replace('_', ' ')}")
            ensure_locked()
            actions[name](comparison.examination.findings.where(condition))


def _rows(
    run: RunContext, comparison: ComparisonResult, part: DataFrame, number: int | None
) -> DataFrame:
    """Return the rows that findings require, from messages or from the row with the only copy."""
    readable = journal_keys.readable_events(comparison.examination.read.keys.index)
    of_messages = part.join(readable, on=messages_by_key.MESSAGE, how="left_semi").localCheckpoint()
    of_rows = part.join(readable, on=messages_by_key.MESSAGE, how="left_anti").localCheckpoint()
    rows = view_rows(of_messages, _messages(run, of_messages, number))
    if of_rows.isEmpty():
        return rows
    return rows.unionByName(repair_store.renumbered_rows(of_rows, run.settings))


def _messages(run: RunContext, part: DataFrame, number: int | None) -> DataFrame:
    keys = part.select(*messages_by_key.MESSAGE, F.col("expected_time_bucket").alias("time_bucket"))
    return messages_by_key.messages_of(run, keys, number)
