"""The failure of an event, which is no failure of the run."""

from __future__ import annotations


class EventFailed(Exception):
    """An event that did not succeed, with the reason in one line."""
