"""The pools of a journal, which limit the tasks that run at the same time.

Tasks that write the journal's tables share a pool with one slot; otherwise locks in Cassandra would
fail the second task. Projections write other tables and have another pool.
"""

from __future__ import annotations

import os


def journal() -> str:
    """Return the pool of the applications that write the journal's tables; it needs one slot."""
    return f"tidemark_{os.environ.get('TIDEMARK_JOURNAL_KEYSPACE') or 'pekko'}"


def projections() -> str:
    """Return the pool of the journal's projections; as many run at once as it has slots."""
    return f"{journal()}_projections"
