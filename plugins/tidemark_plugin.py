"""Registers Tidemark with Airflow."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from tidemark_airflow.timetables import DateBucketTimetable, ReachTimetable


class TidemarkPlugin(AirflowPlugin):
    """The timetables must be registered, else Airflow refuses to serialize DAGs that use it."""

    name = "tidemark"
    timetables = [DateBucketTimetable, ReachTimetable]  # noqa: RUF012 - as AirflowPlugin declares it
