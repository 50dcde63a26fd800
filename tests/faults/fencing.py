"""A check that a run asks for its locks before each of its writes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest

from tests.faults.seams import Seam
from tidemark.ledger.locks import Locks

CHECK = "check"


Step = Seam | str
"""A seam that writes, or CHECK."""


def traced(patched: pytest.MonkeyPatch, writes: Iterable[Seam]) -> list[Step]:
    """Return a list that records all writes and checks of this process from now on.

    Checks that the ledger makes for itself, as when locks are taken, are left out: hours may lie
    between such a check and the write.
    """
    trace: list[Step] = []

    def telling(write: Seam, function: Callable[..., Any]) -> Callable[..., Any]:
        def and_tell(*values: Any, **options: Any) -> Any:
            trace.append(write)
            return function(*values, **options)

        return and_tell

    check = Locks.check

    def check_and_tell(locks: Locks) -> None:
        if not _is_of_the_ledger(sys._getframe(1)):
            trace.append(CHECK)
        check(locks)

    patched.setattr(Locks, "check", check_and_tell)
    for write in writes:
        owner, name = write.place()
        patched.setattr(owner, name, telling(write, getattr(owner, name)))
    return trace


def _is_of_the_ledger(frame: FrameType | None) -> bool:
    """Return whether a check was called by the ledger's own modules, which pass `check` on."""
    while frame is not None and frame.f_code.co_name == "check":
        frame = frame.f_back
    return frame is not None and frame.f_globals["__name__"].startswith("tidemark.ledger.")


def is_checked_before_each(trace: Sequence[Step]) -> bool:
    """Return whether a check comes directly before each write."""
    steps = pairwise(["begin", *trace])
    return all(former == CHECK for former, step in steps if step != CHECK)
