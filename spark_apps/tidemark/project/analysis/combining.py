"""Finds the steps of a query that combine rows of several events, in Spark's plan of the query.

A batch is any set of complete time buckets, and a by-id mode reads any part of an id's events. A
step that combines rows is harmless only if it never combines rows that could be in different
batches: it groups, partitions or joins by columns of the event that ensure this.

::

    GROUP BY time_bucket, carrier                    keeps time_bucket
    row_number() OVER (PARTITION BY persistence_id)  keeps persistence_id
    LIMIT 10                                         keeps nothing
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from tidemark.project.envelope import ENVELOPE
from tidemark.spark import gateway
from tidemark.spark.gateway import each

_EVENT = frozenset({"time_bucket", "persistence_id", "sequence_nr"})
_GROUPED = {
    "Aggregate": "groupingExpressions",
    "Window": "partitionSpec",
    "WindowInPandas": "partitionSpec",
    "Deduplicate": "keys",
    "FlatMapGroupsInPandas": "groupingAttributes",
}
"""Nodes that combine rows with equal values, and their attribute that lists the expressions."""
_SET_OPERATIONS = {"Except", "Intersect"}
_UNORDERED = {
    "FlatMapCoGroupsInPandas", "GlobalLimit", "MapInPandas", "Offset",
    "PythonMapInArrow", "Sample", "Tail",
}  # fmt: skip
"""Nodes that combine rows in no defined way."""
_ROW_BY_ROW = {"Filter", "Project", "Sort", "SubqueryAlias"}
_KEEPS_LEFT = {"LeftOuter", "LeftSemi", "LeftAnti"}

Names = Mapping[int, str]
"""The name of the event's column by the id of the attribute that holds it."""


@dataclass(frozen=True)
class Combination:
    """A step of a plan that combines rows of events.

    Attributes:
        name: Spark's name, such as `Aggregate`.
        keeps: columns of the event in which the rows that are combined are equal.
    """

    name: str
    keeps: frozenset[str]


@dataclass(frozen=True)
class _Rows:
    """The output of a node of a plan.

    Attributes:
        names: names of its attributes that are columns of the event.
        has_events: whether its rows come from events.
    """

    names: Names
    has_events: bool


def combinations(frame: DataFrame) -> tuple[Combination, ...]:
    """Return the steps of a frame's plan that combine rows of events, without running it."""
    relations: dict[int, tuple[Any, _Rows]] = {}
    steps: list[Combination] = []
    outputs: list[_Rows] = []
    # Children before their parents, and the queries of a WITH before their uses.
    pending = [(gateway.analyzed_plan(frame), False)]
    while pending:
        node, is_ready = pending.pop()
        children = each(node.children())
        if not is_ready:
            pending += [(node, True), *((child, False) for child in reversed(children))]
            continue
        inputs = [outputs.pop() for _ in children][::-1]
        outputs.append(_rows(node, children, inputs, relations))
        if _kind(node) == "CTERelationDef":
            relations[node.id()] = (node, outputs[-1])
        if any(part.has_events for part in inputs):
            keeps = _kept(node, children, inputs)
            steps += [] if keeps is None else [Combination(_kind(node), keeps)]
    return tuple(steps)


def _rows(
    node: Any, children: list[Any], inputs: list[_Rows], relations: Mapping[int, tuple[Any, _Rows]]
) -> _Rows:
    name, output = _kind(node), each(node.output())
    if name == "CTERelationRef":
        definition, rows = relations[node.cteId()]
        return _Rows(_of_all([each(definition.output())], [rows], output), rows.has_events)
    if not inputs:
        is_events = set(ENVELOPE.names) <= {str(column.name()) for column in output}
        event_columns = {
            _id(column): str(column.name())
            for column in output
            if is_events and column.name() in _EVENT
        }
        return _Rows(event_columns, is_events)
    names = {key: value for part in inputs for key, value in part.names.items()}
    if name == "Union":
        names = _of_all([each(child.output()) for child in children], inputs, output)
    elif name in {"Project", "Aggregate"}:
        expressions = node.projectList() if name == "Project" else node.aggregateExpressions()
        for column in each(expressions):
            if _kind(column) == "Alias" and (name_of_child := _name(column.child(), names)):
                names[_id(column)] = name_of_child
    return _Rows(names, any(part.has_events for part in inputs))


