"""The pools of a journal, which limit the tasks that run at the same time.

Tasks that write the journal's tables share a pool with one slot; otherwise locks in Cassandra would
fail the second task. Projections write other tables and have another pool.

`python -m tidemark_airflow.environment.pools` prints the pools of the journals of the file, for
`airflow pools import`.
"""

from __future__ import annotations

import json
import os

from tidemark_airflow.journals.file import journals
from tidemark_airflow.journals.journal import DEFAULT


def journal(name: str = DEFAULT) -> str:
    """Return the pool of the applications that write the journal's tables; it needs one slot."""
    if name != DEFAULT:
        # A keyspace has no dot, so this is no pool of `default`.
        return f"tidemark.{name}"
    return f"tidemark_{os.environ.get('TIDEMARK_JOURNAL_KEYSPACE') or 'pekko'}"


def projections(name: str = DEFAULT) -> str:
    """Return the pool of the journal's projections; as many run at once as it has slots."""
    pool = journal(name)
    return f"{pool}_projections" if name == DEFAULT else f"{pool}.projections"


def of_file() -> dict[str, dict[str, object]]:
    """Return the pools of the journals of the file, as `airflow pools import` reads them."""
    slots = {
        pool: number
        for of_journal in journals()
        if of_journal.name != DEFAULT
        for pool, number in ((journal(of_journal.name), 1), (projections(of_journal.name), 2))
    }
    return {
        pool: {"slots": number, "description": "set at start", "include_deferred": False}
        for pool, number in slots.items()
    }


if __name__ == "__main__":
    print(json.dumps(of_file()))
