"""The check of the tables of a journal: their options, and unread time buckets of projections.

It reads only a few sampled rows of events, so that each run of validate can do it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from tidemark import clock
from tidemark.cassandra.schema import identifier, table
from tidemark.context import RunContext
from tidemark.errors import CassandraUnavailable, InvalidInput
from tidemark.ledger import applications
from tidemark.ledger.pieces import Pieces
from tidemark.project.definition import catalog
from tidemark.project.definition.model import Definition
from tidemark.project.planning import history
from tidemark.project.planning.plan import ledger
from tidemark.project.position.progress import progress
from tidemark.project.position.ready import ready_buckets
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.validate import shapes
from tidemark.validate.findings import finding
from tidemark.validate.layers.storage.rules import (
    EVENTS,
    HEADS,
    SNAPSHOTS,
    Found,
    Loss,
    StoredTable,
    of_table,
    of_unread,
)
from tidemark.validate.reading.inspection import Keep
from tidemark.window import to_millis

_SAMPLED = 8


@dataclass(frozen=True)
class _Table:
    """A table to check.

    Attributes:
        keyspace: its keyspace.
        name: its name.
        look_back: seconds for which a row is needed by any reader.
        always_written: a column outside the key that each row has.
        loss: the loss when its rows expire.
        is_overwritten: whether rows are written again.
        written_to_live: the time to live (seconds) with which Tidemark writes rows.
    """

    keyspace: str
    name: str
    look_back: int
    always_written: str
    loss: Loss | None = None
    is_overwritten: bool = False
    written_to_live: int = 0

    @property
    def path(self) -> tuple[str, str]:
        """Keyspace and name."""
        return self.keyspace, self.name


@shaped(returns=shapes.FINDINGS)
def find(run: RunContext, _keep: Keep) -> DataFrame:
    """Return the findings of messages, tag views and snapshots, and of kafka-journal's tables."""
    tables = _tables(run)
    expiring = {path for path, stored in tables.items() if stored.times_to_live}
    definitions = _definitions(run, expiring)
    findings: list[Found] = []
    for path, stored in tables.items():
        readers = definitions.get(path, ())
        needed = replace(stored, look_back=_look_back(stored, readers, run.settings))
        findings += of_table(needed)
        findings += _unread(run, needed, readers)
    return local_rows(run.spark, findings, finding.SCHEMA)


def _tables(run: RunContext) -> Mapping[tuple[str, str], StoredTable]:
    """Read the options of the tables that exist, by keyspace and name."""
    tables = {}
    for source in _possible_tables(run.settings):
        for row in run.control.execute(
            "SELECT default_time_to_live, compaction FROM system_schema.tables"
            " WHERE keyspace_name = ? AND table_name = ?",
            source.path,
        ):
            times = {
                "the table's default": row["default_time_to_live"],
                "TIDEMARK_EVENTS_BY_TAG_TIME_TO_LIVE": source.written_to_live,
            }
            tables[source.path] = StoredTable(
                source.name,
                {giver: time for giver, time in times.items() if time},
                dict(row["compaction"]),
                source.look_back,
                source.loss,
                source.is_overwritten,
                _sampled(run, source),
            )
    return tables


def _possible_tables(settings: Settings) -> Sequence[_Table]:
    """Return the tables that may exist."""
    bucket = settings.bucket_size.milliseconds // 1000
    journal, kafka = settings.journal_keyspace, settings.kafka_journal_keyspace
    replicated = settings.kafka_journal_delay + bucket
    return (
        _Table(
            journal,
            settings.journal_table,
            settings.tag_write_look_back + bucket,
            "writer_uuid",
            EVENTS,
        ),
        _Table(
            journal,
            settings.events_by_tag_table,
            (settings.project_look_back + 1) * bucket,
            "writer_uuid",
            written_to_live=settings.events_by_tag_time_to_live,
        ),
        _Table(settings.snapshot_keyspace, settings.snapshot_table, 0, "ser_id", SNAPSHOTS),
        _Table(kafka, settings.kafka_journal_table, replicated, "offset", EVENTS),
        _Table(
            kafka,
            settings.kafka_metajournal_table,
            replicated,
            "offset",
            HEADS,
            is_overwritten=True,
        ),
    )


def _sampled(run: RunContext, source: _Table) -> int:
    """Return the longest remaining time to live (seconds) of the first row of some partitions."""
    try:
        rows = run.control.execute(
            f"SELECT ttl({identifier(source.always_written)}) AS ttl FROM {table(*source.path)}"
            f" PER PARTITION LIMIT 1 LIMIT {_SAMPLED}"
        )
    except CassandraUnavailable:
        # For example too many tombstones before the first rows; the options are checked anyway.
        return 0
    return max((row["ttl"] or 0 for row in rows), default=0)


def _definitions(
    run: RunContext, table_names: Collection[tuple[str, str]]
) -> Mapping[tuple[str, str], Sequence[Definition]]:
    """Return the projections that read these tables, by table."""
    if not table_names:
        return {}
    try:
        definitions = catalog.read_all(run.settings.projections_dir).definitions
    except InvalidInput as error:
        run.say(f"what expires unread is not known: {error}")
        return {}
    by_table: dict[tuple[str, str], list[Definition]] = {}
    for definition in definitions:
        by_table.setdefault(_table_of(definition, run.settings), []).append(definition)
    return {name: by_table.get(name, []) for name in table_names}


def _look_back(stored: StoredTable, readers: Sequence[Definition], settings: Settings) -> int:
    """Return how long (seconds) any reader needs a table's rows."""
    bucket = settings.bucket_size.milliseconds // 1000
    projection_needs = [((definition.look_back or 0) + 1) * bucket for definition in readers]
    return max(stored.look_back, *projection_needs) if projection_needs else stored.look_back


def _unread(run: RunContext, stored: StoredTable, readers: Sequence[Definition]) -> Iterator[Found]:
    now = to_millis(clock.now())
    for definition in readers:
        yield from of_unread(stored, definition.name, _unprocessed(run, definition, now), now)


def _table_of(definition: Definition, settings: Settings) -> tuple[str, str]:
    if definition.source.reads_tag_views:
        return settings.journal_keyspace, settings.events_by_tag_table
    if definition.source.reads_journal:
        return settings.journal_keyspace, settings.journal_table
    return settings.kafka_journal_keyspace, settings.kafka_journal_table


def _unprocessed(run: RunContext, definition: Definition, now: int) -> set[int]:
    """Return the time buckets that a projection has not processed since it began, ready or not."""
    settings = run.settings
    size = settings.bucket_size.milliseconds
    ledger_state = ledger(run, definition).standing()
    first = ledger_state.known.first
    if first is None or not history.has_begun(ledger_state):
        return set()
    begin = max(history.begin_of(definition, settings.bucket_size), first)
    if definition.source.reads_journal:
        # Time buckets that validate has failed expire as well.
        validate_state = Pieces.of(run.control, settings, applications.VALIDATE).standing()
        time_buckets = validate_state.known.within(begin, now)
    else:
        time_buckets = ready_buckets(run, definition, begin, now)
    state = progress(
        ledger_state.rows, definition.fingerprint, time_buckets, size, ledger_state.spans
    )
    return set(state.open_buckets)
