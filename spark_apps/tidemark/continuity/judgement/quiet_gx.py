"""Great Expectations as Tidemark uses it: imported late, and silent."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from great_expectations.core.batch_definition import BatchDefinition
    from great_expectations.data_context.data_context.abstract_data_context import (
        AbstractDataContext,
    )
    from great_expectations.data_context.types.base import InMemoryStoreBackendDefaults


def silence() -> None:
    """Keep Great Expectations quiet; to be called before it is imported.

    Its import takes seconds, so only what needs it imports it, inside of functions.
    """
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # GX warns about its own internals; a page that could not be rendered is an error.
    logging.getLogger("great_expectations").setLevel(logging.ERROR)


def context(defaults: InMemoryStoreBackendDefaults) -> AbstractDataContext:
    """Make a context with these stores that nothing outlives but what they keep."""
    silence()
    import great_expectations as gx
    from great_expectations.data_context.types.base import DataContextConfig, ProgressBarsConfig

    return gx.get_context(
        mode="ephemeral",
        project_config=DataContextConfig(
            store_backend_defaults=defaults,
            analytics_enabled=False,
            progress_bars=ProgressBarsConfig(globally=False),
        ),
    )


def whole_frames(of: AbstractDataContext, asset: str, batch: str) -> BatchDefinition[Any]:
    """Return the definition of a batch that is one pandas frame."""
    return (
        of.data_sources.add_pandas("journal")
        .add_dataframe_asset(asset)
        .add_batch_definition_whole_dataframe(batch)
    )
