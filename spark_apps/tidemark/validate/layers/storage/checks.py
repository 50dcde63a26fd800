"""The checks of the tables of a journal.

In a finding, `tag` is the table; in a finding of `expires_unread` the projection.
"""

from __future__ import annotations

from functools import partial

from tidemark.validate.findings.check import Check, Layer, Severity, checks_of

_STORAGE = partial(Check, layer=Layer.STORAGE, subject="table")

TTL_BELOW_LOOK_BACK = _STORAGE(
    "ttl_below_look_back",
    "No row expires before its readers have read it, within their look-back.",
    remedy="set a longer TTL, or a shorter look-back",
)
"""Rows expire before a run has read them again in its look-back: it finds false gaps."""

EXPIRES_UNREAD = _STORAGE(
    "expires_unread",
    "Every projection processes each time bucket at least the look-back before it expires.",
    severity=Severity.WARNS,
    subject="projection",
)
"""A time bucket that a projection has not processed has expired, or expires in the look-back."""

EVENTS_EXPIRE = _STORAGE(
    "events_expire",
    "No table of events has a TTL.",
    severity=Severity.WARNS,
)
"""A table of events has a time to live: its persistence ids lose their first events."""

HEADS_EXPIRE = _STORAGE(
    "heads_expire",
    "The heads of kafka-journal have no TTL.",
    severity=Severity.WARNS,
)
"""kafka-journal's metajournal has a time to live: no reader finds a journal without its head."""

SNAPSHOTS_EXPIRE = _STORAGE(
    "snapshots_expire",
    "The snapshots have no TTL.",
    severity=Severity.WARNS,
)
"""The snapshots have a time to live: the events up to a snapshot may be deleted when it expires."""

ROWS_EXPIRE = _STORAGE(
    "rows_expire",
    "No row has a TTL that neither its table nor a setting gives.",
    severity=Severity.WARNS,
)
"""Rows have a time to live that neither the table nor TIDEMARK_EVENTS_BY_TAG_TIME_TO_LIVE gives."""

COMPACTION_UNFIT = _STORAGE(
    "compaction_unfit",
    "Only tables whose rows expire are compacted by time windows, and not by too many.",
    severity=Severity.WARNS,
)
"""The compaction does not fit the time to live: Pekko's manual advises time windows."""

CHECKS = checks_of(globals())
"""The checks of the layer, in display order."""
