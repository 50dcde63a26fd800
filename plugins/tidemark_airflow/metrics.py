"""Figures of a run as metrics of Airflow, which it sends to StatsD or OpenTelemetry if told to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk.observability.stats import gauge


def send(report: Mapping[str, Any]) -> None:
    """Send the seconds, the pieces and the counts of a report as gauges.

    Their names are `tidemark.<application>.<figure>`, such as `tidemark.project.quarantined` or
    `tidemark.validate.findings`; without a receiver nothing is sent.
    """
    prefix = f"tidemark.{report['application'].replace('-', '_')}"
    figures = {
        "seconds": report.get("seconds", 0),
        "failed": int(report["state"] == "failed"),
        **{f"pieces.{state}": count for state, count in report["pieces"].items()},
        **report["counts"],
    }
    for name, value in figures.items():
        gauge(f"{prefix}.{name}", value)
