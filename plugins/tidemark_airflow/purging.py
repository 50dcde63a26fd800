"""What a purge does that nobody started."""

from __future__ import annotations

import os


def is_applied_on_schedule() -> bool:
    """Return whether a scheduled run applies its plan, or only prints it: TIDEMARK_SCHEDULED_PURGE.

    Raises:
        ValueError: the value is neither `plan` nor `apply`; Airflow shows an import error.
    """
    chosen = os.environ.get("TIDEMARK_SCHEDULED_PURGE", "plan")
    if chosen not in ("plan", "apply"):
        raise ValueError(f"TIDEMARK_SCHEDULED_PURGE is {chosen!r}; set it to plan or apply")
    return chosen == "apply"
