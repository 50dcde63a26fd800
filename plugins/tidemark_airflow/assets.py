"""The assets that chain the DAGs; each event's extra holds window_start, window_end, run_id."""

from __future__ import annotations

from airflow.sdk import Asset

TAG_VIEWS = Asset(name="tag_views", uri="tidemark://tag_views")
VALIDATED = Asset(name="validated", uri="tidemark://validated")
READ_MODELS = Asset(name="read_models", uri="tidemark://read_models")
