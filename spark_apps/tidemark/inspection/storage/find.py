"""The look at the tables that events are read from: their options, and the ledger of projections.

It reads no events but a few sampled rows, so that each run of validate can afford it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from tidemark import clock
from tidemark.cassandra.schema import identifier, table
from tidemark.context import RunContext
from tidemark.continuity import shapes
from tidemark.continuity.findings import finding
from tidemark.continuity.reading.inspection import Keep
from tidemark.errors import CassandraUnavailable, DefinitionError, InvalidInput
from tidemark.inspection.storage.rules import EventTable, Found, of_table, of_unread
from tidemark.ledger import applications
from tidemark.ledger.pieces import Pieces
from tidemark.projection.definition import catalog
from tidemark.projection.definition.model import Definition
from tidemark.projection.management.status import progress
from tidemark.projection.planning import history
from tidemark.projection.planning.plan import ledger, ready_buckets
from tidemark.settings import Settings
from tidemark.spark.local_rows import local_rows
from tidemark.spark.shapes import shaped
from tidemark.window import to_millis

_SAMPLED = 8
_ALWAYS_WRITTEN = "writer_uuid"
"""A column that each row of Pekko's tables has."""


@shaped(returns=shapes.FINDINGS)
def find(run: RunContext, _keep: Keep) -> DataFrame:
    """Return the findings of messages, of the tag views and of kafka-journal's events."""
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


def _tables(run: RunContext) -> Mapping[tuple[str, str], EventTable]:
    """Read the options of the tables that exist, by keyspace and name."""
    settings = run.settings
    bucket = settings.bucket_size.milliseconds // 1000
    messages = (settings.journal_keyspace, settings.journal_table)
    tag_views = (settings.journal_keyspace, settings.events_by_tag_table)
    kafka = (settings.kafka_journal_keyspace, settings.kafka_journal_table)
    look_back = {
        messages: settings.tag_write_look_back + bucket,
        tag_views: (settings.project_look_back + 1) * bucket,
        kafka: settings.kafka_journal_delay + bucket,
    }
    given = {tag_views: settings.events_by_tag_time_to_live}
    tables = {}
    for place, seconds in look_back.items():
        for row in run.control.execute(
            "SELECT default_time_to_live, compaction FROM system_schema.tables"
            " WHERE keyspace_name = ? AND table_name = ?",
            place,
        ):
            times = {
                "the table's default": row["default_time_to_live"],
                "TIDEMARK_EVENTS_BY_TAG_TIME_TO_LIVE": given.get(place, 0),
            }
            tables[place] = EventTable(
                place[1],
                {giver: time for giver, time in times.items() if time},
                dict(row["compaction"]),
                seconds,
                is_journal=place != tag_views,
                sampled=0 if place == kafka else _sampled(run, *place),
            )
    return tables


def _sampled(run: RunContext, keyspace: str, name: str) -> int:
    """Return the longest remaining time to live (seconds) of the first row of some partitions."""
    try:
        rows = run.control.execute(
            f"SELECT ttl({identifier(_ALWAYS_WRITTEN)}) AS ttl FROM {table(keyspace, name)}"
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
        definitions = catalog.load(run.settings.projections_dir)
    except (DefinitionError, InvalidInput) as error:
        run.say(f"what expires unread is not known: {error}")
        return {}
    by_place: dict[tuple[str, str], list[Definition]] = {}
    for definition in definitions:
        by_place.setdefault(_place(definition, run.settings), []).append(definition)
    return {place: by_place.get(place, []) for place in places}


def _look_back(stored: EventTable, readers: Sequence[Definition], settings: Settings) -> int:
    """Return for how long a table's rows are needed, by whoever looks back the farthest."""
    bucket = settings.bucket_size.milliseconds // 1000
    own = [((definition.look_back or 0) + 1) * bucket for definition in readers]
    return max(stored.look_back, *own) if own else stored.look_back


def _unread(run: RunContext, stored: EventTable, readers: Sequence[Definition]) -> Iterator[Found]:
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
