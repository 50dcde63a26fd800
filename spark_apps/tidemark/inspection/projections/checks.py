"""The checks of projections. In a finding, `tag` is the projection, then the tag of its series."""

from __future__ import annotations

from functools import partial

from tidemark.continuity.findings.checks import Check, Layer, Severity

OFFSET_AHEAD = "projection_offset_ahead"
"""An offset is beyond what its source has: events to come under those numbers would be dropped."""

PIECE_NOT_DONE = "projection_piece_not_done"
"""A time bucket of a projection is held or has failed."""

NUMBERS_MISSING = "projection_numbers_missing"
"""A projection waits for numbers that its source does not have."""

ROWS_DIFFER = "projection_rows_differ"
"""A time bucket of a read model has another number of rows than the ledger says were written."""

_PROJECTIONS = partial(Check, layer=Layer.PROJECTIONS, is_repairable=False, subject="projection")

CHECKS = (
    _PROJECTIONS(
        OFFSET_AHEAD,
        "No projection has consumed a number that its source does not have.",
        mend="restore what the source has lost, or set the offset back with project.py set-offset",
    ),
    _PROJECTIONS(
        PIECE_NOT_DONE,
        "No time bucket of a projection is held or has failed.",
        severity=Severity.WARNS,
    ),
    _PROJECTIONS(
        NUMBERS_MISSING,
        "No projection waits for missing numbers.",
        severity=Severity.WARNS,
    ),
    _PROJECTIONS(
        ROWS_DIFFER,
        "Every time bucket of a read model (mode bucket) has as many rows as were written.",
        severity=Severity.WARNS,
    ),
)
"""The checks of the layer, in the order in which they are shown."""
