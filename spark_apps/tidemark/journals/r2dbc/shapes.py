"""The shapes of the frames that are read from the tables of akka-persistence-r2dbc.

Events have the columns of Pekko's (`journals.pekko.shapes`): `timestamp` is a timeuuid made of
db_timestamp, so that equal times are equal timeuuids.
"""

from __future__ import annotations

from tidemark.journals.pekko import shapes
from tidemark.spark.shapes import Shape

ROWS: Shape = {
    **shapes.MESSAGES,
    "slice": "int",
    "entity_type": "string",
    "deleted": "boolean",
}
"""Rows of the journal, with the requested payload columns.

`slice` and `entity_type` are those of the table. `deleted`: the row is no event, but says that all
events of the persistence id up to its sequence nr are deleted; its payload must not be parsed.
"""
RANGES: Shape = {**shapes.ID, "first_nr": "bigint", "last_nr": "bigint"}
"""Ranges of sequence nrs, both ends inclusive."""
PREDECESSORS: Shape = {
    **shapes.EVENT,
    "previous_nr": "bigint",
    "previous_ticks": "bigint",
    "is_previous_marker": "boolean",
}
"""Keys of rows, each with the row of its persistence id that has the next lower sequence nr.

`is_previous_marker`: that row is a deletion marker.
"""
