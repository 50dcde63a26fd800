"""Which events a query brings together in a row: found in the plan that Spark makes of it.

A batch is any set of whole time buckets, and a by-id mode reads any part of an id's events. A step
that combines rows is harmless only if it keeps apart what different batches may hold: it groups,
partitions or joins by columns of the event that tell so.

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
"""Nodes that combine the rows with equal values, and the attribute that names these."""
_SET_OPERATIONS = {"Except", "Intersect"}
_ANYHOW = {
    "FlatMapCoGroupsInPandas", "GlobalLimit", "MapInPandas", "Offset",
    "PythonMapInArrow", "Sample", "Tail",
}  # fmt: skip
"""Nodes that take rows as they happen to come."""
_ROW_BY_ROW = {"Filter", "Project", "Sort", "SubqueryAlias"}
_KEEPS_LEFT = {"LeftOuter", "LeftSemi", "LeftAnti"}

Names = Mapping[int, str]
"""The column of the event that an attribute is, by the attribute's id."""


@dataclass(frozen=True)
class Combination:
    """A step of a plan that combines rows of events.

    Attributes:
        name: Spark's, such as `Aggregate`.
        keeps: the columns of the event in which all rows that it combines are equal.
    """

    name: str
    keeps: frozenset[str]


@dataclass(frozen=True)
class _Rows:
    """What is known of the rows that a node gives.

    Attributes:
        names: of its attributes.
        has_events: whether they are made of events.
    """

    names: Names
    has_events: bool


def combinations(frame: DataFrame) -> tuple[Combination, ...]:
    """Return the steps of a frame's plan that combine rows of events; nothing is run."""
    tables: dict[int, tuple[Any, _Rows]] = {}
    found: list[Combination] = []
    rows: list[_Rows] = []
    # Children before their parents, and the queries of a WITH before what uses them.
    waiting = [(gateway.analyzed_plan(frame), False)]
    while waiting:
        node, is_ready = waiting.pop()
        children = each(node.children())
        if not is_ready:
            waiting += [(node, True), *((child, False) for child in reversed(children))]
            continue
        below = [rows.pop() for _ in children][::-1]
        rows.append(_rows(node, children, below, tables))
        if _kind(node) == "CTERelationDef":
            tables[node.id()] = (node, rows[-1])
        if any(part.has_events for part in below):
            keeps = _kept(node, children, below)
            found += [] if keeps is None else [Combination(_kind(node), keeps)]
    return tuple(found)


def _rows(
    node: Any, children: list[Any], below: list[_Rows], tables: Mapping[int, tuple[Any, _Rows]]
) -> _Rows:
    name, output = _kind(node), each(node.output())
    if name == "CTERelationRef":
        definition, rows = tables[node.cteId()]
        return _Rows(_of_all([each(definition.output())], [rows], output), rows.has_events)
    if not below:
        is_events = set(ENVELOPE.names) <= {str(column.name()) for column in output}
        own = {
            _id(column): str(column.name())
            for column in output
            if is_events and column.name() in _EVENT
        }
        return _Rows(own, is_events)
    names = {key: value for part in below for key, value in part.names.items()}
    if name == "Union":
        names = _of_all([each(child.output()) for child in children], below, output)
    elif name in {"Project", "Aggregate"}:
        listed = node.projectList() if name == "Project" else node.aggregateExpressions()
        for column in each(listed):
            if _kind(column) == "Alias" and (known := _name(column.child(), names)):
                names[_id(column)] = known
    return _Rows(names, any(part.has_events for part in below))


def _kept(node: Any, children: list[Any], below: list[_Rows]) -> frozenset[str] | None:
    """Return what a node keeps apart; None if it does not combine rows."""
    name = _kind(node)
    names = {key: value for part in below for key, value in part.names.items()}
    if name in _ANYHOW:
        return frozenset()
    if name in _GROUPED:
        return _named(each(getattr(node, _GROUPED[name])()), names)
    if name == "Distinct":
        return _named(each(node.output()), names)
    if name in _SET_OPERATIONS:
        outputs = [each(child.output()) for child in children]
        return frozenset(_of_all(outputs, below, outputs[0]).values())
    return _kept_by_join(node, below) if name == "Join" else None


def _kept_by_join(node: Any, below: list[_Rows]) -> frozenset[str] | None:
    left, right = below
    kind = str(node.joinType().toString())
    if not left.has_events or not right.has_events:
        # Rows of an inline table are kept or not by the events that there happen to be.
        keeps_events = kind in _KEEPS_LEFT if left.has_events else kind == "RightOuter"
        return None if kind in {"Inner", "Cross"} or keeps_events else frozenset()
    equal = set()
    conditions = [node.condition().get()] if node.condition().isDefined() else []
    while conditions:
        condition = conditions.pop()
        if _kind(condition) == "And":
            conditions += each(condition.children())
        elif _kind(condition) in {"EqualTo", "EqualNullSafe"}:
            pair = each(condition.children())
            sides = [{_name(side, rows.names) for side in pair} - {None} for rows in (left, right)]
            equal |= sides[0] & sides[1]
    return frozenset(name for name in equal if name)


def _of_all(outputs: list[list[Any]], below: list[_Rows], output: list[Any]) -> dict[int, str]:
    """Return the names of columns that are the same in each of some queries, by place."""
    same = {}
    for place, column in enumerate(output):
        names = {_name(part[place], rows.names) for part, rows in zip(outputs, below, strict=True)}
        [*_, name] = names
        if len(names) == 1 and name:
            same[_id(column)] = name
    return same


def _named(expressions: Iterable[Any], names: Names) -> frozenset[str]:
    return frozenset(filter(None, (_name(expression, names) for expression in expressions)))


def _name(expression: Any, names: Names) -> str | None:
    return names.get(_id(expression)) if _kind(expression) == "AttributeReference" else None


def _id(column: Any) -> int:
    return int(column.exprId().id())


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def grouped_by(frame: DataFrame) -> list[str] | None:
    """Return the columns of a frame that hold what its rows are grouped by; nothing is run.

    None if the rows are no groups, or if a column of the groups is not among them.
    """
    above, node = [], gateway.analyzed_plan(frame)
    while _kind(node) in _ROW_BY_ROW:
        above.append(node)
        [node] = each(node.children())
    if _kind(node) != "Aggregate":
        return None
    groups = [group for group in each(node.groupingExpressions()) if not group.foldable()]
    holders = [
        {_id(column) for column in each(node.aggregateExpressions()) if _is_of(column, group)}
        for group in groups
    ]
    for project in (node for node in reversed(above) if _kind(node) == "Project"):
        for column in each(project.projectList()):
            if _kind(column) == "Alias" and _kind(column.child()) == "AttributeReference":
                for holder in holders:
                    holder |= {_id(column)} if _id(column.child()) in holder else set()
    output = {_id(column): str(column.name()) for column in each((above or [node])[0].output())}
    named = [next((output[key] for key in output if key in holder), None) for holder in holders]
    return None if None in named else [name for name in named if name]


def _is_of(column: Any, group: Any) -> bool:
    return bool((column.child() if _kind(column) == "Alias" else column).semanticEquals(group))
