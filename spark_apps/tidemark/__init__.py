"""Tidemark: batch projections of an event journal kept in Cassandra.

The names of `__all__` are what users' Python may rely on, with `tidemark.projection` and
`tidemark.projection.testing`, which definitions and their tests import. All else may change with
any version.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemark import errors
    from tidemark.event_groups.builder import EventGroup, row
    from tidemark.settings import Settings

__version__ = "0.1.0"
__all__ = ["EventGroup", "Settings", "__version__", "errors", "row"]
_MODULES = {
    "EventGroup": "tidemark.event_groups.builder",
    "Settings": "tidemark.settings",
    "row": "tidemark.event_groups.builder",
}


def __getattr__(name: str) -> object:
    """Import what is used: the modules load much, and an import of the package loads nothing."""
    if name == "errors":
        return import_module("tidemark.errors")
    if name not in _MODULES:
        raise AttributeError(f"module 'tidemark' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
