"""Compares the tables of `replicate` with the topics, repairs them, and replays held records.

Starts only by hand: with the form, REST or the command line. By default operations that write are
dry runs: the plan is in the log, the task ends as skipped, and its button `Next step` opens the
form that applies the plan. `replicate` waits while an operation writes its topic partitions.
"""

from __future__ import annotations

from tidemark_airflow.environment.connections import kafka_connections
from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.operations import MANAGE_REPLICATION, MANAGE_REPLICATION_FORM
from tidemark_airflow.operators import TidemarkOperator

for journal in journals():
    for suffix, connection in kafka_connections(journal).items():
        with journal_dag(
            f"manage_replication{suffix}",
            journal,
            description="Verify and repair the tables of replicate; correct and replay"
            " held records",
            schedule=None,
            params=MANAGE_REPLICATION_FORM,
            tags=["by hand", "kafka-journal"],
            doc_md=__doc__,
        ):
            TidemarkOperator(
                task_id="manage_replication",
                **journal.arguments,
                application_name="replicate",
                command="{{ params.operation }}",
                params_as_options={
                    "--topic": "topics",
                    "--key": "keys",
                    "--since": "since",
                    "--until": "until",
                    "--offsets": "offsets",
                    "--skip": "skip",
                },
                params_as_files={"records": "held.jsonl"},
                dry_by_default=True,
                operations=MANAGE_REPLICATION,
                kafka_conn_id=connection,
            )
