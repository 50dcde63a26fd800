"""Ledgers with many pieces, and the answers that must not cost more for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

from tests.integration.status.status_reading import Ledger
from tests.integration.support import Journal
from tidemark.context import RunContext
from tidemark.ledger.piece import State
from tidemark.observe import facts
from tidemark.project.definition import catalog
from tidemark.status import (
    event_groups,
    findings,
    overview,
    projections,
    purges,
    replication,
    runs,
    time_buckets,
)

FIRST = datetime(2012, 1, 1, tzinfo=UTC)
LIMIT = 50
"""The rows of a page."""
ANSWERS: Mapping[str, Callable[[RunContext], object]] = {
    "ledgers": lambda run: time_buckets.ledgers(run, limit=LIMIT),
    "newest": lambda run: time_buckets.time_buckets(run, "tag-write", limit=LIMIT),
    "failed": lambda run: time_buckets.time_buckets(
        run, "tag-write", state=State.FAILED, limit=LIMIT
    ),
    "planned": lambda run: time_buckets.time_buckets(
        run, "validate", state=State.PLANNED, limit=LIMIT
    ),
    "projections": lambda run: projections.projections(run, limit=LIMIT),
    "findings": lambda run: findings.open_findings(run, limit=LIMIT),
    "settled": lambda run: findings.settled_findings(run, limit=LIMIT),
    "policies": lambda run: purges.policies(run, limit=LIMIT),
    "plans": lambda run: purges.plans(run, limit=LIMIT),
    "partitions": lambda run: replication.partitions(run, limit=LIMIT),
    "held keys": lambda run: replication.held_keys(run, limit=LIMIT),
    "streams": lambda run: event_groups.streams(run, limit=LIMIT),
    "runs": lambda run: runs.runs_page(run, limit=LIMIT),
    "overview": lambda run: overview.overview(run, timedelta(days=1)),
    "observation": facts.read,
}


def ledger_of_totals(journal: Journal) -> Ledger:
    """Return the ledger of the projection `totals`, which must be defined."""
    settings = journal.settings()
    [definition] = catalog.select(settings.projections_dir, ["totals"]).definitions
    subject = definition.subject(settings.journal_keyspace)
    return Ledger(journal, FIRST, "project", subject, definition.fingerprint)


def work(journal: Journal, number: int) -> None:
    """Do time buckets as the applications do; the last tenth of the projection is held."""
    for ledger in (Ledger(journal, FIRST), Ledger(journal, FIRST, "validate")):
        for hours in _parts(range(number)):
            ledger.end(State.DONE, *hours, counts={"events_read": 10, "messages_checked": 10})
    totals = ledger_of_totals(journal)
    done = number * 9 // 10
    for hours in _parts(range(done)):
        totals.end(State.DONE, *hours)
    for hours in _parts(range(done, number)):
        totals.end(State.HELD, *hours, error="gap: p|1 red 4..6 missing")


def _parts(hours: Sequence[int]) -> Iterator[list[int]]:
    left = iter(hours)
    while part := list(islice(left, 5000)):
        yield part
