"""Updates the read models up to the validated window, with a task for each projection.

Starts when `validate` has passed, by hand, or by `airflow backfill create`. When `replicate` has
completed time buckets of a topic, it starts for the projections that read topics.
"""

from __future__ import annotations

from airflow.sdk import DAG

from tidemark_airflow.alerts import defaults
from tidemark_airflow.assets import ALIAS, READ_MODELS, REPLICATED, VALIDATED, UpdateAfterAll
from tidemark_airflow.environment.pools import projections
from tidemark_airflow.form import (
    ACCEPT_PURGED,
    FORCE,
    SLICES,
    STRICT,
    names_param,
    number_param,
    run_form,
)
from tidemark_airflow.operators import TidemarkOperator
from tidemark_airflow.tasks import list_projections, resolve_window
from tidemark_airflow.timetables import started_by

with DAG(
    dag_id="project",
    description="Update the read models to the end of the validated window",
    schedule=started_by(VALIDATED, REPLICATED),
    catchup=False,
    is_paused_upon_creation=True,
    max_active_runs=1,
    params=run_form(
        force=FORCE,
        strict=STRICT,
        accept_purged=ACCEPT_PURGED,
        accept_purged_ids=names_param("Accept purged, of these persistence ids", "of none"),
        projections=names_param("Projections", "all of them"),
        slices=SLICES,
        max_pieces=number_param("Most time buckets of each projection", 1),
    ),
    tags=["tidemark", "chain", "read models"],
    doc_md=__doc__,
    **defaults(),
):
    TidemarkOperator.for_each(
        list_projections(),
        task_id="project",
        application_name="project",
        window=resolve_window(),
        params_as_options={
            **{"--accept-purged": "accept_purged", "--accept-purged-id": "accept_purged_ids"},
            **{"--strict": "strict", "--slices": "slices", "--max-pieces": "max_pieces"},
        },
        pool=projections(),
    ) >> UpdateAfterAll(outlets=[READ_MODELS, ALIAS])
