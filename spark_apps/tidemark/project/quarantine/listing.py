"""The command `quarantine list`: shows quarantined events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from itertools import islice

from tidemark.cassandra.control import Row
from tidemark.context import Outcome, RunContext, RunState
from tidemark.errors import all_of
from tidemark.ledger import quarantine
from tidemark.project.management.selection import select_usable
from tidemark.project.quarantine.choice import EventSelection, line, time_bucket, version
from tidemark.window import from_millis, iso


def list_events(
    run: RunContext, names: Sequence[str], *, persistence_id: str | None, limit: int
) -> Outcome:
    """Report quarantined events of projections, at most `limit` of each, without Spark."""
    selected = select_usable(run, names)
    lines: list[str] = []
    events: list[dict[str, object]] = []
    for definition in selected.definitions:
        place = EventSelection(persistence_id).place(run, definition)
        rows = list(islice(quarantine.stream(run.control, run.settings, place), limit + 1))
        lines += [f"{definition.name}: {line(run, row)}" for row in rows[:limit]]
        if len(rows) > limit:
            lines.append(f"{definition.name}: there are more than {limit:,}; raise --limit")
        events += [{"projection": definition.name, **_json(run, row)} for row in rows[:limit]]
    return Outcome(
        RunState.FAILED if selected.errors else RunState.DONE,
        counts={"events": len(events)},
        lines=lines or ["nothing is in quarantine"],
        error=all_of(selected.errors),
        details={"events": events},
    )


def _json(run: RunContext, row: Row) -> dict[str, object]:
    return {
        "version": version(row),
        "persistence_id": row["persistence_id"],
        "sequence_nr": row["sequence_nr"],
        "timestamp": str(row["timestamp"]),
        "time_bucket": iso(from_millis(time_bucket(run, row))),
        "cause": row["cause"],
        "found_at": iso(row["found_at"].replace(tzinfo=UTC)),
        "run_id": row["run_id"],
    }
