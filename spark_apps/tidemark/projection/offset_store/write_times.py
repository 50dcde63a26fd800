"""The write timestamps of a projection, which only grow."""

from __future__ import annotations

from tidemark import clock
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.settings import Settings

_CONTROL = "projection_control"


def next_write_time(control: Control, settings: Settings, subject: str) -> int:
    """A write timestamp (microseconds) above all that this projection used; stored before use.

    It grows even if the clock goes back, and if the run that took the last one died.
    """
    name = table(settings.keyspace, _CONTROL)
    rows = control.execute(
        "SELECT last_write_time, WRITETIME(last_write_time) AS stored_at"
        f" FROM {name} WHERE projection = ?",
        (subject,),
    )
    last = max(value or 0 for value in rows[0].values()) if rows else 0
    write_time = max(clock.now_micros(), last + 2)
    # With the time of this clock it would be hidden by what a faster one has stored.
    control.execute(
        f"INSERT INTO {name} (projection, last_write_time) VALUES (?, ?) USING TIMESTAMP ?",
        (subject, write_time, write_time),
    )
    return write_time
