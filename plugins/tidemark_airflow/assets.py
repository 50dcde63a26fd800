"""The assets that chain the DAGs; each event's extra holds window_start, window_end, run_id."""

from __future__ import annotations

from airflow.sdk import Asset, AssetAlias

GROUP = "tidemark"

TAG_VIEWS = Asset(
    name="tag_views",
    uri="tidemark://tag_views",
    group=GROUP,
    extra={"description": "the tag views, written up to a window by tag_write"},
)
VALIDATED = Asset(
    name="validated",
    uri="tidemark://validated",
    group=GROUP,
    extra={"description": "a window whose sequence continuity validate has confirmed"},
)
ALIAS = AssetAlias("read_models_of_projections", group=GROUP)
"""What stands for the asset of each projection that a run has moved, see `read_model_of`."""

READ_MODELS = Asset(
    name="read_models",
    uri="tidemark://read_models",
    group=GROUP,
    extra={"description": "the read models, brought up to a window by project"},
)


def read_model_of(projection: str) -> Asset:
    """Return the asset of one projection, for a DAG that follows its read model alone."""
    return Asset(
        name=f"read_model_{projection}",
        uri=f"tidemark://read_models/{projection}",
        group=GROUP,
        extra={"description": f"the read model of the projection {projection}"},
    )
