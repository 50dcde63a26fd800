"""Updates the read models up to the validated window, with a task for each projection.

Starts when `validate` has passed, by hand, or by `airflow backfill create`. When `replicate` has
completed time buckets of a topic, it starts for the projections that read topics.
"""

from __future__ import annotations

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
from tidemark_airflow.journals.dag import journal_dag
from tidemark_airflow.journals.file import journals
from tidemark_airflow.operators import TidemarkOperator
from tidemark_airflow.tasks import list_projections, resolve_window
from tidemark_airflow.timetables import started_by

for journal in journals():
    with journal_dag(
        "project",
        journal,
        description="Update the read models to the end of the validated window",
        schedule=started_by(VALIDATED, REPLICATED, journal=journal),
        params=run_form(
            force=FORCE,
            strict=STRICT,
            accept_purged=ACCEPT_PURGED,
            accept_purged_ids=names_param("Accept purged, of these persistence ids", "of none"),
            projections=names_param("Projections", "all of them"),
            slices=SLICES,
            max_pieces=number_param("Most time buckets of each projection", 1),
        ),
        tags=["chain", "read models"],
        doc_md=__doc__,
    ):
        TidemarkOperator.for_each(
            list_projections(journal.name),
            task_id="project",
            **journal.arguments,
            application_name="project",
            window=resolve_window(),
            params_as_options={
                **{"--accept-purged": "accept_purged", "--accept-purged-id": "accept_purged_ids"},
                **{"--strict": "strict", "--slices": "slices", "--max-pieces": "max_pieces"},
            },
            pool=projections(journal.name),
        ) >> UpdateAfterAll(outlets=[journal.asset(READ_MODELS), journal.asset(ALIAS)])
