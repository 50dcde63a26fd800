"""The shapes of frames: the columns and types that a function takes and returns.

A run does not check shapes. The tests check the functions that declare shapes, once in each test
(`tests/shapes.py`), so that frames have the columns that docstrings name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Shape = Mapping[str, str]
"""Spark's simple name of a type, such as `bigint`, by column. Further columns are allowed."""
SHAPES = "__shapes__"

F = TypeVar("F", bound=Callable[..., object])


def ddl(shape: Shape) -> str:
    """Return a shape as the DDL schema of a new frame."""
    return ", ".join(f"{name} {kind}" for name, kind in shape.items())


@dataclass(frozen=True)
class Shapes:
    """The shapes of the frames that a function takes, by parameter, and returns."""

    takes: Mapping[str, Shape]
    returns: Shape | None


def shaped(*, returns: Shape | None = None, **takes: Shape) -> Callable[[F], F]:
    """Declare the shapes of a function's frames; an argument that is None is not checked.

    Raises:
        TypeError: the function has no parameter of that name, so nothing would be checked.
    """

    def state(function: F) -> F:
        if unknown := takes.keys() - inspect.signature(function).parameters:
            raise TypeError(f"{function.__qualname__} has no parameter {sorted(unknown)}")
        setattr(function, SHAPES, Shapes(takes, returns))
        return function

    return state
