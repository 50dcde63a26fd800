"""Fixtures: histories use the journals of the integration tests, real time the real plugin."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from tests.integration.conftest import control, make_journal, pool
from tests.interop.conftest import pekko
from tidemark.ledger.frontier import partition

__all__ = ["control", "make_journal", "pekko", "pool"]


@pytest.fixture(autouse=True)
def early_frontier() -> Iterator[None]:
    """Let the ledgers take up done pieces into their frontiers within the short histories."""
    with patch.object(partition, "TAKEN_UP_FROM", 6), patch.object(partition, "LEFT_OUT", 2):
        yield
