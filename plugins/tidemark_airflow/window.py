"""The window of a run: the event time that it processes, or why it may not start.

The data interval that Airflow gives a run depends on how the run was started, and is not always the
intended interval. `resolve` takes the first of these and rejects an unreliable window:

1. the params `window_start` and `window_end`;
2. the hull of the windows in the extras of the asset events that started the run;
3. the run's data interval, if it fits the run's logical date.

==========================================================  =====================================
start of the run                                            window
==========================================================  =====================================
any manual start with both params                           the params
started by an asset                                         hull of the events' windows
schedule                                                    the data interval
`airflow backfill create`, new run                          the data interval
`airflow backfill create` over an existing manual run       refused: the run keeps its old interval
UI form or REST with a logical date, no params              last interval over at the logical date
`airflow dags test` (with or without a date)                last interval over at that date
REST or UI with an explicit data interval                   that interval, if its start is the
                                                            logical date, or its end is at or up to
                                                            one interval before the logical date
REST with `logical_date: null`                              refused: there is no data interval
`airflow dags trigger` without `--logical-date`             refused: there is no data interval
`airflow dags trigger --logical-date`, TriggerDagRun        refused: the interval was derived from
operator with a logical date                                the time of the call, not from the date
                                                            (accepted only when the two agree)
==========================================================  =====================================

Source (Airflow 3.3): `TriggerDAGRunPostBody.validate_context` infers from the logical date and
honours explicit intervals; `api.common.trigger_dag` infers from `run_after`, which is now;
`models.backfill._handle_clear_run` changes type and backfill id of an existing run but neither
its interval nor, unless a new one is given, its conf. tests/dags tests each kind of start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

GIVE_PARAMS = (
    "give the params window_start and window_end"
    " (ISO 8601 in UTC, such as 2013-01-01T00:00:00Z; the end is exclusive)"
)
# Runs that Airflow numbers itself: their interval starts at their logical date.
_AUTOMATED = frozenset({"scheduled", "backfill"})


class WindowRefused(ValueError):
    """The run has no reliable window; the text is one line with the fault and the next step."""


@dataclass(frozen=True)
class RunFacts:
    """The facts of a run that `resolve` needs.

    Attributes:
        run_type: Airflow's run type, such as `manual`, `scheduled` or `backfill`.
        logical_date: aware, or None.
        interval_start: start of the data interval, aware, or None.
        interval_end: end of the data interval, exclusive, aware, or None.
    """

    run_type: str
    logical_date: datetime | None = None
    interval_start: datetime | None = None
    interval_end: datetime | None = None


@dataclass(frozen=True)
class RunWindow:
    """Event time in [start, end), both in UTC, and its source."""

    start: datetime
    end: datetime
    source: str

    def as_dict(self) -> dict[str, str]:
        """Return the form for XComs: `start` and `end` in ISO 8601 and UTC, and `source`."""
        return {"start": iso(self.start), "end": iso(self.end), "source": self.source}


def iso(moment: datetime) -> str:
    """Return ISO 8601 in UTC with `Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def resolve(
    run: RunFacts, params: Mapping[str, Any], event_extras: Iterable[Mapping[str, Any]] = ()
) -> RunWindow:
    """Return the window of a run, by the rules at the top of this module.

    `event_extras` are the extras of the asset events that started the run.

    Raises:
        WindowRefused: there is no window, or no reliable one.
    """
    start, end = params.get("window_start") or None, params.get("window_end") or None
    extras = list(event_extras)
    if start is not None or end is not None:
        window = _from_params(run, start, end)
    elif extras:
        window = _from_events(extras)
    else:
        window = _from_interval(run)
    if window.start >= window.end:
        raise WindowRefused(
            f"the window from the {window.source} is empty or reversed:"
            f" {_show(window.start, window.end)}; {GIVE_PARAMS}"
        )
    return window


def _from_params(run: RunFacts, start: Any, end: Any) -> RunWindow:
    if start is None or end is None:
        given, missing = ("window_end", "window_start")[:: 1 if start is None else -1]
        raise WindowRefused(f"{given} is given without {missing}; {GIVE_PARAMS}")
    if run.run_type == "backfill":
        raise WindowRefused(
            "a backfill gives each run its own date bucket, but this run carries the params"
            f" window_start={start} and window_end={end}; create the backfill without them,"
            " or if it met an existing manual run, delete that run and repeat the backfill"
        )
    return RunWindow(
        _moment(start, "param window_start"), _moment(end, "param window_end"), "params"
    )


def _from_events(extras: list[Mapping[str, Any]]) -> RunWindow:
    windows = []
    for extra in extras:
        start, end = extra.get("window_start"), extra.get("window_end")
        if not start or not end:
            raise WindowRefused(
                "an asset event that started this run carries no window"
                f" (its extra has the keys {sorted(extra)}); trigger the DAG by hand and"
                f" {GIVE_PARAMS}"
            )
        windows.append(
            (
                _moment(start, "asset event's window_start"),
                _moment(end, "asset event's window_end"),
            )
        )
    return RunWindow(
        min(start for start, _ in windows), max(end for _, end in windows), "asset events"
    )


def _from_interval(run: RunFacts) -> RunWindow:
    start, end, logical = run.interval_start, run.interval_end, run.logical_date
    if start is None or end is None or logical is None:
        raise WindowRefused(
            f"this {run.run_type} run has no window: no params, no asset events and no data"
            f" interval; {GIVE_PARAMS}"
        )
    if run.run_type in _AUTOMATED:
        if start != logical:
            raise WindowRefused(
                f"this {run.run_type} run kept the data interval {_show(start, end)} of an earlier"
                f" manual run, which is not the bucket that starts at its logical date"
                f" {iso(logical)}; delete the run and repeat the backfill, or trigger the DAG by"
                f" hand and {GIVE_PARAMS}"
            )
    elif not _touches(start, end, logical):
        raise WindowRefused(
            f"the data interval {_show(start, end)} of this {run.run_type} run does not belong to"
            f" its logical date {iso(logical)} (Airflow derived it from the time of the trigger,"
            f" or it was given for another date); {GIVE_PARAMS}"
        )
    return RunWindow(start.astimezone(UTC), end.astimezone(UTC), "data interval")


def _touches(start: datetime, end: datetime, logical: datetime) -> bool:
    """Return whether `logical` belongs to [start, end): as its start, or as a time right after."""
    return logical == start or end <= logical < end + (end - start)


def _moment(text: Any, where: str) -> datetime:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        raise WindowRefused(
            f"the {where} is not an ISO 8601 time: {text!r}; {GIVE_PARAMS}"
        ) from None
    if moment.tzinfo is None and len(str(text)) <= len("2013-01-01"):
        moment = moment.replace(tzinfo=UTC)  # a date alone means its midnight in UTC
    if moment.utcoffset() != timedelta(0):
        raise WindowRefused(f"the {where} is not in UTC: {text!r}; {GIVE_PARAMS}")
    return moment.astimezone(UTC)


def _show(start: datetime, end: datetime) -> str:
    return f"[{iso(start)}, {iso(end)})"
