"""Registers Tidemark with Airflow."""

from __future__ import annotations

import os
from typing import Any

from airflow.plugins_manager import AirflowPlugin
from starlette.middleware.trustedhost import TrustedHostMiddleware

from tidemark_airflow import data_docs, next_step
from tidemark_airflow.pages.foreign_pages import foreign_page_check
from tidemark_airflow.timetables import DateBucketTimetable, ReachTimetable


def host_check() -> list[dict[str, Any]]:
    """Check the name by which the API server is called, if TIDEMARK_AIRFLOW_HOSTS has some.

    In a browser on this machine, a foreign page's own name could lead to the API server, but it
    could not call itself 127.0.0.1.
    """
    hosts = os.environ.get("TIDEMARK_AIRFLOW_HOSTS", "")
    if not hosts:
        return []
    options = {"allowed_hosts": hosts.split(",")}
    return [{"name": "host check", "middleware": TrustedHostMiddleware, "kwargs": options}]


class TidemarkPlugin(AirflowPlugin):
    """The timetables must be registered, else Airflow refuses to serialize DAGs that use it."""

    name = "tidemark"
    timetables = [DateBucketTimetable, ReachTimetable]  # noqa: RUF012 - as AirflowPlugin declares it
    fastapi_apps = [  # noqa: RUF012 - the same
        {"app": data_docs.serve, "url_prefix": data_docs.PREFIX, "name": "Data Docs"},
        {"app": next_step.serve, "url_prefix": next_step.PREFIX, "name": "Next step"},
    ]
    fastapi_root_middlewares = [*host_check(), foreign_page_check()]  # noqa: RUF012 - the same
