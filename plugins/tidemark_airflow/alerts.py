"""The owner of the DAGs, and the alerts about failed or late runs, from environment variables."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any

from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

NOTIFIER = "TIDEMARK_AIRFLOW_NOTIFIER"
DEADLINE = "TIDEMARK_AIRFLOW_DEADLINE_MINUTES"


def defaults() -> dict[str, Any]:
    """Return the arguments that all DAGs share: owner, notifier and deadline.

    Raises:
        ValueError: a setting cannot be used; Airflow shows it as an import error of the DAG.
    """
    return {
        "default_args": {"owner": os.environ.get("TIDEMARK_AIRFLOW_OWNER") or "tidemark"},
        "on_failure_callback": notifier(),
        "deadline": _deadline(),
    }


def notifier() -> Callable[..., Any] | None:
    """Return the object at `package.module:name`: a function of the context, or a Notifier."""
    path = os.environ.get(NOTIFIER, "")
    if not path:
        return None
    module, _, name = path.partition(":")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{NOTIFIER} is {path!r}, which cannot be imported ({error});"
            " set it to package.module:name, in the folder of the plugins or an installed package"
        ) from None
    if not callable(function):
        raise ValueError(
            f"{NOTIFIER} is {path!r}, which is no function of the context and no Notifier"
        )
    return function  # type: ignore[no-any-return]


def _deadline() -> DeadlineAlert | None:
    """Return the alert about runs that have not succeeded in time, which calls the notifier.

    A run that fails before its deadline causes two calls: Airflow removes only the deadlines of
    runs that succeed.
    """
    minutes = os.environ.get(DEADLINE, "")
    if not minutes:
        return None
    path = os.environ.get(NOTIFIER, "")
    if not minutes.isdecimal() or not int(minutes) or not path:
        raise ValueError(
            f"{DEADLINE} is {minutes!r}; set it to a whole number of minutes,"
            f" and {NOTIFIER} to the function that is to be called"
        )
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(minutes=int(minutes)),
        callback=SyncCallback(path.replace(":", ".")),
        name=f"not over after {minutes} minutes",
    )
