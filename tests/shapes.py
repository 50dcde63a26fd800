"""Checks of data frames at the entry and exit of every function that states their shapes."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest
from pyspark.sql import DataFrame

import tidemark
from tidemark.spark.shapes import SHAPES, Shape, Shapes


def differences(frame: DataFrame, shape: Shape) -> dict[str, tuple[str, str | None]]:
    """Return the columns whose type differs, each with its stated and its actual type."""
    actual = {field.name: field.dataType.simpleString() for field in frame.schema}
    return {
        name: (kind, actual.get(name)) for name, kind in shape.items() if actual.get(name) != kind
    }


def checked(function: Callable[..., Any], shapes: Shapes) -> Callable[..., Any]:
    """Wrap a function so that it fails when it is given or returns a frame of another shape.

    Each test checks a function once, because Spark analyzes a plan to answer with its schema.
    """
    signature, seen = inspect.signature(function), set[str]()

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        test = os.environ.get("PYTEST_CURRENT_TEST", "")
        if test in seen:
            return function(*arguments, **options)
        seen.add(test)
        bound = signature.bind(*arguments, **options).arguments
        for name, shape in shapes.takes.items():
            _require(function, name, bound.get(name), shape)
        result = function(*arguments, **options)
        if shapes.returns is not None:
            _require(function, "the result", result, shapes.returns)
        return result

    return call


def _require(function: Callable[..., Any], subject: str, frame: object, shape: Shape) -> None:
    if isinstance(frame, DataFrame) and (wrong := differences(frame, shape)):
        raise AssertionError(f"{function.__module__}.{function.__qualname__}: {subject}: {wrong}")


def check_every_call(patched: pytest.MonkeyPatch) -> int:
    """Check the frames of all functions and methods that state shapes; return their number."""
    for module in pkgutil.walk_packages(tidemark.__path__, "tidemark."):
        importlib.import_module(module.name)
    replaced = 0
    for owner, name, function, shapes in list(_stated()):
        new = checked(function, shapes)
        patched.setattr(owner, name, new)
        replaced += 1
        for module_name, other in list(sys.modules.items()):
            if module_name.startswith("tidemark.") and vars(other).get(name) is function:
                patched.setattr(other, name, new)
    return replaced


def _stated() -> Iterator[tuple[Any, str, FunctionType, Shapes]]:
    """Yield functions and methods with stated shapes; an override inherits those of its base."""
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("tidemark."):
            continue
        for name, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and value.__module__ == module_name:
                if (shapes := getattr(value, SHAPES, None)) is not None:
                    yield module, name, value, shapes
            elif inspect.isclass(value) and value.__module__ == module_name:
                yield from _methods(value)


def _methods(owner: type) -> Iterator[tuple[Any, str, FunctionType, Shapes]]:
    for name, value in list(vars(owner).items()):
        if not isinstance(value, FunctionType):
            continue
        for ancestor in owner.__mro__:
            shapes = getattr(vars(ancestor).get(name), SHAPES, None)
            if shapes is not None:
                yield owner, name, value, shapes
                break
