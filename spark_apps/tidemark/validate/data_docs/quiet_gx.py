"""Great Expectations as Tidemark uses it: imported late, and silent."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from great_expectations.core.batch_definition import BatchDefinition


def silence() -> None:
    """Keep Great Expectations quiet; to be called before it is imported.

    Its import takes seconds, so only what needs it imports it, inside of functions.
    """
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # GX warns about its own internals.
    logging.getLogger("great_expectations").setLevel(logging.ERROR)


def frames() -> BatchDefinition[Any]:
    """Return the definition of a batch that is one pandas frame, in a context of its own."""
    silence()
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    context = gx.get_context(
        mode="ephemeral",
        project_config=DataContextConfig(
            store_backend_defaults=InMemoryStoreBackendDefaults(),
            analytics_enabled=False,
            progress_bars=ProgressBarsConfig(globally=False),
        ),
    )
    return (
        context.data_sources.add_pandas("tidemark")
        .add_dataframe_asset("result")
        .add_batch_definition_whole_dataframe("time bucket")
    )
