"""Measures lag and freshness, and calls the notifier when an alarm begins or ends.

Starts every few minutes (TIDEMARK_OBSERVE_MINUTES), or by hand. It does not start Spark, and waits
for no other application. An alarm does not fail the run. A run that fails calls nobody, since it
would do so every few minutes: a rule of Prometheus, or `status.py`, notices the missing
observation.
"""

from __future__ import annotations

from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.observation.task import ObserveOperator
from tidemark_airflow.timetables import OBSERVE_MINUTES, every_few_minutes

for journal in journals():
    with journal_dag(
        "observe",
        journal,
        description="Measure lag and freshness; alarms",
        schedule=every_few_minutes(*OBSERVE_MINUTES, journal),
        tags=[],
        doc_md=__doc__,
        on_failure_callback=None,
        deadline=None,
    ):
        ObserveOperator(task_id="observe", journal=journal)
