"""Orders the chain over a range: missing and failed time buckets, or all of them.

Starts only by hand: with the form, REST or the command line. The task `preview` shows what would be
processed, without Spark; with `Dry run` the order ends there. Then `chain` runs over parts of the
range, the oldest first, each in one Spark application. A part that fails does not stop those after
it: their time buckets do not depend on it, or wait for it.

To stop the order, mark its run as failed: the application ends, and time buckets that are done
stay done. To resume, trigger it again with the same fields, or clear the failed tasks.
"""

from __future__ import annotations

from tidemark_airflow.chain.tasks import DAYS_AT_A_TIME, parts, preview, run_each
from tidemark_airflow.form import flag_param, names_param, number_param, run_form
from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.tasks import resolve_window

for journal in journals():
    with journal_dag(
        "backfill",
        journal,
        description="Run the chain over a range, part by part: what is missing or failed, or all",
        schedule=None,
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
                description="The part of the range for each Spark application. Empty: 31"
                " with Day buckets, 7 with Hour buckets, 1 with Minute buckets.",
            ),
        ),
        tags=["by hand", "chain"],
        doc_md=__doc__,
    ):
        window = resolve_window()
        windows = parts(window, DAYS_AT_A_TIME[journal.bucket_size])
        preview(window, journal) >> windows
        run_each(windows, journal)
