"""The shape of the frame of deletes, from which rows are saved first."""

from __future__ import annotations

from tidemark.journals.pekko.shapes import PARTITIONS
from tidemark.spark.shapes import Shape

DELETES: Shape = {**PARTITIONS, "to": "bigint", "is_whole": "boolean", "events": "bigint"}
"""One delete: of a whole partition, or of its events up to `to`; `events`: how many it deletes."""
