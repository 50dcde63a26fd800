"""The pieces of the load: months of 2013, cut by event time in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from tidemark.errors import InvalidInput
from tidemark.window import Window

MONTHS = 12
# The year's last landing is on 2014-01-01: December includes it, so twelve months are complete.
_STARTS = [datetime(2013, month, 1, tzinfo=UTC) for month in range(1, MONTHS + 1)]
_ENDS = [*_STARTS[1:], datetime(2014, 1, 2, tzinfo=UTC)]


def month_windows(months: int) -> list[Window]:
    """Return the windows of the first `months` months of 2013, adjacent and in order.

    Raises:
        InvalidInput: the number is not 1 to 12.
    """
    if not 1 <= months <= MONTHS:
        raise InvalidInput(
            f"cannot load {months} months of 2013", where="months", do="choose 1 to 12"
        )
    return [Window(start, end) for start, end in zip(_STARTS, _ENDS, strict=True)][:months]


def load_window(months: int) -> Window:
    """Return the window of the first `months` months of 2013 together."""
    windows = month_windows(months)
    return Window(windows[0].start, windows[-1].end)
