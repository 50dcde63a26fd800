"""The orders that are the remedies of the overview's lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from tidemark.status.overview import Overview
from tidemark.status.rules import Line
from tidemark_airflow.next_step import step_of


@dataclass(frozen=True)
class RemedyOrder:
    """An order of a run, for `orders`: the DAG, and fields of its form."""

    dag_id: str
    conf: Mapping[str, Any]


@dataclass(frozen=True)
class LineWithOrder(Line):
    """A line of the overview, with its remedy as an order.

    Attributes:
        order: the order; None if the remedy is not a run.
    """

    order: RemedyOrder | None = None


@dataclass(frozen=True)
class OverviewWithOrders(Overview):
    """The state of the system, with orders."""

    lines: Sequence[LineWithOrder]


def with_orders(overview: Overview, journal: str) -> OverviewWithOrders:
    """Return the overview of a journal with the remedies of its lines as orders."""
    lines = [_with_order(line, journal) for line in overview.lines]
    return OverviewWithOrders(overview.at, overview.state, lines, overview.last_ended)


def _with_order(line: Line, journal: str) -> LineWithOrder:
    values = {field.name: getattr(line, field.name) for field in fields(line)}
    if line.run is None:
        return LineWithOrder(**values)
    step = step_of(asdict(line.run), journal)
    return LineWithOrder(**values, order=RemedyOrder(step.dag_id, step.fields))
