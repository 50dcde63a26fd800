"""The names of the applications in the ledger and in the reports."""

from __future__ import annotations

TAG_WRITE = "tag-write"
VALIDATE = "validate"
PROJECT = "project"
CHAIN = "chain"
STATUS = "status"
OBSERVE = "observe"
PURGE = "purge"
RECONCILE = "reconcile"
CLEANUP = "cleanup"
REPLICATE = "replicate"
RUN_EVENT_GROUPS = "run-event-groups"
