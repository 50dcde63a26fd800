"""Submits an event group of the form, or the event groups of a Kafka topic.

Starts only by hand: with the form, REST or the command line. Groups are checked and appended to
their stream; the DAG `event_groups` executes them, or this run if `Execute` is set. If the text of
the form is rejected, the error has the line and column, and nothing is submitted. A rejected record
of a topic is quarantined, and the run fails after it has submitted the other records.
"""

from __future__ import annotations

from tidemark_airflow.environment.connections import airflow_environment, kafka_environment
from tidemark_airflow.form import dry_run_param, flag_param, lines_param, text_param
from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.operators import TidemarkOperator

for journal in journals():
    with journal_dag(
        "submit_event_groups",
        journal,
        description="Check event groups, and append them to their stream",
        schedule=None,
        params={
            "group": lines_param("Group", "A group in YAML or JSON. Empty: the groups of a topic."),
            "topic": text_param("Topic", "Submit each record of this Kafka topic as a group."),
            "stream": text_param("Stream", "Empty: the stream `default`."),
            "execute": flag_param("Execute", "Also execute the open groups of the stream."),
            "dry_run": dry_run_param(False),
            "values": flag_param("Values", "In a dry run, show each row before and after."),
        },
        tags=["by hand", "event groups"],
        doc_md=__doc__,
    ):
        TidemarkOperator(
            task_id="submit_event_groups",
            **journal.arguments,
            application_name="run_event_groups",
            command="submit",
            params_as_files={"group": "group.yaml"},
            params_as_options={
                **{"--topic": "topic", "--stream": "stream"},
                **{"--execute": "execute", "--values": "values"},
            },
            more_connections={
                journal.kafka_connection: kafka_environment,
                "airflow_default": airflow_environment,
            },
        )
