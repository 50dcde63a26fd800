"""Warnings about environment variables that nothing reads, such as misspelt ones."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from tidemark.postgres.connections import is_variable
from tidemark.settings import Settings

_OTHER_VARIABLES = frozenset(
    f"TIDEMARK_{name}"
    for name in (
        *(
            "HOME",
            "STATE",
            "CADENCE",
            "CHAIN",
            "WEEKLY_CHECK",
            "SCHEDULED_PURGE",
            "PURGE_APPROVAL_ABOVE",
            "PURGE_APPROVAL_HOURS",
            "PURGE_APPROVERS",
            "CASSANDRA_PORT",
            "KAFKA_PORT",
            "POSTGRES_PORT",
            "POSTGRES_CONNECTIONS",
            "EMBEDDED_PROCESS",
        ),
        *("AIRFLOW_HOSTS", "AIRFLOW_PORT", "AIRFLOW_OWNER", "AIRFLOW_NOTIFIER"),
        "AIRFLOW_DEADLINE_MINUTES",
        *("REPLICATE_MINUTES", "KAFKA_CONNECTIONS", "EVENT_GROUPS_MINUTES", "OBSERVE_MINUTES"),
    )
)
"""The variables of the Airflow plugin and of the embedded servers."""


def unknown_variables(environment: Iterable[str]) -> list[str]:
    """Return a line for each variable name with the prefix TIDEMARK_ that nothing reads."""
    known = {f"TIDEMARK_{name.upper()}" for name in Settings.model_fields} | _OTHER_VARIABLES
    unknown = sorted(
        name
        for name in environment
        if name.startswith("TIDEMARK_") and name not in known and not is_variable(name)
    )
    return [f"{name} is no setting and does nothing{_nearest(name, known)}" for name in unknown]


def _nearest(name: str, known: Iterable[str]) -> str:
    # The common prefix would make all names similar.
    names = [other.removeprefix("TIDEMARK_") for other in known]
    similar = get_close_matches(name.removeprefix("TIDEMARK_"), names, n=1)
    return f"; did you mean TIDEMARK_{similar[0]}?" if similar else "; see docs/settings.md"
