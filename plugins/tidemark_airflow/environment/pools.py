"""The pools of a journal: what may run at once.

Whatever writes the journal's tables takes turns, by a pool with one slot; locks in Cassandra would
otherwise fail the second. Projections write tables of their own, and have another pool.
"""

from __future__ import annotations

import os


def journal() -> str:
    """Return the pool of the applications that write the journal's tables; it needs one slot."""
    return f"tidemark_{os.environ.get('TIDEMARK_JOURNAL_KEYSPACE') or 'pekko'}"


def projections() -> str:
    """Return the pool of the journal's projections; as many run at once as it has slots."""
    return f"{journal()}_projections"
