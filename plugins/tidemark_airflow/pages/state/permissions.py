"""Who may read, and who may order: Airflow's own permissions on DAGs."""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Request

# Answers have persistence ids and errors, as logs do.
may_read = requires_access_dag("GET", DagAccessEntity.TASK_LOGS)


def require_may_start(dag_id: str, request: Request, user: GetUserDep) -> None:
    """Require the permission to start a run of a DAG.

    Raises:
        HTTPException: 403 without the permission.
    """
    requires_access_dag("POST", DagAccessEntity.RUN, dag_id)(request, user)
