"""The applications' names, as the ledger and the reports have them."""

from __future__ import annotations

LOAD_FLIGHTS = "load-flights"
TAG_WRITE = "tag-write"
VALIDATE = "validate"
PROJECT = "project"
PURGE = "purge"
RECONCILE = "reconcile"
