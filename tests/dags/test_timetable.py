"""The start of a scheduled run, when its last time bucket is out of live readers' reach."""

from __future__ import annotations

from datetime import timedelta

import pendulum
import pytest
from airflow.sdk import AssetAny, AssetOrTimeSchedule, CronTriggerTimetable
from airflow.sdk.bases.timetable import BaseTimetable
from airflow.timetables.base import DataInterval, TimeRestriction

from tidemark_airflow import timetables
from tidemark_airflow.assets import REPLICATED, TAG_VIEWS, VALIDATED
from tidemark_airflow.timetables import (
    ONE_DAG,
    THREE_DAGS,
    DateBucketTimetable,
    ReachTimetable,
    by_date_bucket,
    every_few_minutes,
    started_by,
    weekly,
)

NO_CATCHUP = TimeRestriction(None, None, catchup=False)


def moment(text: str) -> pendulum.DateTime:
    parsed = pendulum.parse(f"2026-11-{text}Z")
    assert isinstance(parsed, pendulum.DateTime)
    return parsed


def next_run(
    monkeypatch: pytest.MonkeyPatch,
    now: str,
    last: str | None = None,
    restriction: TimeRestriction = NO_CATCHUP,
) -> tuple[pendulum.DateTime, pendulum.DateTime]:
    """Return the starts of the next interval and its run; `last` is the last interval's start."""
    monkeypatch.setattr(timetables, "_now", lambda: moment(now))
    timetable = by_date_bucket(THREE_DAGS)
    assert isinstance(timetable, ReachTimetable)
    timetable = ReachTimetable.deserialize(timetable.serialize())
    before = None
    if last is not None:
        before = DataInterval(moment(last), moment(last).add(days=1))
    info = timetable.next_dagrun_info(last_automated_data_interval=before, restriction=restriction)
    assert info is not None
    assert info.data_interval.end == info.data_interval.start.add(days=1)
    return info.data_interval.start, info.run_after


@pytest.mark.parametrize(
    ("size", "run_after"),
    [("Minute", "03T00:01:00"), ("Hour", "03T01:00:00"), ("Day", "04T00:00:00")],
)
def test_a_run_starts_one_time_bucket_after_its_interval(
    monkeypatch: pytest.MonkeyPatch, size: str, run_after: str
) -> None:
    """By then the interval's last time bucket is neither the present one nor the one before."""
    monkeypatch.setenv("TIDEMARK_BUCKET_SIZE", size)
    run = next_run(monkeypatch, "03T00:00:10", last="01T00:00:00")
    assert run == (moment("02T00:00:00"), moment(run_after))


def test_an_interval_that_waits_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The DAG is parsed again just before and after its run is due, and after the next interval."""
    monkeypatch.setenv("TIDEMARK_BUCKET_SIZE", "Day")
    due = (moment("02T00:00:00"), moment("04T00:00:00"))
    for now in ("03T23:59:59", "04T00:00:00", "04T00:00:30"):
        assert next_run(monkeypatch, now, last="01T00:00:00") == due
    assert next_run(monkeypatch, "04T00:00:30") == due


def test_what_was_missed_is_left_to_the_applications(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without catchup one run, for the newest interval, starts after an outage of a week."""
    monkeypatch.setenv("TIDEMARK_BUCKET_SIZE", "Hour")
    run = next_run(monkeypatch, "09T00:30:00", last="01T00:00:00")
    assert run == (moment("07T00:00:00"), moment("08T01:00:00"))
    run = next_run(monkeypatch, "09T01:00:00", last="01T00:00:00")
    assert run == (moment("08T00:00:00"), moment("09T01:00:00"))


def test_backfills_get_every_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_BUCKET_SIZE", "Hour")
    of_backfill = TimeRestriction(moment("02T00:00:00"), moment("05T00:00:00"), catchup=True)
    run = next_run(monkeypatch, "20T00:00:00", restriction=of_backfill)
    assert run == (moment("02T00:00:00"), moment("03T01:00:00"))
    run = next_run(monkeypatch, "20T00:00:00", last="02T00:00:00", restriction=of_backfill)
    assert run[0] == moment("03T00:00:00")


def test_a_longer_eventual_consistency_delay_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_BUCKET_SIZE", "minute")
    monkeypatch.setenv("TIDEMARK_EVENTS_BY_TAG_EVENTUAL_CONSISTENCY_DELAY", "600")
    run = next_run(monkeypatch, "03T00:00:10", last="01T00:00:00")
    assert run[1] - moment("03T00:00:00") == timedelta(minutes=10)


def test_an_unknown_bucket_size_is_an_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_BUCKET_SIZE", "Week")
    with pytest.raises(ValueError, match="TIDEMARK_BUCKET_SIZE is 'Week'"):
        by_date_bucket(THREE_DAGS)


@pytest.mark.parametrize("chain", [THREE_DAGS, ONE_DAG])
def test_the_chain_of_the_setting_starts_by_time_and_the_other_by_backfill_only(
    monkeypatch: pytest.MonkeyPatch, chain: str
) -> None:
    monkeypatch.setenv("TIDEMARK_CHAIN", chain)
    [other] = {THREE_DAGS, ONE_DAG} - {chain}
    assert isinstance(by_date_bucket(chain), ReachTimetable)
    assert isinstance(by_date_bucket(other), DateBucketTimetable)
    by_assets = [started_by(*assets) for assets in ([TAG_VIEWS], [VALIDATED, REPLICATED])]
    if chain == THREE_DAGS:
        assert not any(isinstance(schedule, DateBucketTimetable) for schedule in by_assets)
    else:
        assert isinstance(by_assets[0], DateBucketTimetable)
        assert isinstance(by_assets[1], AssetOrTimeSchedule)
        assert by_assets[1].asset_condition == AssetAny(REPLICATED)


def test_the_weekly_check_starts_after_the_last_time_bucket_of_the_week(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEMARK_BUCKET_SIZE", "Hour")
    schedule = weekly()
    assert isinstance(schedule, ReachTimetable)
    assert schedule.serialize() == {"expression": "0 0 * * 0", "delay": 3600}
    monkeypatch.setenv("TIDEMARK_CADENCE", "off")
    assert weekly() is None
    monkeypatch.setenv("TIDEMARK_CADENCE", "daily")
    monkeypatch.setenv("TIDEMARK_WEEKLY_CHECK", "off")
    assert weekly() is None
    monkeypatch.setenv("TIDEMARK_WEEKLY_CHECK", "often")
    with pytest.raises(ValueError, match="TIDEMARK_WEEKLY_CHECK is 'often'; set it to on or off"):
        weekly()


def test_an_unknown_chain_is_an_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_CHAIN", "both")
    with pytest.raises(ValueError, match="TIDEMARK_CHAIN is 'both'; set it to three-dags or one"):
        by_date_bucket(ONE_DAG)


def test_a_dag_that_goes_on_where_it_was_left_starts_every_few_minutes_or_by_hand_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def schedule(minutes: str) -> BaseTimetable | None:
        monkeypatch.setenv("TIDEMARK_THIS_MINUTES", minutes)
        return every_few_minutes("TIDEMARK_THIS_MINUTES", 5)

    assert schedule("15") == CronTriggerTimetable("*/15 * * * *", timezone="UTC")
    assert schedule("0") is None
    for unusable in ("often", "60", "-1"):
        with pytest.raises(ValueError, match=r"_THIS_MINUTES is .*; set it to 0 \(off\) to 59"):
            schedule(unusable)
