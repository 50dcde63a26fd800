"""The look at the tables of a journal: their options, and what projections have yet to read.

It reads no events but a few sampled rows, so that each run of validate can afford it.
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
from tidemark.project.planning.plan import ledger, ready_buckets
from tidemark.project.position.progress import progress
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
    """A table that is looked at.

    Attributes:
        keyspace: its keyspace.
        name: its name.
        look_back: seconds for which a row is needed, whoever reads it.
        always_written: a column outside of the key that each row has.
        loss: what expires with its rows.
        is_overwritten: whether rows are written again.
        written_to_live: the time to live that Tidemark gives its rows.
    """

    keyspace: str
    name: str
    look_back: int
    always_written: str
    loss: Loss | None = None
    is_overwritten: bool = False
    written_to_live: int = 0

    @property
    def place(self) -> tuple[str, str]:
        """Keyspace and name."""
        return self.keyspace, self.name


@shaped(returns=shapes.FINDINGS)
def find(run: RunContext, _keep: Keep) -> DataFrame:
    """Return the findings of messages, tag views and snapshots, and of kafka-journal's tables."""
    tables = _tables(run)
    expiring = {place for place, stored in tables.items() if stored.times_to_live}
    definitions = _definitions(run, expiring)
    found: list[Found] = []
    for place, stored in tables.items():
        readers = definitions.get(place, ())
        needed = replace(stored, look_back=_look_back(stored, readers, run.settings))
        found += of_table(needed)
        found += _unread(run, needed, readers)
    return local_rows(run.spark, found, finding.SCHEMA)


def _tables(run: RunContext) -> Mapping[tuple[str, str], StoredTable]:
    """Read the options of the tables that exist, by keyspace and name."""
    tables = {}
    for known in _known(run.settings):
        for row in run.control.execute(
            "SELECT default_time_to_live, compaction FROM system_schema.tables"
            " WHERE keyspace_name = ? AND table_name = ?",
            known.place,
        ):
            times = {
                "the table's default": row["default_time_to_live"],
                "TIDEMARK_EVENTS_BY_TAG_TIME_TO_LIVE": known.written_to_live,
            }
            tables[known.place] = StoredTable(
                known.name,
                {giver: time for giver, time in times.items() if time},
                dict(row["compaction"]),
                known.look_back,
                known.loss,
                known.is_overwritten,
                _sampled(run, known),
            )
    return tables


def _known(settings: Settings) -> Sequence[_Table]:
    """Return the tables that there may be."""
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


def _sampled(run: RunContext, known: _Table) -> int:
    """Return the longest remaining time to live (seconds) of the first row of some partitions."""
    try:
        rows = run.control.execute(
            f"SELECT ttl({identifier(known.always_written)}) AS ttl FROM {table(*known.place)}"
            f" PER PARTITION LIMIT 1 LIMIT {_SAMPLED}"
        )
    except CassandraUnavailable:
        # For example, too many tombstones before the first rows: the options are known anyway.
        return 0
    return max((row["ttl"] or 0 for row in rows), default=0)


def _definitions(
    run: RunContext, places: Collection[tuple[str, str]]
) -> Mapping[tuple[str, str], Sequence[Definition]]:
    """Return the projections by the table that they read, of some tables."""
    if not places:
        return {}
    try:
        definitions = catalog.read_all(run.settings.projections_dir).definitions
    except InvalidInput as error:
        run.say(f"what expires unread is not known: {error}")
        return {}
    by_place: dict[tuple[str, str], list[Definition]] = {}
    for definition in definitions:
        by_place.setdefault(_place(definition, run.settings), []).append(definition)
    return {place: by_place.get(place, []) for place in places}


def _look_back(stored: StoredTable, readers: Sequence[Definition], settings: Settings) -> int:
    """Return for how long a table's rows are needed, by whoever looks back the farthest."""
    bucket = settings.bucket_size.milliseconds // 1000
    own = [((definition.look_back or 0) + 1) * bucket for definition in readers]
    return max(stored.look_back, *own) if own else stored.look_back


def _unread(run: RunContext, stored: StoredTable, readers: Sequence[Definition]) -> Iterator[Found]:
    now = to_millis(clock.now())
    for definition in readers:
        yield from of_unread(stored, definition.name, _open(run, definition, now), now)


def _place(definition: Definition, settings: Settings) -> tuple[str, str]:
    if definition.source.reads_tag_views:
        return settings.journal_keyspace, settings.events_by_tag_table
    if definition.source.reads_journal:
        return settings.journal_keyspace, settings.journal_table
    return settings.kafka_journal_keyspace, settings.kafka_journal_table


def _open(run: RunContext, definition: Definition, now: int) -> set[int]:
    """Return what a projection has not processed since it has begun, whether it may or not."""
    settings = run.settings
    size = settings.bucket_size.milliseconds
    standing = ledger(run, definition).standing()
    first = standing.known.first
    if first is None or not history.has_begun(standing):
        return set()
    begin = max(history.begin_of(definition, settings.bucket_size), first)
    if definition.source.reads_journal:
        # What validate has failed expires as well.
        of_validate = Pieces.of(run.control, settings, applications.VALIDATE).standing()
        known = of_validate.known.within(begin, now)
    else:
        known = ready_buckets(run, definition, begin, now)
    made = progress(standing.rows, definition.fingerprint, known, size, standing.spans)
    return set(made.open_buckets)
