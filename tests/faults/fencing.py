"""Whether a run asks for its locks before each of its writes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from tidemark.ledger.locks import Locks

CHECK = "check"


def traced(patched: pytest.MonkeyPatch, writes: Iterable[str]) -> list[str]:
    """The writes (MODULE:FUNCTION) and checks of all that runs in this process from now on."""
    trace: list[str] = []

    def telling(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def and_tell(*values: Any, **options: Any) -> Any:
            trace.append(name)
            return function(*values, **options)

        return and_tell

    patched.setattr(Locks, "check", telling(CHECK, Locks.check))
    for write in writes:
        module_name, _, name = write.partition(":")
        module = importlib.import_module(module_name)
        patched.setattr(module, name, telling(write, getattr(module, name)))
    return trace


def is_checked_before_each(trace: Sequence[str]) -> bool:
    """Whether no write follows another one, or begins, without a check between."""
    steps = pairwise(["begin", *trace])
    return all(former == CHECK for former, step in steps if step != CHECK)
