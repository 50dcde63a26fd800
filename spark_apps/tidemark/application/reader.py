"""The connection of a read-only application: no report, no row in `run`, no Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tidemark.application.environment import unknown_variables
from tidemark.cassandra.control import Control
from tidemark.context import RunContext
from tidemark.settings import Settings


@contextmanager
def connected(application: str) -> Iterator[RunContext]:
    """Connect with the settings of the environment; the run id is the name of the application.

    Raises:
        InvalidInput: a setting cannot be used.
        CassandraUnavailable: no contact point answers.
    """
    for line in unknown_variables(os.environ):
        print(f"{application}: warning: {line}", file=sys.stderr)
    settings = Settings.load()
    with Control(settings) as control:
        yield RunContext(application, settings, control, application)
