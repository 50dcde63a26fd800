"""Whom a failed run tells, and the figures that it sends: settings of Airflow's environment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.observability import stats

from tidemark_airflow import alerts, assets, operators, telemetry
from tidemark_airflow.assets import ALIAS, READ_MODELS

HERE = f"{__name__}:told"
SEEN: list[object] = []


def told(context: object) -> None:
    SEEN.append(context)


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (alerts.NOTIFIER, alerts.DEADLINE, "TIDEMARK_AIRFLOW_OWNER"):
        monkeypatch.delenv(name, raising=False)


def test_without_settings_nobody_is_told() -> None:
    assert alerts.defaults() == {
        "default_args": {"owner": "tidemark"},
        "on_failure_callback": None,
        "deadline": None,
    }


def test_the_named_function_is_told_of_failures_and_of_late_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(alerts.NOTIFIER, HERE)
    monkeypatch.setenv(alerts.DEADLINE, "90")
    monkeypatch.setenv("TIDEMARK_AIRFLOW_OWNER", "payments")
    defaults = alerts.defaults()
    assert defaults["default_args"] == {"owner": "payments"}
    defaults["on_failure_callback"]("a context")
    assert SEEN == ["a context"]
    assert defaults["deadline"].interval.total_seconds() == 90 * 60
    assert defaults["deadline"].callback.path == HERE.replace(":", ".")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({alerts.NOTIFIER: "no_such_module:told"}, "cannot be imported"),
        ({alerts.NOTIFIER: f"{__name__}:nobody"}, "cannot be imported"),
        ({alerts.NOTIFIER: f"{__name__}:SEEN"}, "no function of the context"),
        ({alerts.DEADLINE: "90"}, "and TIDEMARK_AIRFLOW_NOTIFIER to the function"),
        ({alerts.DEADLINE: "soon", alerts.NOTIFIER: HERE}, "whole number of minutes"),
    ],
)
def test_setting_that_cannot_be_used_is_an_import_error_of_the_dags(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], words: str
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=words):
        alerts.defaults()


def test_figures_of_a_run_are_sent_as_gauges(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, float] = {}
    monkeypatch.setattr(telemetry, "gauge", lambda name, value: sent.update({name: value}))
    telemetry.send_metrics(
        {
            "application": "tag-write",
            "state": "failed",
            "seconds": 12.5,
            "pieces": {"planned": 3, "failed": 1},
            "counts": {"tag_rows_written": 7},
        }
    )
    assert sent == {
        "tidemark.tag_write.seconds": 12.5,
        "tidemark.tag_write.failed": 1,
        "tidemark.tag_write.pieces.planned": 3,
        "tidemark.tag_write.pieces.failed": 1,
        "tidemark.tag_write.tag_rows_written": 7,
    }
    assert callable(stats.gauge)


def test_figures_of_one_projection_have_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(telemetry, "gauge", lambda name, value: sent.append(name))
    report = {"application": "project", "state": "done", "pieces": {}, "counts": {"quarantined": 1}}
    telemetry.send_metrics(report, "totals")
    assert "tidemark.project.totals.quarantined" in sent


def test_figures_of_an_observation_are_gauges_with_the_labels_in_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: dict[str, float] = {}
    monkeypatch.setattr(telemetry, "gauge", lambda name, value: sent.update({name: value}))
    samples = [
        ["projection_lag_events", ["totals"], 12.0],
        ["topic_partition_lag_records", ["orders.v1", "3"], 7.0],
        ["observed_timestamp_seconds", [], 1.0],
        ["alarm", ["late", "projection totals"], 1.0],
        ["alarm", ["late", "validate"], 1.0],
    ]
    telemetry.send_figures({"journal": "pekko", "samples": samples})
    assert sent == {
        "tidemark.observe.projection_lag_events.pekko.totals": 12.0,
        "tidemark.observe.topic_partition_lag_records.pekko.orders_v1.3": 7.0,
        "tidemark.observe.observed_timestamp_seconds.pekko": 1.0,
        # A gauge keeps its last value, so an alarm of its own would never end.
        "tidemark.observe.alarms.pekko": 2,
    }


def test_runs_side_by_side_tell_an_asset_together_what_they_have_completed() -> None:
    reports = [
        {
            "done_start": f"2026-11-0{day}T00:00:00Z",
            "done_end": f"2026-11-0{day + 1}T00:00:00Z",
            "run_id": f"project/r/1/{day}",
            "details": {"projections": {name: day}},
        }
        for day, name in ((2, "totals"), (1, "latest"))
    ]
    assert assets.together(reports) == {
        "done_start": "2026-11-01T00:00:00Z",
        "done_end": "2026-11-03T00:00:00Z",
        "run_id": "project/r/1",
        "details": {"projections": {"totals": 2, "latest": 1}},
    }


def test_each_projection_that_moved_has_an_asset_of_its_own() -> None:
    task = operators.TidemarkOperator(
        task_id="project", application_name="project", outlets=[READ_MODELS, ALIAS]
    )
    added: list[tuple[str, Any]] = []
    alias = SimpleNamespace(add=lambda asset, extra: added.append((asset.uri, extra)))
    common = SimpleNamespace(extra={})
    span = {"done_start": "2026-11-01T00:00:00Z", "done_end": "2026-11-02T00:00:00Z"}
    report = {
        "state": "done",
        "dry_run": False,
        "pieces": {"done": 2},
        "run_id": "r",
        "details": {"projections": {"totals": span}},
        **span,
    }
    events: Any = {READ_MODELS: common, ALIAS: alias}
    task._update_outlets({"outlet_events": events}, report)
    extra = {"window_start": span["done_start"], "window_end": span["done_end"], "run_id": "r"}
    assert added == [("tidemark://read_models/totals", extra)]
    assert common.extra == extra
