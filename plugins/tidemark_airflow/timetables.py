"""Date buckets as data intervals."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from airflow.sdk import Asset, AssetOrTimeSchedule
from airflow.sdk import CronDataIntervalTimetable as CronDataIntervalSchedule
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable

if TYPE_CHECKING:
    from airflow.sdk.bases.timetable import BaseTimetable
    from pendulum.tz.timezone import FixedTimezone, Timezone

_CRON = {"daily": "0 0 * * *", "hourly": "0 * * * *", "off": "0 0 * * *"}


class DateBucketTimetable(CronDataIntervalTimetable):
    """Date buckets for backfills only: the scheduler never starts a run by it.

    For DAGs that assets start (inside AssetOrTimeSchedule) and that still take
    `airflow backfill create` for a range of buckets. Both paths ask `next_dagrun_info`: the
    scheduler with the DAG's own catchup, which must be False; a backfill always with True
    (SerializedDAG.iter_dagrun_infos_between).
    """

    def __init__(self, cron: str, timezone: str | Timezone | FixedTimezone) -> None:
        super().__init__(cron, timezone)
        self.description = "by backfill, one run per date bucket"

    @property
    def summary(self) -> str:
        """What the UI shows as the schedule."""
        return "backfill"

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        """The next bucket of a backfill; None for the scheduler."""
        if not restriction.catchup:
            return None
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )


def by_date_bucket() -> BaseTimetable:
    """The schedule of a DAG that starts by time: a run when a date bucket is over.

    With `TIDEMARK_CADENCE=off` it starts by hand and by backfill only, one bucket a day.

    Raises:
        ValueError: TIDEMARK_CADENCE is unknown; Airflow shows it as an import error.
    """
    cadence = _cadence()
    if cadence == "off":
        return _for_backfills(cadence)
    return CronDataIntervalSchedule(_CRON[cadence], timezone="UTC")


def started_by(asset: Asset) -> AssetOrTimeSchedule:
    """The schedule of a DAG that an asset starts and that can be backfilled by date bucket.

    Raises:
        ValueError: TIDEMARK_CADENCE is unknown; Airflow shows it as an import error.
    """
    return AssetOrTimeSchedule(timetable=_for_backfills(_cadence()), assets=[asset])


def _cadence() -> str:
    cadence = os.environ.get("TIDEMARK_CADENCE", "daily")
    if cadence not in _CRON:
        raise ValueError(f"TIDEMARK_CADENCE is {cadence!r}; set it to daily, hourly or off")
    return cadence


def _for_backfills(cadence: str) -> BaseTimetable:
    # Typed for the SDK's own timetables; a registered custom one derives from the core's class.
    return cast("BaseTimetable", DateBucketTimetable(_CRON[cadence], timezone="UTC"))
