"""The first task of every DAG."""

from __future__ import annotations

from typing import Any

from airflow.sdk import get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from tidemark_airflow.window import RunFacts, WindowRefused, resolve


@task
def resolve_window() -> dict[str, str]:
    """The run's window as `{"start": ..., "end": ..., "source": ...}`.

    Raises:
        AirflowFailException: the run has no window that can be trusted. Not retried: the same
            run would be refused again.
    """
    context = get_current_context()
    run: Any = context["dag_run"]
    facts = RunFacts(
        run_type=run.run_type.value,
        logical_date=run.logical_date,
        interval_start=run.data_interval_start,
        interval_end=run.data_interval_end,
    )
    extras = [event.extra for event in run.consumed_asset_events]
    try:
        window = resolve(facts, context["params"], extras).as_dict()
    except WindowRefused as refusal:
        raise AirflowFailException(f"window refused: {refusal}") from None
    print(f"window [{window['start']}, {window['end']}) from {window['source']}")
    return window