def _kept(node: Any, children: list[Any], inputs: list[_Rows]) -> frozenset[str] | None:
    """Return the columns in which rows that a node combines are equal; None if it combines none."""
    name = _kind(node)
    names = {key: value for part in inputs for key, value in part.names.items()}
    if name in _UNORDERED:
        return frozenset()
    if name in _GROUPED:
        return _named(each(getattr(node, _GROUPED[name])()), names)
    if name == "Distinct":
        return _named(each(node.output()), names)
    if name in _SET_OPERATIONS:
        outputs = [each(child.output()) for child in children]
        return frozenset(_of_all(outputs, inputs, outputs[0]).values())
    return _kept_by_join(node, inputs) if name == "Join" else None


def _kept_by_join(node: Any, inputs: list[_Rows]) -> frozenset[str] | None:
    left, right = inputs
    kind = str(node.joinType().toString())
    if not left.has_events or not right.has_events:
        # Which events a batch has decides which rows of an inline table are kept.
        keeps_events = kind in _KEEPS_LEFT if left.has_events else kind == "RightOuter"
        return None if kind in {"Inner", "Cross"} or keeps_events else frozenset()
    equal_columns = set()
    conditions = [node.condition().get()] if node.condition().isDefined() else []
    while conditions:
        condition = conditions.pop()
        if _kind(condition) == "And":
            conditions += each(condition.children())
        elif _kind(condition) in {"EqualTo", "EqualNullSafe"}:
            pair = each(condition.children())
            sides = [{_name(side, rows.names) for side in pair} - {None} for rows in (left, right)]
            equal_columns |= sides[0] & sides[1]
    return frozenset(name for name in equal_columns if name)


def _of_all(outputs: list[list[Any]], inputs: list[_Rows], output: list[Any]) -> dict[int, str]:
    """Return names of columns that are the same column of the event in all queries."""
    common = {}
    for position, column in enumerate(output):
        names = {
            _name(part[position], rows.names) for part, rows in zip(outputs, inputs, strict=True)
        }
        [*_, name] = names
        if len(names) == 1 and name:
            common[_id(column)] = name
    return common


def _named(expressions: Iterable[Any], names: Names) -> frozenset[str]:
    return frozenset(filter(None, (_name(expression, names) for expression in expressions)))


def _name(expression: Any, names: Names) -> str | None:
    return names.get(_id(expression)) if _kind(expression) == "AttributeReference" else None


def _id(column: Any) -> int:
    return int(column.exprId().id())


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def grouped_by(frame: DataFrame) -> list[str] | None:
    """Return the columns of a frame that hold its grouping expressions, without running it.

    None if the rows are no groups, or if the frame lacks a grouping expression.
    """
    parents, node = [], gateway.analyzed_plan(frame)
    while _kind(node) in _ROW_BY_ROW:
        parents.append(node)
        [node] = each(node.children())
    if _kind(node) != "Aggregate":
        return None
    groups = [group for group in each(node.groupingExpressions()) if not group.foldable()]
    holders = [
        {_id(column) for column in each(node.aggregateExpressions()) if _is_of(column, group)}
        for group in groups
    ]
    for project in (node for node in reversed(parents) if _kind(node) == "Project"):
        for column in each(project.projectList()):
            if _kind(column) == "Alias" and _kind(column.child()) == "AttributeReference":
                for holder in holders:
                    holder |= {_id(column)} if _id(column.child()) in holder else set()
    output = {_id(column): str(column.name()) for column in each((parents or [node])[0].output())}
    names = [next((output[key] for key in output if key in holder), None) for holder in holders]
    return None if None in names else [name for name in names if name]


def _is_of(column: Any, group: Any) -> bool:
    return bool((column.child() if _kind(column) == "Alias" else column).semanticEquals(group))
