"""The report of a run, its figures as metrics, and the tables that it has read and written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.observability.stats import gauge

from tidemark_airflow.journals.journal import DEFAULT

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


def read_report(file: Path) -> dict[str, Any] | None:
    """Read the report file of an application; None if the application died before its end.

    With a driver on this machine, the report is in a file and not in Cassandra, because it must
    also report that Cassandra cannot be reached.
    """
    if not file.exists():
        return None
    report: dict[str, Any] = json.loads(file.read_text())
    return report


def summary(report: Mapping[str, Any]) -> str:
    """Return a line such as `tag-write done [..., ...): 31 of 31 pieces; events_read 12`."""
    counts = ", ".join(f"{name} {value:,}" for name, value in report["counts"].items())
    pieces = report["pieces"]
    window = f" [{report['window_start']}, {report['window_end']})"
    return (
        f"{report['application']} {report['state']}{window if report['window_start'] else ''}:"
        f" {pieces['done']} of {pieces['planned']} pieces; {counts}"
    )


def send_metrics(
    report: Mapping[str, Any], projection: str | None = None, journal: str = DEFAULT
) -> None:
    """Send the seconds, the pieces and the counts of a report as gauges of Airflow.

    Airflow passes them to StatsD or OpenTelemetry; without a receiver nothing is sent. Their names
    are `tidemark.<application>.<figure>`, such as `tidemark.validate.findings`; for a run of one
    projection `tidemark.project.<projection>.<figure>`. After `tidemark`, those of a journal of the
    file have its name.
    """
    application = report["application"].replace("-", "_")
    of_journal = [] if journal == DEFAULT else [journal]
    of_projection = [projection] if projection else []
    prefix = ".".join(["tidemark", *of_journal, application, *of_projection])
    figures = {
        "seconds": report.get("seconds", 0),
        "failed": int(report["state"] == "failed"),
        **{f"pieces.{state}": count for state, count in report["pieces"].items()},
        **report["counts"],
    }
    for name, value in figures.items():
        gauge(f"{prefix}.{name}", value)


def send_figures(observation: Mapping[str, Any]) -> None:
    """Send the figures of an observation as gauges of Airflow.

    Their names are `tidemark.observe.<figure>.<journal>.<label values>`, such as
    `tidemark.observe.projection_lag_events.pekko.totals`. Characters of a label that have a
    meaning in names become `_`. A gauge keeps its last value, so that the number of open alarms is
    sent in place of the alarms.
    """
    journal, samples = observation["journal"], observation["samples"]
    gauge(f"tidemark.observe.alarms.{journal}", sum(figure == "alarm" for figure, _, _ in samples))
    for figure, labels, value in samples:
        if figure != "alarm":
            parts = [re.sub(r"[^A-Za-z0-9_-]", "_", part) for part in (journal, *labels)]
            gauge(".".join(["tidemark", "observe", figure, *parts]), value)


def lineage(report: Mapping[str, Any] | None, hosts: str) -> OperatorLineage[Any, Any]:
    """Return the tables of a report as OpenLineage's data sets; none without a report.

    Their namespace is `cassandra://host:port` of the first host and their name `keyspace.table`,
    OpenLineage's naming of Cassandra's tables.
    """
    # Only OpenLineage's provider calls this, so the provider is installed.
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import Dataset

    namespace = f"cassandra://{hosts.partition(',')[0]}"
    tables = report["details"].get("tables", {}) if report else {}
    read, written = (
        [Dataset(namespace=namespace, name=name) for name in tables.get(key, [])]
        for key in ("read", "written")
    )
    return OperatorLineage(inputs=read, outputs=written)
