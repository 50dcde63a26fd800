"""Fixtures of the fault tests: the journals of the integration tests."""

from __future__ import annotations

from tests.integration.conftest import control, journal, make_journal, make_journals, pool

__all__ = ["control", "journal", "make_journal", "make_journals", "pool"]
