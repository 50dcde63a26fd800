"""Old quarantined records and findings, deleted by partition or by range.

- `quarantine`: only people read it. The event itself is in the journal, and counts as consumed.
- `finding`: validate replaces all findings of a time bucket, projections wait for blocking ones,
  and `reconcile repair` repairs them. So a partition is deleted only if every finding is settled,
  which `settled_finding` still records, or if the time bucket was purged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from tidemark.application.approval import digest
from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.ledger import quarantine
from tidemark.ledger.purged import purged_buckets
from tidemark.purge.own_tables import store
from tidemark.purge.target import TargetPlan, Tombstones
from tidemark.text import counted

_PAGE = 1000
_AT_ONCE = 500
"""Deletes between two checks of the locks."""
Key = tuple[object, ...]


def lock_of(run: RunContext, name: str) -> str:
    """Return the resource that purge locks for one of Tidemark's own tables."""
    return f"own_tables/{run.settings.keyspace}/{name}"


def plan_quarantine(run: RunContext, keep_days: int) -> TargetPlan:
    """Plan the quarantined records of persistence ids that have none of the last `keep_days` days.

    Records are deleted by source if all of a source are old, else by range for each persistence id.
    """
    before = run.moment - timedelta(days=keep_days)
    rows = run.control.stream(
        "SELECT source, application, persistence_id, found_at"
        f" FROM {table(run.settings.keyspace, quarantine.TABLE)}",
        page=_PAGE,
    )
    is_old: dict[Key, dict[str, bool]] = defaultdict(dict)
    for row in rows:
        ids = is_old[(row["source"], row["application"])]
        name = row["persistence_id"]
        ids[name] = ids.get(name, True) and is_before(row["found_at"], before)
    partitions: list[Key] = []
    ranges: list[Key] = []
    for key, ids in sorted(is_old.items(), key=str):
        if all(ids.values()):
            partitions.append(key)
        else:
            ranges += [(*key, name) for name, old in sorted(ids.items()) if old]
    kept = sum(not old for ids in is_old.values() for old in ids.values())
    deletes = {
        ("source", "application"): partitions,
        ("source", "application", "persistence_id"): ranges,
    }
    return _plan(run, quarantine.TABLE, deletes, kept, "source or persistence id")


def plan_findings(run: RunContext, keep_days: int) -> TargetPlan:
    """Plan the old findings of time buckets whose findings are settled or that were purged."""
    before = run.moment - timedelta(days=keep_days)
    rows = run.control.stream(
        "SELECT journal_keyspace, time_bucket, state, last_seen"
        f" FROM {table(run.settings.keyspace, 'finding')}",
        page=_PAGE,
    )
    purged = purged_buckets(run.control, run.settings)
    deletable: dict[int, bool] = {}
    for row in rows:
        if row["journal_keyspace"] == run.settings.journal_keyspace:
            bucket = row["time_bucket"]
            is_over = bucket in purged or row["state"] == "settled"
            deletable[bucket] = (
                deletable.get(bucket, True) and is_over and is_before(row["last_seen"], before)
            )
    keys: list[Key] = [
        (run.settings.journal_keyspace, bucket) for bucket, old in sorted(deletable.items()) if old
    ]
    kept = len(deletable) - len(keys)
    return _plan(
        run, "finding", {("journal_keyspace", "time_bucket"): keys}, kept, "time bucket's findings"
    )


def is_before(at: datetime | None, before: datetime) -> bool:
    """Return whether a moment is old; a missing one may be new."""
    return at is not None and at.replace(tzinfo=UTC) < before


def _plan(
    run: RunContext,
    name: str,
    deletes: Mapping[tuple[str, ...], Sequence[Key]],
    kept: int,
    noun: str,
) -> TargetPlan:
    """Return the plan of deletes by the columns of their keys, those of partitions first."""
    partitions, *ranges = [len(keys) for keys in deletes.values()]
    tombstones = Tombstones(partitions, sum(ranges))
    lines = [f"{name}: {counted(tombstones.total, 'delete')}, keeps {kept:,} x {noun}"]
    return TargetPlan(
        {f"{name}_deletes": tombstones.total, f"{name}_kept": kept},
        lines,
        tombstones,
        digest([name, *deletes.items()]),
        [lock_of(run, name)],
        partial(delete_keys, run, name, f"{name}_deletes", deletes) if tombstones.total else None,
    )


def delete_keys(
    run: RunContext,
    name: str,
    counted_as: str,
    deletes: Mapping[tuple[str, ...], Sequence[Key]],
    ensure_locked: EnsureLocked,
) -> Mapping[str, int]:
    """Make deletes by the columns of their keys; return their number under a name."""
    total = 0
    for columns, keys in deletes.items():
        for first in range(0, len(keys), _AT_ONCE):
            part = keys[first : first + _AT_ONCE]
            ensure_locked()
            store.delete(run.control, run.settings, name, columns, part)
            total += len(part)
    return {counted_as: total}
