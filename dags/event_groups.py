"""Executes the open event groups of a stream, in their order.

Starts by hand with the form, REST or the command line; and every few minutes, if
TIDEMARK_EVENT_GROUPS_MINUTES is set. Groups are submitted with the DAG `submit_event_groups`, or
with `run_event_groups.py submit`. A run fails if a group was rolled back, or has to wait for a
group that could not be rolled back; the other groups are still executed.
"""

from __future__ import annotations

from tidemark_airflow.environment.connections import airflow_environment, kafka_environment
from tidemark_airflow.form import dry_run_param, text_param
from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.operators import TidemarkOperator
from tidemark_airflow.timetables import every_few_minutes

for journal in journals():
    with journal_dag(
        "event_groups",
        journal,
        description="Execute event groups, all or nothing",
        schedule=every_few_minutes("TIDEMARK_EVENT_GROUPS_MINUTES", 0, journal),
        params={
            "stream": text_param("Stream", "Empty: the stream `default`."),
            "dry_run": dry_run_param(False),
        },
        tags=["event groups"],
        doc_md=__doc__,
    ):
        TidemarkOperator(
            task_id="event_groups",
            **journal.arguments,
            application_name="run_event_groups",
            params_as_options={"--stream": "stream"},
            more_connections={
                journal.kafka_connection: kafka_environment,
                "airflow_default": airflow_environment,
            },
        )
