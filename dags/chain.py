"""Runs `tag_write`, `validate` and `project` over one window, in one Spark application.

Starts by hand with the form, or by `airflow backfill create --dag-id chain` for a range of date
buckets. With `TIDEMARK_CHAIN=one-dag` it runs by schedule, and the DAGs of the three applications
do not. Each step is a task with its own report, assets and buttons. The ledger records its work as
if its own DAG had run, so the DAGs can be mixed. Done time buckets are left out; `Force` does them
again.
"""

from __future__ import annotations

from tidemark_airflow.chain.tasks import run_chain
from tidemark_airflow.form import FORCE, names_param, run_form
from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.tasks import resolve_window
from tidemark_airflow.timetables import ONE_DAG, by_date_bucket

for journal in journals():
    with journal_dag(
        "chain",
        journal,
        description="Tag views, checks and read models of a window in one Spark application",
        schedule=by_date_bucket(ONE_DAG, journal),
        params=run_form(force=FORCE, projections=names_param("Projections", "all of them")),
        tags=["chain"],
        doc_md=__doc__,
    ):
        run_chain(resolve_window(), journal)
