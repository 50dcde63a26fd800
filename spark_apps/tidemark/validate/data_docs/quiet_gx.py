"""Great Expectations without its log output, imported only when needed."""

from __future__ import annotations

import importlib
import logging
import os
from contextlib import suppress
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from great_expectations.core.batch_definition import BatchDefinition


@cache
def import_early() -> Thread:
    """Import Great Expectations in a thread, once for each process, and return the thread.

    Call this before work that mostly waits for Spark: the import takes seconds of CPU in Python.
    """
    _quiet()
    # As a daemon, it does not delay the end of a run that is stopped.
    thread = Thread(target=_import, name="import-gx", daemon=True)
    thread.start()
    return thread


def _import() -> None:
    # The import where it is needed raises the error.
    with suppress(Exception):
        importlib.import_module("great_expectations.expectations.core")


def silence() -> None:
    """Turn off messages of Great Expectations; call this before it is imported.

    Its import takes seconds, so import it only inside the functions that need it. An import that
    `import_early` has begun ends first, because two threads may not import one package at once.
    """
    if import_early.cache_info().currsize:
        import_early().join()
    _quiet()


def _quiet() -> None:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # GX warns about its own internals.
    logging.getLogger("great_expectations").setLevel(logging.ERROR)


def frames() -> BatchDefinition[Any]:
    """Return the definition of a batch of one pandas frame, in a new context."""
    silence()
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    context = gx.get_context(
        mode="ephemeral",
        project_config=DataContextConfig(
            store_backend_defaults=InMemoryStoreBackendDefaults(),
            analytics_enabled=False,
            progress_bars=ProgressBarsConfig(globally=False),
        ),
    )
    return (
        context.data_sources.add_pandas("tidemark")
        .add_dataframe_asset("result")
        .add_batch_definition_whole_dataframe("time bucket")
    )
