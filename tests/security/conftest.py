"""Fixtures of the attacks: journals as in the integration tests."""

from __future__ import annotations

from tests.integration.conftest import (
    control,
    journal,
    make_journal,
    make_journals,
    pool,
    projections,
)

__all__ = ["control", "journal", "make_journal", "make_journals", "pool", "projections"]
