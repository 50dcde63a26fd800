"""The checks of a journal of akka-persistence-r2dbc.

Checks that a journal in Cassandra has as well keep their names. "Reader" is the plugin's own
eventsBySlices. Tidemark never writes to this journal, so each remedy is for people.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tidemark.validate.findings import checks
from tidemark.validate.findings.check import Check, Inputs, Layer, Severity, checks_of

_RESTORE = (
    "wait if the missing events may yet be committed, since each run checks again; else restore"
    " them from a backup"
)
_ROWS = partial(Check, layer=Layer.MESSAGES, inputs=Inputs.TIME_BUCKET)

SEQUENCE_NR_GAP = replace(checks.SEQUENCE_NR_GAP, remedy=_RESTORE)
"""Numbers are missing between two rows of a persistence id, the first of which may be its marker
of deleted events."""

SEQUENCE_NR_MISSING_HEAD = replace(
    checks.SEQUENCE_NR_MISSING_HEAD,
    rule="The first event of a persistence id has sequence nr 1, or the number after the marker of"
    " deleted events.",
    remedy=_RESTORE,
)
"""The lowest row of a persistence id is an event with a sequence nr above 1."""

WRONG_SLICE = _ROWS(
    "wrong_slice",
    "Every row has the slice of its persistence id, and is in the table of that data partition.",
    remedy="correct the column slice, and move the row to the table of that data partition",
)
"""A row has another slice than its persistence id gives, or is in another table: a reader of that
slice misses it."""

WRONG_ENTITY_TYPE = _ROWS(
    "wrong_entity_type",
    "Every row has the entity type of its persistence id.",
    remedy="correct the column entity_type",
)
"""A row has another entity type than its persistence id gives: a reader of the type misses it."""

ROW_BEFORE_DELETION_MARKER = _ROWS(
    "row_before_deletion_marker",
    "No event has a lower sequence nr than the marker of deleted events of its persistence id.",
    remedy="delete the rows with lower sequence nrs, or the marker if the events were restored",
)
"""A deletion deletes all rows up to its marker in one transaction, also the former marker. An event
before the marker was written afterwards, and an actor replays it."""

EVENT_OUT_OF_ORDER = checks.EVENT_OUT_OF_ORDER
"""An event is older than its predecessor: the clocks of two writers or servers disagreed. The
plugin avoids it unless `use-app-timestamp` or `db-timestamp-monotonic-increasing` is on."""

TOO_MANY_ROWS_OF_ONE_TIME = _ROWS(
    "too_many_rows_of_one_time",
    "No db_timestamp has as many events of an entity type as the plugin's reader reads at once, by"
    " default 1,000.",
    severity=Severity.WARNS,
    subject="entity type",
)
"""The reader of 1.1.2 stops there without an error, and never reads the events after them."""

EVENTS_IN_FUTURE = _ROWS(
    "events_in_future",
    "No event has a db_timestamp in the future.",
    inputs=Inputs.JOURNAL,
    severity=Severity.WARNS,
)
"""Readers leave such events out until then. The plugin stamps each new event after its predecessor,
so that one wrong clock affects all later events of the persistence id."""

SNAPSHOT_BEYOND_EVENTS = replace(
    checks.SNAPSHOT_BEYOND_EVENTS,
    rule="No snapshot is after the last event or the marker of deleted events.",
)
"""A snapshot is of an event that is neither in the journal nor deleted: the last events are lost,
or all rows were deleted with `resetSequenceNumber`."""

CHECKS = checks_of(globals())
"""All checks of a journal in PostgreSQL, in display order."""
OWN = tuple(check for check in CHECKS if check.name not in {known.name for known in checks.CHECKS})
"""The checks that a journal in Cassandra does not have."""
