"""The schedules of the DAGs, with date buckets as data intervals."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pendulum
from airflow.sdk import Asset, AssetAny, AssetOrTimeSchedule, CronTriggerTimetable
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from airflow.timetables.interval import CronDataIntervalTimetable

from tidemark_airflow.assets import TAG_VIEWS, VALIDATED
from tidemark_airflow.environment.connections import kafka_connections
from tidemark_airflow.journals.journal import OF_ENVIRONMENT, AirflowJournal

if TYPE_CHECKING:
    from airflow.sdk.bases.timetable import BaseTimetable
    from pendulum.tz.timezone import FixedTimezone, Timezone

_CRON = {
    "daily": "0 0 * * *",
    "hourly": "0 * * * *",
    "five-minutes": "*/5 * * * *",
    "off": "0 0 * * *",
}
THREE_DAGS, ONE_DAG = "three-dags", "one-dag"
"""The DAGs that run the chain by schedule: `tag_write`, `validate` and `project`, or `chain`."""
OBSERVE_MINUTES = ("TIDEMARK_OBSERVE_MINUTES", 5)
"""The variable of the schedule of `observe`, and its default."""
_BUCKETS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}


class ReachTimetable(CronDataIntervalTimetable):
    """A run for each date bucket, once its last time bucket is out of live readers' reach.

    tag-write leaves the present and the previous time bucket to live readers. At the end of a date
    bucket, the previous time bucket is the last in it, so a run starts `delay` later.
    """

    def __init__(self, cron: str, delay: timedelta) -> None:
        super().__init__(cron, "UTC")
        self._delay = delay

    def serialize(self) -> dict[str, Any]:
        """Return the arguments of the timetable for `deserialize`."""
        return {"expression": self._expression, "delay": self._delay.total_seconds()}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Timetable:
        """Make the timetable from the result of `serialize`."""
        return cls(data["expression"], timedelta(seconds=data["delay"]))

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        """Return the next date bucket; without catchup the last date bucket that is out of reach.

        Airflow's own rule takes the last date bucket that has ended. If the DAG were parsed again
        during the delay of a date bucket, that bucket would be skipped.
        """
        if not restriction.catchup:
            reached = self.infer_manual_data_interval(run_after=_now() - self._delay).start
            earliest = max(reached, restriction.earliest or reached)
            restriction = TimeRestriction(earliest, restriction.latest, catchup=True)
        info = super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
        return info and DagRunInfo(
            run_after=info.run_after + self._delay, data_interval=info.data_interval
        )


class DateBucketTimetable(CronDataIntervalTimetable):
    """Date buckets only for backfills: the scheduler never starts a run by this timetable.

    For DAGs that assets start (inside AssetOrTimeSchedule) and that also support
    `airflow backfill create` for a range of buckets. Both call `next_dagrun_info`: the scheduler
    with the DAG's own catchup, which must be False; a backfill always with True
    (SerializedDAG.iter_dagrun_infos_between).
    """

    def __init__(self, cron: str, timezone: str | Timezone | FixedTimezone) -> None:
        super().__init__(cron, timezone)
        self.description = "by backfill, one run per date bucket"

    @property
    def summary(self) -> str:
        """The text for the schedule in the UI."""
        return "backfill"

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        """Return the next bucket of a backfill; None for the scheduler."""
        if not restriction.catchup:
            return None
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )


def by_date_bucket(chain: str, journal: AirflowJournal = OF_ENVIRONMENT) -> BaseTimetable:
    """Return the schedule of the first DAG of a chain, which is `three-dags` or `one-dag`.

    A run starts when a date bucket is out of reach. With `TIDEMARK_CADENCE=off`, or if the chain is
    not that of TIDEMARK_CHAIN, the DAG starts only by hand and by backfill.

    Raises:
        ValueError: TIDEMARK_CADENCE, TIDEMARK_CHAIN, TIDEMARK_BUCKET_SIZE or the
            eventual-consistency delay cannot be used; Airflow shows an import error.
    """
    cadence = _cadence(journal)
    if cadence == "off" or chain != _chain(journal):
        return _for_backfills(cadence)
    return cast("BaseTimetable", ReachTimetable(_CRON[cadence], _delay(journal)))


def started_by(
    *assets: Asset, journal: AirflowJournal = OF_ENVIRONMENT
) -> AssetOrTimeSchedule | BaseTimetable:
    """Return the schedule of a DAG that each of these assets starts, backfilled by date bucket.

    `assets` are those of `default`; the DAG of another journal has that journal's assets.

    With `TIDEMARK_CHAIN=one-dag`, the DAG `chain` runs the next step itself, so the assets between
    its steps are left out.

    Raises:
        ValueError: TIDEMARK_CADENCE or TIDEMARK_CHAIN is unknown; Airflow shows it as an import
            error.
    """
    inside_chain = (TAG_VIEWS, VALIDATED) if _chain(journal) == ONE_DAG else ()
    starting = [journal.asset(asset) for asset in assets if asset not in inside_chain]
    for_backfills = _for_backfills(_cadence(journal))
    if not starting:
        return for_backfills
    return AssetOrTimeSchedule(timetable=for_backfills, assets=AssetAny(*starting))


def of_validate(journal: AirflowJournal = OF_ENVIRONMENT) -> AssetOrTimeSchedule | BaseTimetable:
    """Return the schedule of validate: after tag_write, or as the first DAG by date bucket.

    Raises:
        ValueError: as in `by_date_bucket` and `started_by`.
    """
    if journal.has_tag_views:
        return started_by(TAG_VIEWS, journal=journal)
    return by_date_bucket(THREE_DAGS, journal)


def weekly(journal: AirflowJournal = OF_ENVIRONMENT) -> BaseTimetable | None:
    """Return the schedule of the weekly check, for the week that is out of reach of live readers.

    With `TIDEMARK_WEEKLY_CHECK=off` or `TIDEMARK_CADENCE=off` it starts only by hand.

    Raises:
        ValueError: TIDEMARK_WEEKLY_CHECK is neither on nor off, or another setting cannot be used;
            Airflow shows it as an import error.
    """
    choice = journal.setting("TIDEMARK_WEEKLY_CHECK", "on")
    if choice not in ("on", "off"):
        raise ValueError(f"TIDEMARK_WEEKLY_CHECK is {choice!r}; set it to on or off")
    if choice == "off" or _cadence(journal) == "off":
        return None
    return cast("BaseTimetable", ReachTimetable("0 0 * * 0", _delay(journal)))


def every_few_minutes(
    variable: str, default: int, journal: AirflowJournal = OF_ENVIRONMENT
) -> BaseTimetable | None:
    """Return the schedule of a DAG that continues every so many minutes, given by a variable.

    With 0 the DAG starts only by hand.

    Raises:
        ValueError: the value is no number of minutes below 60; Airflow shows an import error.
    """
    minutes = minutes_of(variable, default, journal)
    return CronTriggerTimetable(f"*/{minutes} * * * *", timezone="UTC") if minutes else None


def minutes_of(variable: str, default: int, journal: AirflowJournal = OF_ENVIRONMENT) -> int:
    """Return the minutes between scheduled runs of a DAG, given by a variable; 0 for no schedule.

    Raises:
        ValueError: the value is no number of minutes below 60.
    """
    text = journal.setting(variable, str(default))
    if not text.isdecimal() or int(text) >= 60:
        raise ValueError(f"{variable} is {text!r}; set it to 0 (off) to 59")
    return int(text)


def scheduled_dags(journal: AirflowJournal = OF_ENVIRONMENT) -> list[str]:
    """Return the DAGs of a journal that time or an asset starts, `observe` excepted.

    Raises:
        ValueError: a setting cannot be used.
    """
    is_one_dag = _chain(journal) == ONE_DAG
    steps = [*(["tag_write"] if journal.has_tag_views else []), "validate", "project"]
    first, *followers = ["chain", "project"] if is_one_dag else steps
    replicating = [f"replicate{suffix}" for suffix in kafka_connections(journal)]
    dag_ids = [
        *([first] if _cadence(journal) != "off" else []),
        *followers,
        "purge",
        *(replicating if minutes_of("TIDEMARK_REPLICATE_MINUTES", 5, journal) else []),
        *(["event_groups"] if minutes_of("TIDEMARK_EVENT_GROUPS_MINUTES", 0, journal) else []),
        *(["weekly_check"] if weekly(journal) is not None else []),
    ]
    return [journal.named(dag_id) for dag_id in dag_ids]


def _chain(journal: AirflowJournal) -> str:
    chain = journal.setting("TIDEMARK_CHAIN", THREE_DAGS)
    if chain not in (THREE_DAGS, ONE_DAG):
        raise ValueError(f"TIDEMARK_CHAIN is {chain!r}; set it to {THREE_DAGS} or {ONE_DAG}")
    return chain


def _cadence(journal: AirflowJournal) -> str:
    cadence = journal.setting("TIDEMARK_CADENCE", "daily")
    if cadence not in _CRON:
        choices = "daily, hourly, five-minutes or off"
        raise ValueError(f"TIDEMARK_CADENCE is {cadence!r}; set it to {choices}")
    return cadence


def _delay(journal: AirflowJournal) -> timedelta:
    """Return the time after the end of a date bucket when its last time bucket is out of reach.

    A live reader still reads the time bucket before the present one, and no window may include the
    eventual-consistency delay.
    """
    size = journal.setting("TIDEMARK_BUCKET_SIZE", "Hour")
    if size.lower() not in _BUCKETS:
        raise ValueError(f"TIDEMARK_BUCKET_SIZE is {size!r}; set it to Minute, Hour or Day")
    variable, default = (
        ("TIDEMARK_EVENTS_BY_TAG_EVENTUAL_CONSISTENCY_DELAY", "5")
        if journal.has_tag_views
        else ("TIDEMARK_R2DBC_DELAY", "10")
    )
    delay = journal.setting(variable, default)
    return max(_BUCKETS[size.lower()], timedelta(seconds=float(delay)))


def _now() -> pendulum.DateTime:
    return pendulum.now("UTC")


def _for_backfills(cadence: str) -> BaseTimetable:
    # Typed for the SDK's own timetables; a registered custom one derives from the core's class.
    return cast("BaseTimetable", DateBucketTimetable(_CRON[cadence], timezone="UTC"))
