"""Registers Tidemark with Airflow."""

from __future__ import annotations

import os
from typing import Any

from airflow.plugins_manager import AirflowPlugin
from starlette.middleware.trustedhost import TrustedHostMiddleware

from tidemark_airflow import data_docs, next_step
from tidemark_airflow.observation import metrics
from tidemark_airflow.pages.foreign_pages import foreign_page_check
from tidemark_airflow.pages.state import mount
from tidemark_airflow.timetables import DateBucketTimetable, ReachTimetable


def host_check() -> list[dict[str, Any]]:
    """Allow requests to the API server only under the host names of TIDEMARK_AIRFLOW_HOSTS.

    In a browser on this machine, the host name of a foreign page could resolve to the API server,
    but the page cannot have the name 127.0.0.1.
    """
    hosts = os.environ.get("TIDEMARK_AIRFLOW_HOSTS", "")
    if not hosts:
        return []
    options = {"allowed_hosts": hosts.split(",")}
    return [{"name": "host check", "middleware": TrustedHostMiddleware, "kwargs": options}]


class TidemarkPlugin(AirflowPlugin):
    """The plugin; without the timetables in it, Airflow cannot serialize the DAGs that use them."""

    name = "tidemark"
    timetables = [DateBucketTimetable, ReachTimetable]  # noqa: RUF012 - as AirflowPlugin declares it
    fastapi_apps = [  # noqa: RUF012 - the same
        {"app": data_docs.serve, "url_prefix": data_docs.PREFIX, "name": "Data Docs"},
        {"app": next_step.serve, "url_prefix": next_step.PREFIX, "name": "Next step"},
        {"app": mount.serve, "url_prefix": mount.PREFIX, "name": "Tidemark"},
        {"app": metrics.serve, "url_prefix": metrics.PREFIX, "name": "Metrics"},
    ]
    external_views = [mount.VIEW]  # noqa: RUF012 - the same
    fastapi_root_middlewares = [*host_check(), foreign_page_check()]  # noqa: RUF012 - the same
