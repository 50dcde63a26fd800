"""Orders the chain over a range: missing and failed time buckets, or all of them.

Starts only by hand: with the form, REST or the command line. The task `preview` shows what would be
processed, without Spark; with `Dry run` the order ends there. Then `chain` runs over parts of the
range, the oldest first, each in one Spark application. A part that fails does not stop those after
it: their time buckets do not depend on it, or wait for it.

To stop the order, mark its run as failed: the application ends, and time buckets that are done
stay done. To resume, trigger it again with the same fields, or clear the failed tasks.
"""

from __future__ import annotations

from airflow.sdk import DAG

from tidemark_airflow.alerts import defaults
from tidemark_airflow.chain.tasks import parts, preview, run_each
from tidemark_airflow.form import flag_param, names_param, number_param, run_form
from tidemark_airflow.tasks import resolve_window

with DAG(
    dag_id="backfill",
    description="Run the chain over a range, part by part: what is missing or failed, or all of it",
    schedule=None,
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    params=run_form(
        empty="none, a range is required",
        force=flag_param(
            "All time buckets",
            "Also process done time buckets again, not only missing and failed time buckets.",
        ),
        projections=names_param("Projections", "all of them"),
        days_at_a_time=number_param(
            "Days at a time",
            1,
            description="The part of the range for each Spark application. Empty: 31 with"
            " Day buckets, 7 with Hour buckets, 1 with Minute buckets.",
        ),
    ),
    tags=["tidemark", "by hand", "chain"],
    doc_md=__doc__,
    **defaults(),
):
    window = resolve_window()
    windows = parts(window)
    preview(window) >> windows
    run_each(windows)
