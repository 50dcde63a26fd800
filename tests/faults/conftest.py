"""The fault tests use the same journals as the integration tests."""

from __future__ import annotations

from tests.integration.conftest import control, journal, make_journal, make_journals, pool

__all__ = ["control", "journal", "make_journal", "make_journals", "pool"]
