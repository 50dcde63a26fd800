"""Great Expectations without its log output, imported only when needed."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from great_expectations.core.batch_definition import BatchDefinition


def silence() -> None:
    """Turn off messages of Great Expectations; call this before it is imported.

    Its import takes seconds, so import it only inside the functions that need it.
    """
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # GX warns about its own internals.
    logging.getLogger("great_expectations").setLevel(logging.ERROR)


def frames() -> BatchDefinition[Any]:
    """Return the definition of a batch of one pandas frame, in a new context."""
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
