"""Quarantines events that cannot be decoded or processed, and releases processed events."""

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
    """Return the place in quarantine of a projection's events, the same for all versions."""
    return Place(event_source(run, definition).table, f"{PROJECT}/{definition.name}")


def quarantine_events(
    letters: DataFrame, run: RunContext, claimed: Claim, definition: Definition
) -> None:
    """Write events of shape UNREADABLE, at least one, to quarantine."""
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
    """Release processed events (of shape PROCESSED) from quarantine.

    This includes events that an earlier run folded before it died: their quarantine rows are of
    another definition than the state, or older than the voiding after which the state was computed
    again. A quarantine row written since then means that the state lacks the event.
    """
    if not management_state.has_quarantined(OffsetStore.of(run, definition)):
        return
    released = quarantine.stored(processed, run.settings, place_of(run, definition))
    if IN_STATE_SINCE in processed.columns:
        is_older = F.coalesce("revision", F.lit(0)) < F.col(IN_STATE_SINCE)
        is_of_another = F.col("definition_version") != definition.fingerprint
        is_folded_now = F.col(IN_STATE_SINCE).isNull()
        released = released.where(is_folded_now | is_older | is_of_another)
    if not released.isEmpty():
        claimed.check()
        quarantine.release(released, run.settings)


def require_allowed(
    letters: DataFrame, counts: Mapping[int, Mapping[str, int]], definition: Definition
) -> None:
    """Require that the definition's on-error allows skipping the quarantined events `letters`.

    `counts` has `events_read` and `quarantined` of each time bucket.

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
