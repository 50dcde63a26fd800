"""The figures of an observation: their names and labels, and their values. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

PREFIX = "tidemark_"


@dataclass(frozen=True)
class Metric:
    """A figure. All figures are gauges, and have the label `journal` before these labels.

    Attributes:
        name: name, without the prefix.
        help: what the value is.
        labels: names of the further labels.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()


_PROJECTION, _PARTITION, _STREAM = ("projection",), ("topic", "partition"), ("stream",)
METRICS = (
    Metric("observed_timestamp_seconds", "when the state was observed"),
    Metric(
        "last_good_run_timestamp_seconds",
        "when a run of the application last completed work",
        ("application",),
    ),
    Metric(
        "complete_to_timestamp_seconds",
        "the application has processed all events before this time",
        ("application",),
    ),
    Metric(
        "open_findings", "open findings of validate, by severity: blocks or warns", ("severity",)
    ),
    Metric(
        "projection_lag_events",
        "about how many events wait in validated time buckets",
        _PROJECTION,
    ),
    Metric(
        "projection_lag_seconds",
        "from the first open time bucket to the end of the last validated time bucket",
        _PROJECTION,
    ),
    Metric(
        "projection_complete_to_timestamp_seconds",
        "all events before this time are in the result",
        _PROJECTION,
    ),
    Metric(
        "projection_fresh_within_seconds",
        "the promise `fresh-within` of the definition",
        _PROJECTION,
    ),
    Metric(
        "projection_oldest_gap_timestamp_seconds",
        "the oldest time bucket that waits for missing events; absent without a gap",
        _PROJECTION,
    ),
    Metric(
        "projection_gap_age_seconds",
        "from the oldest gap to the end of the last validated time bucket",
        _PROJECTION,
    ),
    Metric("projection_held_time_buckets", "time buckets that are held", _PROJECTION),
    Metric("projection_quarantined_events", "events in quarantine", _PROJECTION),
    Metric("projection_paused", "1 if the projection is paused, else 0", _PROJECTION),
    Metric(
        "topic_partition_lag_records",
        "records to the end of the topic partition; absent if Kafka does not answer",
        _PARTITION,
    ),
    Metric("topic_partition_lag_seconds", "the age of the replication", _PARTITION),
    Metric("topic_partition_held_records", "records that wait until somebody acts", _PARTITION),
    Metric("stream_waiting_groups", "event groups that have not ended", _STREAM),
    Metric("stream_held_groups", "event groups that another group holds", _STREAM),
    Metric("alarm", "1 for each open alarm", ("kind", "subject")),
)
BY_NAME = {metric.name: metric for metric in METRICS}


class Sample(NamedTuple):
    """A value of a figure.

    Attributes:
        name: name of the figure, without the prefix.
        labels: values of its labels, without the journal.
        value: the value.
    """

    name: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True)
class Observation:
    """The figures of a journal at a time.

    Attributes:
        journal: the journal keyspace.
        at: when the state was observed.
        samples: the figures.
        every_minutes: minutes between scheduled observations; None without a schedule.
    """

    journal: str
    at: datetime
    samples: Sequence[Sample]
    every_minutes: int | None = None


def series(journal: str, name: str, *labels: str) -> str:
    """Return a figure with its labels as OpenMetrics writes it: `tidemark_x{journal="pekko"}`."""
    names = ("journal", *BY_NAME[name].labels)
    pairs = ",".join(
        f'{label}="{_escaped(value)}"'
        for label, value in zip(names, (journal, *labels), strict=True)
    )
    return f"{PREFIX}{name}{{{pairs}}}"


def openmetrics(observation: Observation | None) -> str:
    """Return an observation as OpenMetrics text; None is an empty text."""
    if observation is None:
        return "# EOF\n"
    lines = []
    for metric in METRICS:
        samples = [sample for sample in observation.samples if sample.name == metric.name]
        if samples:
            lines.append(f"# TYPE {PREFIX}{metric.name} gauge")
            lines.append(f"# HELP {PREFIX}{metric.name} {metric.help}")
            lines += [
                f"{series(observation.journal, *sample[:1], *sample.labels)} {sample.value!r}"
                for sample in samples
            ]
    return "\n".join([*lines, "# EOF\n"])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
