"""Measures lag and freshness, and calls the notifier when an alarm begins or ends.

Starts every few minutes (TIDEMARK_OBSERVE_MINUTES), or by hand. It does not start Spark, and waits
for no other application. An alarm does not fail the run. A run that fails calls nobody, since it
would do so every few minutes: a rule of Prometheus, or `status.py`, notices the missing
observation.
"""

from __future__ import annotations

from airflow.sdk import DAG

from tidemark_airflow.alerts import defaults
from tidemark_airflow.observation.task import ObserveOperator
from tidemark_airflow.timetables import OBSERVE_MINUTES, every_few_minutes

with DAG(
    dag_id="observe",
    description="Measure lag and freshness; alarms",
    schedule=every_few_minutes(*OBSERVE_MINUTES),
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    tags=["tidemark"],
    doc_md=__doc__,
    default_args=defaults()["default_args"],
):
    ObserveOperator(task_id="observe")
