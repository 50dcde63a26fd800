"""The alert rules and the dashboard that are shipped: valid, and over figures that are exported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from tests.repository import REPOSITORY
from tidemark.observations.metrics import METRICS, PREFIX
from tidemark_airflow.timetables import OBSERVE_MINUTES

DIRECTORY = REPOSITORY / "include" / "monitoring"
LABELS = {PREFIX + metric.name: {"journal", *metric.labels} for metric in METRICS}
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DIRECTORY / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((DIRECTORY / "dashboard.json").read_text())
TARGETS: list[tuple[str, str]] = [
    (target["expr"], target["legendFormat"])
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]
IN_TEXT = re.compile(r"{{ *(?:\$labels\.)?(\w+) *}}")
"""The labels that a text of a rule or of a legend names."""


def selectors(expression: Any) -> Iterator[promql_parser.VectorSelector]:
    """Yield the figures that an expression reads."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for name in ("lhs", "rhs", "expr"):
        if (part := getattr(expression, name, None)) is not None:
            yield from selectors(part)
    for part in getattr(expression, "args", ()):
        yield from selectors(part)


def parsed(expression: str) -> Any:
    """Return the tree of an expression; a ValueError if it is none."""
    return promql_parser.parse(expression)


def labels_of(expression: Any) -> set[str]:
    """Return the labels by which an expression joins or sums."""
    modifier = getattr(expression, "modifier", None)
    matching = getattr(modifier, "matching", modifier)
    return set(getattr(matching, "labels", ()))


@pytest.mark.parametrize(
    ("expression", "text"),
    [(rule["expr"], json.dumps(rule["annotations"])) for rule in RULES] + TARGETS,
)
def test_an_expression_reads_only_figures_and_labels_that_are_exported(
    expression: str, text: str
) -> None:
    tree = parsed(expression)
    read = list(selectors(tree))
    assert read, expression
    for selector in read:
        assert selector.name in LABELS
        assert {matcher.name for matcher in selector.matchers.matchers} <= LABELS[
            str(selector.name)
        ]
    common = set.union(*(LABELS[str(selector.name)] for selector in read))
    assert labels_of(tree) <= common
    assert set(IN_TEXT.findall(text)) <= common


def test_every_figure_is_on_the_dashboard() -> None:
    read = {
        selector.name for expression, _ in TARGETS for selector in selectors(parsed(expression))
    }
    left_out = {PREFIX + "projection_oldest_gap_timestamp_seconds"}
    assert read | left_out == set(LABELS)


def test_a_missing_observation_alarms_after_twice_the_cadence_and_if_there_is_none() -> None:
    [rule] = [rule for rule in RULES if rule["alert"] == "TidemarkNotObserved"]
    either = parsed(rule["expr"])
    assert str(either.op) == "or"
    assert either.lhs.func.name == "absent"
    [figure] = selectors(either.lhs)
    assert figure.name == PREFIX + "observed_timestamp_seconds"
    assert either.rhs.rhs.val == 2 * OBSERVE_MINUTES[1] * 60
    assert "for" not in rule


def test_rules_have_names_of_their_own_and_texts_for_people() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert {"summary", "description"} == set(rule["annotations"])
        assert rule["labels"]["severity"] in ("info", "warning", "critical")


def test_panels_do_not_overlap_and_use_the_chosen_source() -> None:
    cells = [
        (place["x"] + across, place["y"] + down)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for across in range(place["w"])
        for down in range(place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(across for across, _ in cells) < 24
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]} == {"${datasource}"}
    names = [variable["name"] for variable in DASHBOARD["templating"]["list"]]
    assert names == ["datasource", "journal"]
