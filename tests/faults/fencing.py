"""Whether a run asks for its locks before each of its writes."""

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
"""A write, or CHECK."""


def traced(patched: pytest.MonkeyPatch, writes: Iterable[Seam]) -> list[Step]:
    """The writes and checks of all that runs in this process from now on.

    A check that the ledger makes for itself, as when locks are taken, is not one of them: between
    it and the write there may be hours.
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
    """Whether a check was asked for in the ledger's own modules, where `check` is passed on."""
    while frame is not None and frame.f_code.co_name == "check":
        frame = frame.f_back
    return frame is not None and frame.f_globals["__name__"].startswith("tidemark.ledger.")


def is_checked_before_each(trace: Sequence[Step]) -> bool:
    """Whether no write follows another one, or begins, without a check between."""
    steps = pairwise(["begin", *trace])
    return all(former == CHECK for former, step in steps if step != CHECK)
