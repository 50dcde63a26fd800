"""The public API for unit tests of a definition, with plain rows and without Cassandra.

::

    from tidemark.projection.testing import run_projection

    rows = run_projection(Path("include/sql/projections/daily_punctuality.sql"), [event, ...])
"""

from __future__ import annotations

from tidemark.project.testing import failed_checks, run_projection, unreadable_events

__all__ = ["failed_checks", "run_projection", "unreadable_events"]
