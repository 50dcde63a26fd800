"""How the projections stand: what is done, what is open and why, and how far they lag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidemark import preflight
from tidemark.application import DONE, Outcome, Run
from tidemark.ledger.pieces import Entry, State
from tidemark.projection import catalog, management
from tidemark.projection.plan import ledger, passed
from tidemark.window import from_millis, to_millis


@dataclass(frozen=True)
class Progress:
    """One projection against the time buckets that may be processed.

    Attributes:
        states: its pieces by state; those done by another definition count as `changed`.
        open_buckets: of those, what is not done by the present definition; ascending.
        lag: from the start of the first of them to the end of the last that may be.
        last_error: of the oldest piece that has one, with its time bucket.
    """

    states: Mapping[str, int]
    open_buckets: Sequence[int]
    lag: timedelta
    last_error: tuple[int, str] | None


def progress(
    entries: Sequence[Entry], fingerprint: str, validated: Collection[int], bucket_ms: int
) -> Progress:
    """Compare the ledger's rows of a projection with what it could have done. No I/O."""
    done = {entry.time_bucket for entry in entries if entry.is_done(fingerprint)}
    states = Counter(
        "changed" if entry.state is State.DONE and not entry.is_done(fingerprint) else entry.state
        for entry in entries
    )
    open_buckets = sorted(set(validated) - done)
    lag_ms = max(validated) + bucket_ms - open_buckets[0] if open_buckets else 0
    errors = [
        (entry.time_bucket, entry.error)
        for entry in entries
        if entry.error and entry.state is not State.DONE
    ]
    return Progress(
        states, open_buckets, timedelta(milliseconds=lag_ms), min(errors) if errors else None
    )


def run_status(run: Run, names: Sequence[str]) -> Outcome:
    """Say it of each projection. Nothing is written but Tidemark's own tables, if absent.

    Raises:
        InvalidInput: a projection is unknown.
        DefinitionError: a projection file cannot be used.
        SchemaMismatch: the journal's tables are missing or of another shape.
        CassandraUnavailable: a statement failed.
    """
    settings = run.settings
    definitions = catalog.select(settings.projections_dir, names)
    preflight.check_journal(run, has_journal=catalog.reads_pekko(definitions))
    now_ms = to_millis(datetime.now(UTC))
    ready: set[int] = set()
    lines, open_pieces, paused = [], 0, 0
    for definition in definitions:
        stands = management.standing(run.control, settings, definition)
        entries = ledger(run, definition).entries()
        first = entries[0].time_bucket if entries else now_ms
        passed_by = passed(run, definition, first, now_ms)
        ready |= passed_by if definition.source.is_pekko else set()
        size = settings.bucket_size.milliseconds
        now = progress(entries, definition.fingerprint, passed_by, size)
        paused += stands.paused
        open_pieces += len(now.open_buckets)
        lines += [f"{definition.name} version {definition.version}: {_summary(now)}"]
        if stands.paused:
            lines.append(f"  {stands}")
        if now.open_buckets:
            oldest = from_millis(now.open_buckets[0])
            lines.append(f"  oldest open time bucket {oldest:%Y-%m-%d %H:%M}, lag {now.lag}")
        if now.last_error is not None:
            bucket, error = now.last_error
            lines.append(f"  {from_millis(bucket):%Y-%m-%d %H:%M}: {error}")
    counts = {
        "projections": len(definitions),
        "paused": paused,
        "validated_buckets": len(ready),
        "open_pieces": open_pieces,
    }
    return Outcome(DONE, counts=counts, lines=lines)


def _summary(now: Progress) -> str:
    parts = [f"{number:,} {state}" for state, number in sorted(now.states.items())]
    return ", ".join([*parts, f"{len(now.open_buckets):,} open"])
