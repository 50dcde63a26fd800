"""The shapes of the frames that describe event deletes."""

from __future__ import annotations

from tidemark.journals.pekko.shapes import ID, PARTITIONS
from tidemark.spark.shapes import Shape

EVENTS: Shape = {**PARTITIONS, "sequence_nr": "bigint", "tags": "array<string>"}
"""Events with the partition of each. `tags` is null when untagged."""
LIMITS: Shape = {**ID, "to": "bigint"}
"""Events of the persistence id up to this sequence nr are to be deleted; 0 for none."""
HELD: Shape = {**ID, "held_from": "bigint", "reader": "string"}
"""`reader` still needs the events of the persistence id from this sequence nr on."""
BOUNDED: Shape = {**LIMITS, "held_from": "bigint", "reader": "string"}
"""LIMITS lowered by all needs, with the lowest need; null if no need lowers the limit."""
