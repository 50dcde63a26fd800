"""Which expressions give another result when they are evaluated again.

What is processed twice (a bucket again, an event that was late) must come out the same: the same
tags, and so the same numbers; the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

_OF_THE_MOMENT = frozenset(
    {
        "CurrentDate",
        "CurrentTimestamp",
        "CurrentUser",
        "InputFileName",
        "LocalTimestamp",
        "Now",
    }
)
"""Classes of expressions that Spark takes for deterministic: they are, but within one run only."""
_SUBQUERIES = frozenset({"Exists", "LateralSubquery", "ListQuery", "ScalarSubquery"})


def unsteady_functions(frame: DataFrame) -> list[str]:
    """The functions of a frame's plan that give another result in another run, by name.

    They are those that Spark calls non-deterministic, such as `rand` and `uuid`, and those that
    depend on when, where or by whom they are run, such as `current_timestamp`. Nothing is run.
    """
    plan = frame._jdf.queryExecution().analyzed()
    return sorted({expression.prettyName() for expression in _unsteady(plan)})


def _unsteady(plan: Any) -> Iterator[Any]:
    """Those expressions of a plan, of the plans below it and of its subqueries."""
    for expression in _items(plan.expressions()):
        yield from _in_expression(expression)
    for child in _items(plan.children()):
        yield from _unsteady(child)


def _in_expression(expression: Any) -> Iterator[Any]:
    below = [found for one in _items(expression.children()) for found in _in_expression(one)]
    kind = expression.getClass().getSimpleName()
    if kind in _SUBQUERIES:
        below += _unsteady(expression.plan())
    yield from below
    if kind in _OF_THE_MOMENT or not (below or expression.deterministic()):
        yield expression


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(place) for place in range(sequence.size()))
