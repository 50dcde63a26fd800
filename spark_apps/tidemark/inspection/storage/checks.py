"""The checks of the tables of a journal. In a finding, `tag` is the table.

Of what expires unread, it is the projection.
"""

from __future__ import annotations

from functools import partial

from tidemark.continuity.findings.checks import Check, Layer, Severity

TTL_BELOW_LOOK_BACK = "ttl_below_look_back"
"""Rows expire before the next run has looked back for late ones: it finds gaps that are none."""

EXPIRES_UNREAD = "expires_unread"
"""A time bucket that a projection has not processed has expired, or does within the look-back."""

EVENTS_EXPIRE = "events_expire"
"""A table of events has a time to live: its persistence ids lose their first events."""

HEADS_EXPIRE = "heads_expire"
"""kafka-journal's metajournal has a time to live: no reader finds a journal without its head."""

SNAPSHOTS_EXPIRE = "snapshots_expire"
"""The snapshots have a time to live: what they are of may be deleted by then."""

ROWS_EXPIRE = "rows_expire"
"""Rows have a time to live that neither the table nor TIDEMARK_EVENTS_BY_TAG_TIME_TO_LIVE gives."""

COMPACTION_UNFIT = "compaction_unfit"
"""The compaction does not fit the time to live: Pekko's manual advises time windows."""

_STORAGE = partial(Check, layer=Layer.STORAGE, is_repairable=False, subject="table")

CHECKS = (
    _STORAGE(
        TTL_BELOW_LOOK_BACK,
        "No row expires before whoever looks back for it has looked.",
        mend="set a longer time to live, or a shorter look-back",
    ),
    _STORAGE(
        EXPIRES_UNREAD,
        "Every projection processes each time bucket before it expires, with the look-back to"
        " spare.",
        severity=Severity.WARNS,
        subject="projection",
    ),
    _STORAGE(EVENTS_EXPIRE, "No table of events has a time to live.", severity=Severity.WARNS),
    _STORAGE(
        HEADS_EXPIRE, "The heads of kafka-journal have no time to live.", severity=Severity.WARNS
    ),
    _STORAGE(SNAPSHOTS_EXPIRE, "The snapshots have no time to live.", severity=Severity.WARNS),
    _STORAGE(
        ROWS_EXPIRE,
        "No row has a time to live that neither its table nor a setting gives.",
        severity=Severity.WARNS,
    ),
    _STORAGE(
        COMPACTION_UNFIT,
        "Tables whose rows expire are compacted by time windows, not too many; others are not.",
        severity=Severity.WARNS,
    ),
)
"""The checks of the layer, in the order in which they are shown."""
