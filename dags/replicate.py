"""Replicates the topics of kafka-journal into its tables, from their pointers to their ends.

Starts every few minutes (TIDEMARK_REPLICATE_MINUTES), or by hand with the form. A topic partition
that cannot continue fails the run at its end; the others are replicated nevertheless.
"""

from __future__ import annotations

from airflow.sdk import DAG

from tidemark_airflow.alerts import defaults
from tidemark_airflow.assets import UpdateAfterReplication
from tidemark_airflow.environment.connections import KAFKA, kafka_connections
from tidemark_airflow.form import dry_run_param, names_param
from tidemark_airflow.operators import TidemarkOperator
from tidemark_airflow.timetables import every_few_minutes

for suffix, connection in kafka_connections().items():
    with DAG(
        dag_id=f"replicate{suffix}",
        description="Replicate kafka-journal's topics into journal, metajournal and pointer2",
        schedule=every_few_minutes("TIDEMARK_REPLICATE_MINUTES", 5),
        catchup=False,
        is_paused_upon_creation=True,
        max_active_runs=1,
        params={
            "topics": names_param("Topics", "all with the prefix of TIDEMARK_KAFKA_TOPIC_PREFIX"),
            "dry_run": dry_run_param(False),
        },
        tags=["tidemark", "kafka-journal"],
        doc_md=__doc__,
        **defaults(),
    ):
        replicating = TidemarkOperator(
            task_id="replicate",
            application_name="replicate",
            params_as_options={"--topic": "topics"},
            kafka_conn_id=connection,
        )
        if connection == KAFKA:  # Projections read the keyspace of the settings alone.
            replicating >> UpdateAfterReplication()
