"""The figures of the last observation for Prometheus, which needs a token of Airflow."""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowException
from fastapi import Depends, FastAPI, HTTPException, Response

from tidemark_airflow.environment.connections import cassandra_environment
from tidemark_airflow.environment.drivers import observe
from tidemark_airflow.environment.installation import home

DAG_ID = "observe"
_OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

# Users who may read the logs of `observe` may read its figures.
_may_read = Depends(requires_access_dag("GET", DagAccessEntity.TASK_LOGS, DAG_ID))
app = FastAPI(title="Metrics", openapi_url=None, dependencies=[_may_read])


@app.get("/")
def metrics() -> Response:
    """Return the figures of the last observation; nothing is measured.

    Raises:
        HTTPException: 503 if Cassandra cannot be read; 401 without a login, 403 without the
            permission.
    """
    try:
        connection = Connection.get_connection_from_secrets("cassandra_default")
        text = observe(home(), cassandra_environment(connection), "--last", "--openmetrics")
    except AirflowException as error:
        raise HTTPException(503, str(error)) from None
    return Response(text, media_type=_OPENMETRICS)
