"""rebuild: writes tag views anew from messages.

Everything (truncate), persistence ids (delete by key), and tags whose rule has changed (drop their
partitions) are deleted first. As with Pekko's own tool, a complete series is numbered from 1, also
if its first messages are deleted (docs/real-systems.md, "Deletes and tools"). The rows of other
tags, and of time buckets, are overwritten in place (`rows`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame

from tidemark.application.guarded_change import EnsureLocked, Plan
from tidemark.context import RunContext
from tidemark.errors import InvalidInput, WrongData
from tidemark.installation import program
from tidemark.journals.pekko import bucket_size, frames, message_rows, tag_view_rows
from tidemark.journals.pekko.messages.messages_by_key import MESSAGE
from tidemark.journals.pekko.tables import PAYLOAD_COLUMNS
from tidemark.ledger import applications
from tidemark.reconcile import truncate
from tidemark.reconcile.delete import run as delete
from tidemark.reconcile.delete.find import partitions_of
from tidemark.reconcile.operation import ReconcileOperation
from tidemark.reconcile.rebuild import rows
from tidemark.reconcile.rebuild.write import write_series
from tidemark.spark.local_rows import local_rows
from tidemark.tag_write import rules
from tidemark.tag_write.rules import TagRule
from tidemark.text import counted
from tidemark.validate.reading import journal_keys
from tidemark.validate.scope import Scope

STOPPED = "readers and persistent actors of what is rebuilt must be stopped"


def operation(scope: Scope) -> ReconcileOperation:
    """Rebuild everything, or a scope of persistence ids, tags or a window.

    Raises:
        InvalidInput: a window together with persistence ids. When planning: a persistence id or
            tag does not exist, messages are in other partitions than they should be, or a rule that
            gave tags to existing rows is absent.
        WrongData: when planning, if a tag whose rule has changed has rows of events that messages
            lacks.
    """
    if scope.window is not None:
        if scope.persistence_ids is not None:
            raise InvalidInput(
                "a time bucket is rebuilt for all its persistence ids",
                where="--persistence-id, --window-start",
                do="leave one of them out",
            )
        return ReconcileOperation("rebuild", str(scope), lambda run: rows.plan(run, scope))
    if scope.is_everything:
        return ReconcileOperation("rebuild", str(scope), _plan_everything)
    return ReconcileOperation("rebuild", str(scope), lambda run: _plan(run, scope))


def _plan(run: RunContext, scope: Scope) -> Plan:
    bucket_size.require_partition_size(run.control, run.settings)
    tag_rules = _present_rules(run)
    if scope.persistence_ids is None and scope.tags is not None:
        changed_rules = rules.changed(run.control, run.settings, tag_rules)
        changed_tags = scope.tags & {rule.tag for rule, _ in changed_rules}
        if not changed_tags:
            return rows.plan(run, scope)
        if changed_tags != scope.tags:
            raise InvalidInput(
                f"of these tags, only the rules of {', '.join(sorted(changed_tags))} have changed",
                where="--tag",
                do="rebuild them by a command of their own",
            )
        _require_events(run, changed_tags)
    deletes = delete.plan(run, scope, search_all=True)

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        _record(run, _rules_of(run, scope))
        if deletes.apply is not None:
            deletes.apply(ensure_locked)
        return _write(run, scope, ensure_locked)

    return Plan(
        deletes.counts, [*deletes.lines, "and writes them anew from messages", STOPPED], apply
    )


def _require_events(run: RunContext, tags: Collection[str]) -> None:
    """Require that the rows to drop can be written again.

    Raises:
        WrongData: messages lacks events of such rows, or their payloads.
    """
    spark, settings = run.spark, run.settings
    partitions = partitions_of(run.control, settings, tags)
    if not partitions:
        return
    keys = local_rows(spark, partitions, "tag_name string, timebucket bigint")
    # Read before messages, which Pekko writes first.
    stored_rows = tag_view_rows.tag_view_keys_of(keys, settings).localCheckpoint()
    tag_rules = journal_keys.usable_rules(run)
    payload = journal_keys.payload_for(tag_rules)
    messages = frames.message_index(
        spark, settings, "partition_nr", *payload, with_has_payload=True
    )
    index = journal_keys.with_rule_tags(run, messages, tag_rules, are_applied=True)
    index = message_rows.undeleted(index.localCheckpoint(), frames.deleted(spark, settings))
    readable = journal_keys.readable_events(index)
    number = stored_rows.join(readable, on=MESSAGE, how="left_anti").count()
    if number:
        names = " ".join(f"--tag {tag}" for tag in sorted(tags))
        raise WrongData(
            f"{counted(number, 'row')} would go with the tag that cannot be written again: messages"
            " lacks the events, or what they held",
            where=names,
            do="copy what you need of them, delete the tag by"
            f" `{program(applications.RECONCILE)} delete {names} --apply`, then rebuild it",
        )


def _present_rules(run: RunContext) -> list[TagRule]:
    tag_rules = rules.load(run.settings.tagging_dir)
    rules.require_present(run.control, run.settings, tag_rules)
    return tag_rules


def _plan_everything(run: RunContext) -> Plan:
    _present_rules(run)
    truncate_plan = truncate.plan(run)

    def apply(ensure_locked: EnsureLocked) -> Mapping[str, int]:
        run.start_spark()
        _record(run, rules.load(run.settings.tagging_dir))
        truncate.truncate(run, ensure_locked)
        return _write(run, Scope(), ensure_locked)

    lines = [*truncate_plan.lines, "and writes all of it anew from messages"]
    return Plan(truncate_plan.counts, lines, apply)


def _record(run: RunContext, tag_rules: list[TagRule]) -> None:
    """Record, before the first write, the settings and rules that the rows are written with."""
    if tag_rules:  # Without rules there is no need to wait for Spark.
        rules.check(run.spark, tag_rules)
    bucket_size.record_bucket_size(run.control, run.settings)
    rules.record(run.control, run.settings, tag_rules)


def _rules_of(run: RunContext, scope: Scope) -> list[TagRule]:
    """Return the rules of the tags that are rebuilt for all persistence ids."""
    if scope.persistence_ids is not None or scope.tags is None:
        return []
    return [rule for rule in rules.load(run.settings.tagging_dir) if rule.tag in scope.tags]


def _write(run: RunContext, scope: Scope, ensure_locked: EnsureLocked) -> Mapping[str, int]:
    tag_rules = rules.load(run.settings.tagging_dir)
    return write_series(run, _messages(run, scope), tag_rules, scope.tags, ensure_locked)


def _messages(run: RunContext, scope: Scope) -> DataFrame:
    spark, settings = run.spark, run.settings
    if scope.persistence_ids is None:
        return frames.message_index(spark, settings, *PAYLOAD_COLUMNS)
    ids = local_rows(
        spark,
        [(persistence_id,) for persistence_id in scope.persistence_ids],
        "persistence_id string",
    )
    return frames.messages_of_ids(ids, settings, *PAYLOAD_COLUMNS)
