"""The names of the applications in the ledger and in the reports."""

from __future__ import annotations

LOAD_FLIGHTS = "load-flights"
PUBLISH_FLIGHTS = "publish-flights"
TAG_WRITE = "tag-write"
VALIDATE = "validate"
PROJECT = "project"
CHAIN = "chain"
PURGE = "purge"
RECONCILE = "reconcile"
CLEANUP = "cleanup"
REPLICATE = "replicate"
RUN_EVENT_GROUPS = "run-event-groups"
