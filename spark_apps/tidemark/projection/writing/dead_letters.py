"""Events that cannot be read or processed go to quarantine, whatever the projection does then."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.ledger import quarantine
from tidemark.ledger.applications import PROJECT
from tidemark.ledger.claim import Claim
from tidemark.projection.definition.model import Definition
from tidemark.projection.sources import event_source


def quarantine_events(
    letters: DataFrame, run: RunContext, claimed: Claim, definition: Definition
) -> None:
    """Write them to quarantine; then go on or stop, as the definition's on-error says.

    The events are of shape UNREADABLE; there is at least one.

    Raises:
        LockLost: our lock ran out while we worked.
        TidemarkError: on-error is fail; nothing of the result is written then.
    """
    claimed.check()
    quarantine.write(
        letters,
        run.settings,
        source=event_source(run, definition).table,
        application=f"{PROJECT}/{definition.name}",
        run_id=run.run_id,
    )
    if definition.on_error.fails:
        number = letters.count()
        first = letters.orderBy("persistence_id", "sequence_nr").first()
        assert first is not None  # noqa: S101 - there is at least one
        more = f", and {number - 1:,} more" if number > 1 else ""
        raise TidemarkError(
            f"on-error is fail, and the event {first.persistence_id} {first.sequence_nr}"
            f" cannot be processed: {first.cause}{more}",
            where=str(definition.file),
            do="correct the code or the event, or write on-error skip",
        )
