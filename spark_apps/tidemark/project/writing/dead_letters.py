"""Events that cannot be read or processed go to quarantine, whatever the projection does then."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.ledger import quarantine
from tidemark.ledger.applications import PROJECT
from tidemark.ledger.claim import Claim
from tidemark.ledger.quarantine import Place
from tidemark.project.definition.model import Definition
from tidemark.project.offset_store import management_state
from tidemark.project.offset_store.offsets import OffsetStore
from tidemark.project.sources import event_source
from tidemark.project.transformation.fold_frame import IN_STATE_SINCE
from tidemark.text import counted
from tidemark.window import from_millis

_EVENT = ("persistence_id", "sequence_nr")
_EXAMPLES = 3


def place_of(run: RunContext, definition: Definition) -> Place:
    """Return where the quarantined events of a projection are, those of all versions."""
    return Place(event_source(run, definition).table, f"{PROJECT}/{definition.name}")


def quarantine_events(
    letters: DataFrame, run: RunContext, claimed: Claim, definition: Definition
) -> None:
    """Write them to quarantine.

    The events are of shape UNREADABLE; there is at least one.

    Raises:
        LockLost: our lock ran out while we worked.
    """
    place = place_of(run, definition)
    claimed.check()
    store = OffsetStore.of(run, definition)
    management_state.note_quarantined(store)
    claimed.check()
    quarantine.write(
        letters,
        run.settings,
        source=place.source,
        application=place.application,
        run_id=run.run_id,
        definition_version=definition.fingerprint,
        revision=management_state.revision(store).revision,
    )


def release_processed(
    processed: DataFrame, run: RunContext, claimed: Claim, definition: Definition
) -> None:
    """Let events leave quarantine that have been processed; those of any other stay.

    An event that an earlier run has folded, which died before this, leaves as well: its row is of
    another definition than the state, or was written before the state was made void and computed
    again. A row that was written since says that the state lacks the event.

    Args:
        processed: of shape PROCESSED.
        run: the context of the run.
        claimed: its pieces.
        definition: the projection.

    Raises:
        LockLost: our lock ran out while we worked.
    """
    if not management_state.has_quarantined(OffsetStore.of(run, definition)):
        return
    leaving = quarantine.stored(processed, run.settings, place_of(run, definition))
    if IN_STATE_SINCE in processed.columns:
        is_older = F.coalesce("revision", F.lit(0)) < F.col(IN_STATE_SINCE)
        is_of_another = F.col("definition_version") != definition.fingerprint
        is_folded_now = F.col(IN_STATE_SINCE).isNull()
        leaving = leaving.where(is_folded_now | is_older | is_of_another)
    if not leaving.isEmpty():
        claimed.check()
        quarantine.release(leaving, run.settings)


def require_allowed(
    letters: DataFrame, counts: Mapping[int, Mapping[str, int]], definition: Definition
) -> None:
    """Refuse to go on without events that cannot be processed, as the definition's on-error says.

    Args:
        letters: as in `quarantine_events`.
        counts: `events_read` and `quarantined` of each time bucket.
        definition: the projection.

    Raises:
        TidemarkError: on-error is fail, or a time bucket has more of them than most-skipped.
    """
    if definition.on_error.fails:
        number = letters.count()
        first = letters.orderBy(*_EVENT).first()
        assert first is not None  # noqa: S101 - there is at least one
        more = f", and {number - 1:,} more" if number > 1 else ""
        raise TidemarkError(
            f"on-error is fail, and the event {first.persistence_id} {first.sequence_nr}"
            f" cannot be processed: {first.cause}{more}",
            where=str(definition.file),
            do="correct the code or the event, or write `on-error: skip`, with most-skipped as its"
            " limit",
        )
    limit = definition.on_error.most_skipped
    if limit is None:
        return
    for bucket, numbers in sorted(counts.items()):
        skipped, read = numbers.get("quarantined", 0), numbers.get("events_read", 0)
        if not limit.allows(skipped, read):
            raise TidemarkError(
                f"{skipped:,} of {counted(read, 'event')} of {from_millis(bucket):%Y-%m-%d %H:%M}"
                f" cannot be processed, and most-skipped is {limit}: {_examples(letters, bucket)}",
                where=str(definition.file),
                do="correct the code or the events, or raise most-skipped",
            )


def _examples(letters: DataFrame, bucket: int) -> str:
    ordered = letters.where(F.col("time_bucket") == bucket).orderBy(*_EVENT)
    rows = ordered.take(_EXAMPLES)
    return "; ".join(f"{row.persistence_id} {row.sequence_nr}, {row.cause}" for row in rows)
