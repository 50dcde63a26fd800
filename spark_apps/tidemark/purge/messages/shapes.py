"""The shapes of the frames that say which events go."""

from __future__ import annotations

from tidemark.journals.pekko.shapes import ID, PARTITIONS
from tidemark.spark.shapes import Shape

EVENTS: Shape = {**PARTITIONS, "sequence_nr": "bigint", "tags": "array<string>"}
"""Events with the partition that each lies in. `tags` is null when untagged."""
LIMITS: Shape = {**ID, "to": "bigint"}
"""Events of the persistence id go up to this sequence nr, inclusive; 0 for none."""
HELD: Shape = {**ID, "held_from": "bigint", "reader": "string"}
"""`reader` still needs the events of the persistence id from this sequence nr on."""
BOUNDED: Shape = {**LIMITS, "held_from": "bigint", "reader": "string"}
"""LIMITS after all needs, with the need that came first; null if none bounds it."""
