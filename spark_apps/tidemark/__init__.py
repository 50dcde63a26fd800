"""Tidemark: batch projections of an event journal kept in Cassandra."""

from __future__ import annotations

__version__ = "0.1.0"
