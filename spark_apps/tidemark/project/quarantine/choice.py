"""Selects the quarantined events of a command, and describes them for people."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemark.cassandra.control import Row
from tidemark.context import RunContext
from tidemark.errors import InvalidInput
from tidemark.journals.pekko import series
from tidemark.ledger.quarantine import Place
from tidemark.partitioning import keys
from tidemark.project.definition.model import Definition
from tidemark.project.writing import dead_letters
from tidemark.window import from_millis


@dataclass(frozen=True)
class EventSelection:
    """A selection of quarantined events: all, those of a persistence id, or a single event."""

    persistence_id: str | None = None
    sequence_nr: int | None = None

    def place(self, run: RunContext, definition: Definition) -> Place:
        """Return the place of these events of a projection in quarantine.

        Raises:
            InvalidInput: the selection has a sequence nr without a persistence id.
        """
        if self.sequence_nr is not None and self.persistence_id is None:
            raise InvalidInput(
                "a sequence nr alone is no event", where="--sequence-nr", do="give --persistence-id"
            )
        return replace(dead_letters.place_of(run, definition), **vars(self))

    def require_any(self, number: int, name: str) -> None:
        """Require that a selection of specific events is not empty; `number` is its size.

        Raises:
            InvalidInput: the selection is empty.
        """
        if number or self.persistence_id is None:
            return
        event = f" {self.sequence_nr}" if self.sequence_nr is not None else ""
        raise InvalidInput(
            f"no event {self.persistence_id}{event} of {name} is in quarantine",
            where="--persistence-id" if self.sequence_nr is None else "--sequence-nr",
            do=f"look at `project.py quarantine list {name}`",
        )


def time_bucket(run: RunContext, row: Row) -> int:
    """Return the time bucket of a quarantined event, epoch ms."""
    return keys.time_bucket(series.epoch_ms(row["timestamp"]), run.settings.bucket_size)


def version(row: Row) -> int | None:
    """Return the version of the definition that could not process an event, if known."""
    fingerprint = row["definition_version"]
    return int(fingerprint.split("-")[0]) if fingerprint else None


def line(run: RunContext, row: Row) -> str:
    """Describe a quarantined event for people."""
    number = version(row)
    of_version = f", version {number}" if number is not None else ""
    return (
        f"{row['persistence_id']} {row['sequence_nr']} of"
        f" {from_millis(time_bucket(run, row)):%Y-%m-%d %H:%M}{of_version},"
        f" {row['found_at']:%Y-%m-%d %H:%M:%S}: {row['cause']}"
    )
