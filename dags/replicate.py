"""Replicates the topics of kafka-journal into its tables, from their pointers to their ends.

Starts every few minutes (TIDEMARK_REPLICATE_MINUTES), or by hand with the form. A topic partition
that cannot continue fails the run at its end; the other partitions are still replicated.
"""

from __future__ import annotations

from tidemark_airflow.assets import REPLICATED, UpdateAfterReplication
from tidemark_airflow.environment.connections import kafka_connections
from tidemark_airflow.form import dry_run_param, names_param
from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.operators import TidemarkOperator
from tidemark_airflow.timetables import every_few_minutes

for journal in journals():
    for suffix, connection in kafka_connections(journal).items():
        with journal_dag(
            f"replicate{suffix}",
            journal,
            description="Replicate kafka-journal's topics into journal, metajournal and pointer2",
            schedule=every_few_minutes("TIDEMARK_REPLICATE_MINUTES", 5, journal),
            params={
                "topics": names_param(
                    "Topics", "all with the prefix of TIDEMARK_KAFKA_TOPIC_PREFIX"
                ),
                "dry_run": dry_run_param(False),
            },
            tags=["kafka-journal"],
            doc_md=__doc__,
        ):
            replicating = TidemarkOperator(
                task_id="replicate",
                **journal.arguments,
                application_name="replicate",
                params_as_options={"--topic": "topics"},
                kafka_conn_id=connection,
            )
            if not suffix:  # Projections read only the keyspace of the settings.
                replicating >> UpdateAfterReplication(outlets=[journal.asset(REPLICATED)])
