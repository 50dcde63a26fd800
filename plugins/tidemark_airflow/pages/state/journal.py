"""The journal of a request: `default`, or an entry of the file of journals."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from tidemark_airflow.journals.file import journals
from tidemark_airflow.journals.journal import CASSANDRA, DEFAULT
from tidemark_airflow.pages.state.problems import ProblemError


def names() -> list[str]:
    """Return the journals that have DAGs, `default` first."""
    return [journal.name for journal in journals()]


def require(name: str) -> None:
    """Require that a journal has DAGs, and that this server can read it.

    Raises:
        ProblemError: 422 or 409 if not.
    """
    found = next((journal for journal in journals() if journal.name == name), None)
    if found is None:
        raise ProblemError(
            422,
            f"there is no journal {name!r:.60}, or its entry cannot be used",
            where="journal",
            do=f"choose among {', '.join(names())}, see docs/journals.md",
        )
    connection = found.arguments["cassandra_conn_id"]
    # The server has the settings of its environment; reading another cluster would show nothing.
    if connection != CASSANDRA and "cassandra-hosts" not in found.entry:
        raise ProblemError(
            409,
            f"the page does not read connections, and {name} has the connection {connection}",
            where=f"the entry {name} of the file of journals",
            do="add cassandra-hosts to the entry, see docs/journals.md",
        )


def _chosen(
    journal: Annotated[str, Query(max_length=48, description="A name of `journals`.")] = DEFAULT,
) -> str:
    require(journal)
    return journal


ChosenJournal = Annotated[str, Depends(_chosen)]
"""The parameter `journal` of a route."""


def of_dag(dag_id: str) -> tuple[str, str]:
    """Return the name of a DAG in the journal `default`, and its journal."""
    base, _, journal = dag_id.rpartition(".")
    return (base, journal) if journal in names()[1:] else (dag_id, DEFAULT)
