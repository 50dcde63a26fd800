"""Fixtures: histories use the journals of the integration tests, real time the real plugin."""

from __future__ import annotations

from tests.integration.conftest import control, make_journal, pool
from tests.interop.conftest import pekko

__all__ = ["control", "make_journal", "pekko", "pool"]
