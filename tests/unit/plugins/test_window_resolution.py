"""The window of a run for each way to start it, from the facts that Airflow gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark_airflow.window import GIVE_PARAMS, RunFacts, WindowRefused, resolve


def day(number: int, hour: int = 0) -> datetime:
    return datetime(2026, 1, number, hour, tzinfo=UTC)


def run(run_type: str, logical: datetime | None, start: datetime, end: datetime) -> RunFacts:
    return RunFacts(run_type, logical, start, end)


NO_INTERVAL = RunFacts("manual")
PARAMS = {"window_start": "2013-01-01T00:00:00Z", "window_end": "2013-02-01T00:00:00Z"}


def window_of(
    facts: RunFacts,
    params: dict[str, object] | None = None,
    extras: list[dict[str, object]] | None = None,
) -> tuple[str, str, str]:
    window = resolve(facts, params or {}, extras or []).as_dict()
    return window["start"], window["end"], window["source"]


def refusal_of(
    facts: RunFacts,
    params: dict[str, object] | None = None,
    extras: list[dict[str, object]] | None = None,
) -> str:
    with pytest.raises(WindowRefused) as refusal:
        resolve(facts, params or {}, extras or [])
    text = str(refusal.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2013-01-01T00:00:00Z", "2013-02-01T00:00:00Z"),
        ("2013-01-01T00:00:00+00:00", "2013-02-01T00:00:00.000Z"),
        ("2013-01-01", "2013-02-01"),
    ],
)
def test_params_in_utc_are_the_window(start: str, end: str) -> None:
    assert window_of(NO_INTERVAL, {"window_start": start, "window_end": end}) == (
        "2013-01-01T00:00:00Z",
        "2013-02-01T00:00:00Z",
        "params",
    )


def test_params_win_over_events_and_interval() -> None:
    facts = run("manual", day(5), day(4), day(5))
    events: list[dict[str, object]] = [{"window_start": "2014-01-01", "window_end": "2014-01-02"}]
    assert window_of(facts, dict(PARAMS), events)[2] == "params"


@pytest.mark.parametrize("empty", [None, ""])
def test_empty_params_leave_the_window_to_the_interval(empty: str | None) -> None:
    facts = run("manual", day(5), day(4), day(5))
    params: dict[str, object] = {"window_start": empty, "window_end": empty}
    assert window_of(facts, params)[2] == "data interval"


@pytest.mark.parametrize(
    ("given_name", "missing"), [("window_start", "window_end"), ("window_end", "window_start")]
)
def test_one_param_alone_is_refused(given_name: str, missing: str) -> None:
    facts = run("manual", day(5), day(4), day(5))
    text = refusal_of(facts, {given_name: "2013-01-01"})
    assert text == f"{given_name} is given without {missing}; {GIVE_PARAMS}"


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("2013-01-01T00:00:00", "is not in UTC: '2013-01-01T00:00:00'"),
        ("2013-01-01T00:00:00+01:00", "is not in UTC: '2013-01-01T00:00:00+01:00'"),
        ("January", "is not an ISO 8601 time: 'January'"),
        ("2013-02-30", "is not an ISO 8601 time: '2013-02-30'"),
    ],
)
def test_params_that_are_not_utc_times_are_refused(value: object, fault: str) -> None:
    text = refusal_of(NO_INTERVAL, {"window_start": value, "window_end": "2013-02-01"})
    assert text == f"the param window_start {fault}; {GIVE_PARAMS}"


@pytest.mark.parametrize("end", ["2013-01-01", "2012-12-31"])
def test_empty_or_reversed_window_is_refused(end: str) -> None:
    text = refusal_of(NO_INTERVAL, {"window_start": "2013-01-01", "window_end": end})
    assert text.startswith("the window from the params is empty or reversed: [2013-01-01T00:00:00Z")


def test_events_give_the_hull_of_their_windows() -> None:
    extras: list[dict[str, object]] = [
        {"window_start": "2013-01-03T00:00:00Z", "window_end": "2013-01-04T00:00:00Z"},
        {"window_start": "2013-01-01T00:00:00Z", "window_end": "2013-01-02T00:00:00Z"},
    ]
    assert window_of(RunFacts("asset_triggered"), {}, extras) == (
        "2013-01-01T00:00:00Z",
        "2013-01-04T00:00:00Z",
        "asset events",
    )


def test_event_without_a_window_is_refused() -> None:
    extras: list[dict[str, object]] = [
        {"window_start": "2013-01-01", "window_end": "2013-01-02"},
        {"from_rest_api": True},
    ]
    text = refusal_of(RunFacts("asset_triggered"), {}, extras)
    assert text.startswith("an asset event that started this run carries no window")
    assert "['from_rest_api']" in text
    assert GIVE_PARAMS in text


@pytest.mark.parametrize("run_type", ["scheduled", "backfill"])
def test_automated_run_has_the_interval_of_its_logical_date(run_type: str) -> None:
    assert window_of(run(run_type, day(5), day(5), day(6))) == (
        "2026-01-05T00:00:00Z",
        "2026-01-06T00:00:00Z",
        "data interval",
    )


def test_backfill_over_a_manual_run_is_refused_and_says_what_to_do() -> None:
    text = refusal_of(run("backfill", day(5), day(4), day(5)))
    assert "kept the data interval [2026-01-04T00:00:00Z, 2026-01-05T00:00:00Z)" in text
    assert "delete the run and repeat the backfill" in text


def test_backfill_over_a_manual_run_with_params_is_refused() -> None:
    text = refusal_of(run("backfill", day(5), day(4), day(5)), dict(PARAMS))
    assert "a backfill gives each run its own date bucket" in text
    assert "delete that run and repeat the backfill" in text


@pytest.mark.parametrize(
    ("door", "logical", "start", "end"),
    [
        ("REST, UI or dags test at a bucket's edge", day(5), day(4), day(5)),
        ("REST, UI or dags test within a bucket", day(5, 13), day(4), day(5)),
        ("REST with an interval that starts at the date", day(1), day(1), day(4)),
        ("REST with an interval that ends at the date", day(4), day(1), day(4)),
        ("command line, date in the current bucket", day(5, 23), day(4), day(5)),
    ],
)
def test_manual_interval_that_fits_its_logical_date_is_the_window(
    door: str, logical: datetime, start: datetime, end: datetime
) -> None:
    window = resolve(run("manual", logical, start, end), {})
    assert (window.start, window.end) == (start, end), door


@pytest.mark.parametrize("run_type", ["manual", "operator_triggered", "asset_materialization"])
@pytest.mark.parametrize("logical", [day(3), day(10, 1), day(12), day(20)])
def test_interval_derived_from_now_is_refused(run_type: str, logical: datetime) -> None:
    text = refusal_of(run(run_type, logical, day(10), day(11)))
    assert "does not belong to its logical date" in text
    assert text.endswith(GIVE_PARAMS)


@pytest.mark.parametrize(
    "facts",
    [
        NO_INTERVAL,
        RunFacts("manual", day(5)),
        RunFacts("asset_triggered"),
        RunFacts("operator_triggered"),
    ],
)
def test_run_without_any_window_is_refused_naming_the_params(facts: RunFacts) -> None:
    text = refusal_of(facts)
    assert text.startswith(f"this {facts.run_type} run has no window")
    assert text.endswith(GIVE_PARAMS)


moments = st.datetimes(
    min_value=datetime(2000, 1, 1),
    max_value=datetime(2100, 1, 1),
    timezones=st.just(UTC),
)


@given(start=moments, length=st.timedeltas(timedelta(seconds=1), timedelta(days=400)))
def test_window_survives_the_way_through_params_and_events(
    start: datetime, length: timedelta
) -> None:
    first = resolve(run("scheduled", start, start, start + length), {})
    as_params = {"window_start": first.as_dict()["start"], "window_end": first.as_dict()["end"]}
    second = resolve(NO_INTERVAL, as_params)
    third = resolve(RunFacts("asset_triggered"), {}, [as_params])
    assert (first.start, first.end) == (second.start, second.end) == (third.start, third.end)


@given(start=moments, offset=st.integers(-12, 12))
def test_interval_in_another_zone_is_given_in_utc(start: datetime, offset: int) -> None:
    zone = timezone(timedelta(hours=offset))
    local = start.astimezone(zone)
    window = resolve(run("scheduled", start, local, local + timedelta(days=1)), {}).as_dict()
    assert window["start"].endswith("Z")
    assert datetime.fromisoformat(window["start"]) == start
