"""Reads the state of the system from `tidemark.status`, and turns it into figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.ledger.applications import PURGE, REPLICATE, TAG_WRITE, VALIDATE
from tidemark.observations.metrics import Sample
from tidemark.status import (
    event_groups,
    findings,
    projections,
    purges,
    replication,
    time_buckets,
)
from tidemark.status.event_groups import StreamState
from tidemark.status.findings import FindingRow
from tidemark.status.page import MOST, Amount, Page, all_of
from tidemark.status.projections import ProjectionState
from tidemark.status.replication import PartitionState
from tidemark.status.time_buckets import LedgerSummary


@dataclass(frozen=True)
class Facts:
    """The state of the system.

    Attributes:
        ledgers: the ledgers of tag-write and validate, by application, unless empty.
        projections: the projections.
        partitions: the replicated topic partitions.
        streams: the streams of event groups.
        open_findings: the open findings, at most a page.
        has_purged: whether purge has ever deleted something.
        lines: what could not be read, for people.
    """

    ledgers: Mapping[str, LedgerSummary]
    projections: Sequence[ProjectionState] = ()
    partitions: Sequence[PartitionState] = ()
    streams: Sequence[StreamState] = ()
    open_findings: Sequence[FindingRow] = ()
    has_purged: bool = False
    lines: Sequence[str] = ()

    @property
    def replicated_to(self) -> datetime | None:
        """The time up to which all topic partitions are replicated."""
        return min((partition.replicated_to for partition in self.partitions), default=None)

    @property
    def dags_in_use(self) -> set[str]:
        """The DAGs whose application has run before."""
        has_run = {
            "tag_write": TAG_WRITE in self.ledgers,
            "validate": VALIDATE in self.ledgers,
            "chain": VALIDATE in self.ledgers,
            "weekly_check": VALIDATE in self.ledgers,
            "project": any(projection.last_ended for projection in self.projections),
            "purge": self.has_purged,
            "replicate": bool(self.partitions),
            "event_groups": bool(self.streams),
        }
        return {dag_id for dag_id, is_used in has_run.items() if is_used}


def read(run: RunContext) -> Facts:
    """Read the state of the system; Tidemark's tables exist.

    Raises:
        InvalidInput: there is no directory of projections.
    """
    ledgers = {
        application: ledger
        for application in (TAG_WRITE, VALIDATE)
        if (ledger := time_buckets.of_application(run, application)) is not None
    }
    partitions, lines = _partitions(run)
    return Facts(
        ledgers,
        list(all_of(lambda after: projections.projections(run, limit=MOST, after=after))),
        partitions,
        list(all_of(lambda after: event_groups.streams(run, limit=MOST, after=after))),
        findings.open_findings(run, limit=MOST).items,
        bool(purges.policies(run, limit=1).items)
        or time_buckets.of_application(run, PURGE) is not None,
        lines,
    )


def _partitions(run: RunContext) -> tuple[Sequence[PartitionState], Sequence[str]]:
    """Return the topic partitions; without the ends of the topics if Kafka does not answer."""

    def read_page(after: str | None, *, asks_kafka: bool) -> Page[PartitionState]:
        return replication.partitions(run, limit=MOST, after=after, asks_kafka=asks_kafka)

    try:
        return list(all_of(lambda after: read_page(after, asks_kafka=True))), ()
    except TidemarkError as error:
        # If Cassandra is the cause, the second read fails, too.
        without_ends = all_of(lambda after: read_page(after, asks_kafka=False))
        return list(without_ends), (f"the lag in records is unknown: {error}",)


def samples(facts: Facts, at: datetime) -> list[Sample]:
    """Return the figures without the alarms; unknown figures are absent. No I/O."""
    return [
        Sample("observed_timestamp_seconds", (), at.timestamp()),
        *_of_applications(facts),
        *(
            Sample(
                "open_findings",
                (severity,),
                sum(finding.blocks is blocks for finding in facts.open_findings),
            )
            for severity, blocks in (("blocks", True), ("warns", False))
        ),
        *(sample for projection in facts.projections for sample in _of_projection(projection)),
        *(sample for partition in facts.partitions for sample in _of_partition(partition)),
        *(
            Sample(name, (stream.stream,), float(amount.number or 0))
            for stream in facts.streams
            for name, amount in (
                ("stream_waiting_groups", stream.open),
                ("stream_held_groups", stream.held),
            )
        ),
    ]


def _of_applications(facts: Facts) -> Iterator[Sample]:
    for application, ledger in facts.ledgers.items():
        yield from _at("last_good_run_timestamp_seconds", application, ledger.last_done)
        yield from _at("complete_to_timestamp_seconds", application, ledger.done_until)
    # replicate records no runs for its topic partitions, only up to when they are replicated.
    yield from _at("last_good_run_timestamp_seconds", REPLICATE, facts.replicated_to)
    yield from _at("complete_to_timestamp_seconds", REPLICATE, facts.replicated_to)


def _of_projection(projection: ProjectionState) -> Iterator[Sample]:
    name = projection.name
    if projection.version is None:
        return  # The file cannot be used, so nothing was read.
    yield from _amount("projection_lag_events", name, projection.lag_events)
    yield from _amount("projection_lag_seconds", name, projection.lag_seconds)
    yield from _at("projection_complete_to_timestamp_seconds", name, projection.complete_to)
    if projection.fresh_within_seconds is not None:
        within = float(projection.fresh_within_seconds)
        yield Sample("projection_fresh_within_seconds", (name,), within)
    yield from _at("projection_oldest_gap_timestamp_seconds", name, projection.oldest_gap)
    yield from _amount("projection_gap_age_seconds", name, projection.gap_age_seconds)
    yield from _amount("projection_held_time_buckets", name, projection.held)
    yield from _amount("projection_quarantined_events", name, projection.quarantined)
    yield Sample("projection_paused", (name,), float(projection.paused_at is not None))


def _of_partition(partition: PartitionState) -> Iterator[Sample]:
    labels = (partition.topic, str(partition.partition))
    if partition.lag_events.number is not None:
        lag = float(partition.lag_events.number)
        yield Sample("topic_partition_lag_records", labels, lag)
    yield Sample("topic_partition_lag_seconds", labels, float(partition.lag_seconds))
    held = float(partition.held_records.number or 0)
    yield Sample("topic_partition_held_records", labels, held)


def _amount(name: str, label: str, amount: Amount) -> Iterator[Sample]:
    if amount.number is not None:
        yield Sample(name, (label,), float(amount.number))


def _at(name: str, label: str, moment: datetime | None) -> Iterator[Sample]:
    if moment is not None:
        yield Sample(name, (label,), moment.timestamp())
