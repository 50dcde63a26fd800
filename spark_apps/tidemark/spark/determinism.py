"""The search for functions that make the user's SQL give different results each time it runs.

A step that is repeated after a crash must give the same rows, and an event must get the same tags.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame

from tidemark.spark import gateway
from tidemark.spark.gateway import each

_OF_THE_RUN = {
    "CurrentDate",
    "CurrentTimestamp",
    "CurrentUser",
    "InputFileName",
    "LocalTimestamp",
    "Now",
}
"""Functions that depend on the time, place or user of a query. Spark treats these functions as
deterministic, because their values are constant within one query."""
_PLANS = {"Sample"}
_SHOWN = 25
"""The number of a table's fields that its name shows."""
_RANDOM = "org.apache.spark.sql.catalyst.expressions.Nondeterministic"
_SUBQUERY = "org.apache.spark.sql.catalyst.expressions.PlanExpression"


_TABLES = {"DataSourceV2Relation", "HiveTableRelation", "LogicalRelation"}
"""Leaves of plans that read data that others may change."""


def foreign_tables(frame: DataFrame, known: Iterable[DataFrame]) -> list[str]:
    """Return the tables and files that a frame reads and the `known` frames do not; run nothing."""
    known_leaves = [leaf.canonicalized() for other in known for leaf in _leaves(other)]
    return sorted(
        {
            str(leaf.simpleString(_SHOWN))
            for leaf in _leaves(frame)
            if leaf.getClass().getSimpleName() in _TABLES
            and not any(leaf.canonicalized().equals(other) for other in known_leaves)
        }
    )


def is_same_plan(left: DataFrame, right: DataFrame) -> bool:
    """Return whether two frames are the same query, except for the code of Python functions."""
    left_plan, right_plan = (
        gateway.analyzed_plan(frame).canonicalized() for frame in (left, right)
    )
    return bool(left_plan.toString() == right_plan.toString())


def _leaves(frame: DataFrame) -> list[Any]:
    return each(gateway.analyzed_plan(frame).collectLeaves())


def unrepeatable(frame: DataFrame) -> list[str]:
    """Return the functions in a frame's plan whose value changes between runs; nothing is run.

    The names are Spark's, distinct and sorted, such as `rand`, `uuid` or `current_timestamp`.
    """
    jvm = gateway.jvm(frame.sparkSession)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    random = loader.loadClass(_RANDOM)
    subquery = loader.loadClass(_SUBQUERY)
    names = set[str]()
    plans = [gateway.analyzed_plan(frame)]
    while plans:
        plan = plans.pop()
        plans += each(plan.children())
        if (name := str(plan.nodeName())) in _PLANS:
            names.add(name.lower())
        expressions = each(plan.expressions())
        while expressions:
            expression = expressions.pop()
            expressions += each(expression.children())
            if subquery.isInstance(expression):
                plans.append(expression.plan())
            kind = expression.getClass().getSimpleName()
            is_udf = kind == "PythonUDF" and not expression.udfDeterministic()
            if is_udf or kind in _OF_THE_RUN or random.isInstance(expression):
                names.add(str(expression.name() if is_udf else expression.prettyName()))
    return sorted(names)
