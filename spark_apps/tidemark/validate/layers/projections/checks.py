"""The checks of projections. In a finding, `tag` is the projection, then the tag of its series."""

from __future__ import annotations

from functools import partial

from tidemark.validate.findings.check import Check, Layer, Severity, checks_of

_PROJECTIONS = partial(Check, layer=Layer.PROJECTIONS, subject="projection")

UNUSABLE = _PROJECTIONS(
    "projection_unusable",
    "Every projection file can be used.",
    severity=Severity.WARNS,
    remedy="correct the file, or remove it",
)
"""A projection file cannot be used, so its projection is neither run nor checked."""

OFFSET_AHEAD = _PROJECTIONS(
    "projection_offset_ahead",
    "No projection has consumed a number that its source does not have.",
    remedy="restore the lost events of the source, or set the offset back (project.py set-offset)",
)
"""An offset is after the last number of its source: new events with lower numbers are dropped."""

PIECE_NOT_DONE = _PROJECTIONS(
    "projection_piece_not_done",
    "No time bucket of a projection is held or has failed.",
    severity=Severity.WARNS,
)
"""A time bucket of a projection is held or has failed."""

NUMBERS_MISSING = _PROJECTIONS(
    "projection_numbers_missing",
    "No projection waits for missing numbers.",
    severity=Severity.WARNS,
)
"""A projection waits for numbers that its source does not have."""

ROWS_DIFFER = _PROJECTIONS(
    "projection_rows_differ",
    "Every time bucket of a read model (mode bucket) has the number of rows that was written.",
    severity=Severity.WARNS,
)
"""A time bucket of a read model has another number of rows than the ledger records as written."""

CHECKS = checks_of(globals())
"""The checks of the layer, in display order."""
