"""The DAGs of a journal."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from tidemark_airflow.alerts import defaults
from tidemark_airflow.journals.journal import OF_ENVIRONMENT, AirflowJournal


def journal_dag(dag_id: str, journal: AirflowJournal, *, tags: list[str], **arguments: Any) -> DAG:
    """Return a DAG of a journal; its id and its tags have the journal's name.

    `arguments` are those of a DAG, in addition to what all DAGs have: paused at first, one run at a
    time, no catchup, and the arguments of `alerts.defaults` unless others are given.
    """
    of_journal = [] if journal is OF_ENVIRONMENT else [f"journal {journal.name}"]
    return DAG(
        dag_id=journal.named(dag_id),
        catchup=False,
        is_paused_upon_creation=True,
        max_active_runs=1,
        tags=["tidemark", *tags, *of_journal],
        **{**defaults(), **arguments},
    )
