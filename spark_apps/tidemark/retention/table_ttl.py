"""The target of a table's default TTL: changed online, for rows that are written from then on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from tidemark.application.guarded_change import EnsureLocked
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.errors import DefinitionError
from tidemark.journal import tag_views
from tidemark.projection.definition import catalog
from tidemark.projection.definition.model import Definition
from tidemark.projection.definition.source import KafkaJournal
from tidemark.projection.planning.plan import ledger
from tidemark.retention.needs.tag_views import needs_of_projections
from tidemark.retention.plan import frontier
from tidemark.retention.policies.file import PolicyFile
from tidemark.retention.policies.model import TableTtl
from tidemark.retention.target import TargetPlan, Tombstones, digest
from tidemark.settings import Settings
from tidemark.text import counted
from tidemark.window import from_millis

_OWN = ("finding", "quarantine", "run", "tag_write_tail", "validate_tail")
"""Tables of Tidemark in which no row is the only truth."""


@dataclass(frozen=True)
class _Table:
    """A table that may have a TTL, and who reads it: `tags`, `events`, `kafka` or nobody."""

    keyspace: str
    name: str
    readers: str = ""


def plan_table_ttl(run: RunContext, policy: TableTtl, file: PolicyFile) -> TargetPlan:
    """Plan the change of a table's default TTL.

    Raises:
        DefinitionError: the table is not known or does not exist; or rows would expire before the
            slowest projection has read them and whoever looks back.
    """
    chosen = _table(run, policy, file)
    rows = run.control.execute(
        "SELECT default_time_to_live, compaction FROM system_schema.tables"
        " WHERE keyspace_name = ? AND table_name = ?",
        (chosen.keyspace, chosen.name),
    )
    name = f"{chosen.keyspace}.{chosen.name}"
    if not rows:
        do = "let its owner create it first, or leave the policy out"
        raise file.error(policy, f"the table {name} does not exist", do, "table")
    before, ttl = rows[0]["default_time_to_live"], policy.time_to_live
    nothing = Tombstones()
    key, locks = digest([name, before, ttl]), [f"table/{name}"]
    if before == ttl:
        lines = [f"{name} has this TTL: {_shown(ttl)}"]
        return TargetPlan({"ttls_changed": 0}, lines, nothing, key, locks, None)
    if ttl:
        _require_read_before(run, policy, file, chosen)
    compaction = rows[0]["compaction"]["class"].rpartition(".")[2]
    lines = [
        f"{name}: default_time_to_live from {_shown(before)} to {_shown(ttl)}",
        "only rows written from then on have it; rows that are there keep what they have",
    ]
    if ttl and compaction != "TimeWindowCompactionStrategy":
        lines.append(
            f"warning: compaction is {compaction}, which drops expired rows late;"
            " TimeWindowCompactionStrategy drops whole files"
        )
    if ttl and chosen.readers in ("events", "kafka"):
        lines.append(
            "warning: events expire that nobody deleted; actors that recover from them begin after"
            " a gap"
        )
    return TargetPlan(
        {"ttls_changed": 1},
        lines,
        nothing,
        key,
        locks,
        partial(_alter, run, chosen, ttl),
    )


def _table(run: RunContext, policy: TableTtl, file: PolicyFile) -> _Table:
    known = _known(run.settings)
    keyspace, _, name = policy.table.rpartition(".")
    found = [t for t in known if t.name == name and keyspace in ("", t.keyspace)]
    if len(found) != 1:
        names = ", ".join(f"{t.keyspace}.{t.name}" for t in known)
        what = f"{policy.table} is {'two known tables' if found else 'no known table'}"
        raise file.error(policy, what, f"write one of {names}", "table")
    return found[0]


def _known(settings: Settings) -> list[_Table]:
    return [
        _Table(settings.journal_keyspace, settings.events_by_tag_table, "tags"),
        _Table(settings.journal_keyspace, settings.journal_table, "events"),
        _Table(settings.snapshot_keyspace, settings.snapshot_table),
        _Table(settings.kafka_journal_keyspace, settings.kafka_journal_table, "kafka"),
        _Table(settings.kafka_journal_keyspace, settings.kafka_metajournal_table, "kafka"),
        *(_Table(settings.keyspace, name) for name in _OWN),
    ]


def _require_read_before(
    run: RunContext, policy: TableTtl, file: PolicyFile, chosen: _Table
) -> None:
    settings = run.settings
    bucket = timedelta(milliseconds=settings.bucket_size.milliseconds)
    key = "days" if policy.days is not None else "seconds"
    for definition in catalog.load(settings.projections_dir):
        if _readers(definition) != chosen.readers:
            continue
        buckets = definition.look_back
        look_back = (settings.project_look_back if buckets is None else buckets) * bucket
        lag = _lag(run, definition)
        if lag is None:
            what = f"{definition.name} has read nothing yet, so its lag is unknown"
            raise _too_short(file, policy, what, key)
        needed = look_back + lag
        if policy.time_to_live < needed.total_seconds():
            raise _too_short(
                file,
                policy,
                f"{_shown(policy.time_to_live)} are less than the"
                f" {_shown(int(needed.total_seconds()))} that {definition.name} looks back"
                f" ({_shown(int(look_back.total_seconds()))}) and lags"
                f" ({_shown(int(lag.total_seconds()))})",
                key,
            )
    if chosen.readers == "events" and policy.time_to_live < settings.tag_write_look_back:
        what = f"tag-write looks back {_shown(settings.tag_write_look_back)}"
        raise _too_short(file, policy, what, key)


def _too_short(file: PolicyFile, policy: TableTtl, what: str, key: str) -> DefinitionError:
    return file.error(policy, what, "let rows live longer, or let the projection catch up", key)


def _readers(definition: Definition) -> str:
    if definition.source.reads_tag_views:
        return "tags"
    return "kafka" if isinstance(definition.source, KafkaJournal) else "events"


def _lag(run: RunContext, definition: Definition) -> timedelta | None:
    """Return how long ago the oldest time began that a projection has not read; None if unknown."""
    version = definition.fingerprint
    entries = ledger(run, definition).entries()
    done = [entry.time_bucket for entry in entries if entry.is_done(version)]
    if not done:
        return None
    waiting = [entry.time_bucket for entry in entries if not entry.is_done(version)]
    first = min(waiting, default=max(done) + run.settings.bucket_size.milliseconds)
    if definition.source.reads_tag_views:
        tags_of: dict[int, list[str]] = {}
        for tag, time_bucket in tag_views.partitions(run.control, run.settings):
            tags_of.setdefault(time_bucket, []).append(tag)
        needs = needs_of_projections(run.control, run.settings)
        unread = [
            first_unread
            for need in needs
            if need.projection == definition.name
            and (first_unread := frontier(tags_of, need)) is not None
        ]
        # Rows that are all read cannot expire unread, whatever the time since.
        if not unread:
            return timedelta(0)
        first = min(unread)
    return max(run.moment - from_millis(first), timedelta(0))


def _shown(seconds: int) -> str:
    if not seconds:
        return "none"
    if seconds % 86_400 == 0:
        return counted(seconds // 86_400, "day")
    return counted(seconds, "second")


def _alter(
    run: RunContext, chosen: _Table, ttl: int, ensure_locked: EnsureLocked
) -> Mapping[str, int]:
    ensure_locked()
    change_time_to_live(run.control, chosen.keyspace, chosen.name, ttl)
    return {"ttls_changed": 1}


def change_time_to_live(control: Control, keyspace: str, name: str, ttl: int) -> None:
    """Change the default TTL of a table, in seconds: all or nothing, as Cassandra does it."""
    control.execute_ddl(f"ALTER TABLE {table(keyspace, name)} WITH default_time_to_live = {ttl:d}")
