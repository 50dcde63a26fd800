"""Reads of one persistence id of a journal in PostgreSQL, by key and without Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from uuid import UUID

from tidemark.errors import HistoryPurged
from tidemark.journals.pekko.series import END, EventRef, Series
from tidemark.journals.r2dbc import queries
from tidemark.journals.r2dbc.tables import JournalTable, journal_connection, journal_tables
from tidemark.partitioning import keys
from tidemark.partitioning.keys import NUMBER_OF_SLICES
from tidemark.postgres.session import session
from tidemark.settings import Settings

_MICROS = "(extract(epoch FROM db_timestamp) * 1000000)::bigint"
_CHUNK = 500
_TICKS_PER_MICROSECOND = 10


class R2dbcSeriesReader:
    """A reader of one persistence id."""

    def __init__(self, settings: Settings, series: Series) -> None:
        """Bind the reader to a persistence id, without reading yet."""
        self._settings, self._id = settings, series.persistence_id

    def deleted_to(self) -> int:
        """Read the highest deleted sequence nr; 0 for none."""
        return deletions(self._settings, [self._id])[self._id]

    def known_highest(self, at_least: int) -> int:
        """Read the highest sequence nr, also of a deletion marker; 0 for none."""
        rows = self._rows("SELECT max(seq_nr) FROM {table} WHERE persistence_id = %s", self._id)
        return int(rows[0][0] or 0)

    def event_refs(
        self, first: int, last: int = END, *, after: int = 0, until: int = END
    ) -> Iterator[EventRef]:
        """Yield the existing events with `first <= number <= last`, ascending."""
        start, end = max(first, after + 1), min(last, until)
        while True:
            rows = self._rows(
                f"SELECT seq_nr, {_MICROS}, deleted FROM {{table}} WHERE persistence_id = %s"
                f" AND seq_nr BETWEEN %s AND %s ORDER BY seq_nr LIMIT {_CHUNK}",
                self._id,
                start,
                end,
            )
            for number, micros, deleted in rows:
                if not deleted:
                    yield self._event(number, micros)
            if len(rows) < _CHUNK:
                return
            start = rows[-1][0] + 1

    def payload(self, event: EventRef) -> dict[str, object]:
        """Read ser_id, ser_manifest and event of an event that `event_refs` returned.

        Raises:
            HistoryPurged: the event was deleted since.
        """
        rows = self._rows(
            "SELECT event_ser_id, event_ser_manifest, event_payload FROM {table}"
            " WHERE persistence_id = %s AND seq_nr = %s AND NOT deleted",
            self._id,
            event.sequence_nr,
        )
        if not rows:
            raise HistoryPurged(
                f"the event with sequence nr {event.sequence_nr} of {self._id} was deleted while it"
                " was read",
                where=str(journal_connection(self._settings)),
                do="run again",
            )
        return dict(zip(("ser_id", "ser_manifest", "event"), rows[0], strict=True))

    def _event(self, number: int, micros: int) -> EventRef:
        ticks = keys.UUID_EPOCH_TICKS + micros * _TICKS_PER_MICROSECOND
        timestamp = UUID(keys.ticks_timeuuid(ticks, clock_sequence=0, node=0))
        bucket = keys.time_bucket(micros // 1000, self._settings.bucket_size)
        return EventRef(number, number, timestamp, bucket)

    def _rows(self, query: str, *values: object) -> list[tuple[int, ...]]:
        table = table_of(journal_tables(self._settings), self._id).name.quoted
        with session(journal_connection(self._settings)) as opened:
            return opened.execute(query.replace("{table}", table).encode(), values).fetchall()


def table_of(tables: list[JournalTable], persistence_id: str) -> JournalTable:
    """Return the table that has the rows of a persistence id."""
    return tables[keys.slice_of(persistence_id) * len(tables) // NUMBER_OF_SLICES]


def deletions(settings: Settings, persistence_ids: Collection[str]) -> dict[str, int]:
    """Read the highest deleted sequence nr of persistence ids; 0 for none."""
    lowest = _lowest(settings, persistence_ids)
    deleted_to = {pid: number for pid, (number, deleted) in lowest.items() if deleted}
    return {pid: deleted_to.get(pid, 0) for pid in persistence_ids}


def unknown_ids(settings: Settings, persistence_ids: Collection[str]) -> list[str]:
    """Return the persistence ids without any row, in their order."""
    known = _lowest(settings, persistence_ids)
    return [pid for pid in persistence_ids if pid not in known]


def _lowest(settings: Settings, persistence_ids: Collection[str]) -> dict[str, tuple[int, bool]]:
    """Read the first sequence nr of persistence ids, and whether it is a deletion marker's."""
    found: dict[str, tuple[int, bool]] = {}
    tables = journal_tables(settings)
    with session(journal_connection(settings)) as opened:
        for table in tables:
            ids = [pid for pid in persistence_ids if table_of(tables, pid) is table]
            if ids:
                rows = opened.execute(queries.lowest(table.name).encode(), (ids,))
                found |= {pid: (number, deleted) for pid, number, deleted in rows}
    return found
