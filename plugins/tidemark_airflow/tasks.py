"""The tasks before those of the applications: they find the window and the projections."""

from __future__ import annotations

import logging
from typing import Any, cast

from airflow.sdk import BaseHook, Context, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from tidemark_airflow.assets import REPLICATED, is_of
from tidemark_airflow.environment.drivers import Driver, projection_names
from tidemark_airflow.environment.installation import home
from tidemark_airflow.journals.journal import DEFAULT, environment
from tidemark_airflow.operators import SPARK
from tidemark_airflow.window import RunFacts, WindowRefused, resolve

_log = logging.getLogger(__name__)


@task
def resolve_window() -> dict[str, str]:
    """Return the run's window as `{"start": ..., "end": ..., "source": ...}`.

    Raises:
        AirflowFailException: the run has no reliable window; a retry would have the same result.
    """
    return _resolved(get_current_context())


@task(task_id="resolve_window")
def resolve_window_if_given() -> dict[str, str] | None:
    """Resolve the window of an application that processes everything without one.

    The result is None unless the form has a window or the run belongs to a backfill: asset events
    and data intervals are only the reason of the start.

    Raises:
        AirflowFailException: the given window is not reliable.
    """
    context = get_current_context()
    params = context["params"]
    is_given = params.get("window_start") or params.get("window_end")
    run: Any = context["dag_run"]
    if is_given or run.run_type.value == "backfill":
        return _resolved(context)
    _log.info("no window was given")
    return None


@task
def list_projections(journal: str = DEFAULT) -> list[dict[str, str]]:
    """Return the options of a run for each projection in the form, or for all of the journal.

    After a replication of topics, only the projections that read topics run. A driver in the
    cluster reads the definitions there, so a single run processes all projections.

    Raises:
        AirflowFailException: there is no directory of definitions.
        AirflowSkipException: topics were replicated, and only the driver in the cluster knows which
            projections read them.
    """
    context = get_current_context()
    names, run = context["params"]["projections"], cast("Any", context["dag_run"])
    is_after_replication = {
        is_of(event.asset, REPLICATED) for event in run.consumed_asset_events
    } == {True}
    if not names and Driver.of(BaseHook.get_connection(SPARK)).home is not None:
        if is_after_replication:
            raise AirflowSkipException(
                "only the driver in the cluster knows which projections read topics; start this DAG"
                " by hand for them, or with a schedule of your own"
            )
        return [{}]
    return [
        {"--projection": name}
        for name in names
        or projection_names(home(), environment(journal), of_topics=is_after_replication)
    ]


def _resolved(context: Context) -> dict[str, str]:
    run: Any = context["dag_run"]
    facts = RunFacts(
        run_type=run.run_type.value,
        logical_date=run.logical_date,
        interval_start=run.data_interval_start,
        interval_end=run.data_interval_end,
    )
    events = run.consumed_asset_events
    # Replicated topics may have other complete time buckets than the chain.
    chain_events = [event for event in events if not is_of(event.asset, REPLICATED)]
    extras = [event.extra for event in chain_events or events]
    try:
        window = resolve(facts, context["params"], extras).as_dict()
    except WindowRefused as refusal:
        raise AirflowFailException(f"window refused: {refusal}") from None
    _log.info("window [%s, %s) from %s", window["start"], window["end"], window["source"])
    return window
