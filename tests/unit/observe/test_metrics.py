"""The figures as OpenMetrics text, by the parser of Prometheus' own client."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.openmetrics import families
from tidemark.observations.metrics import (
    METRICS,
    PREFIX,
    Observation,
    Sample,
    openmetrics,
    series,
)

AT = datetime(2026, 11, 30, tzinfo=UTC)
DOCS = Path(__file__).resolve().parents[3] / "docs" / "operating.md"
SAMPLES = st.lists(
    st.sampled_from(METRICS).flatmap(
        lambda metric: st.builds(
            Sample,
            st.just(metric.name),
            st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]))] * len(metric.labels)),
            st.floats(allow_nan=False, allow_infinity=False),
        )
    ),
    max_size=20,
    unique_by=lambda sample: sample[:2],
)


@given(SAMPLES)
def test_the_text_has_every_figure_once_as_the_parser_of_prometheus_reads_it(
    samples: list[Sample],
) -> None:
    text = openmetrics(Observation("pekko", AT, samples))
    labels = {metric.name: ("journal", *metric.labels) for metric in METRICS}
    read_families = families(text).values()
    assert {(family.type, family.name) for family in read_families} == {
        ("gauge", PREFIX + sample.name) for sample in samples
    }
    assert all(family.documentation for family in read_families)
    read = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in read_families
        for sample in family.samples
    }
    assert read == {
        (
            PREFIX + sample.name,
            tuple(sorted(zip(labels[sample.name], ("pekko", *sample.labels), strict=True))),
        ): sample.value
        for sample in samples
    }


def test_without_an_observation_the_text_is_empty_and_valid() -> None:
    assert families(openmetrics(None)) == {}


def test_a_series_is_the_figure_with_its_labels() -> None:
    assert (
        series("pekko", "topic_partition_held_records", 'a"b', "3")
        == 'tidemark_topic_partition_held_records{journal="pekko",topic="a\\"b",partition="3"}'
    )


def test_the_docs_list_every_figure_with_its_labels_and_what_it_is() -> None:
    rows = re.findall(
        r"^\| `tidemark_(\w+)` \| ([^|]*) \| ([^|]*) \|$", DOCS.read_text(), re.MULTILINE
    )
    assert rows == [
        (metric.name, ", ".join(f"`{label}`" for label in metric.labels) or "-", metric.help)
        for metric in METRICS
    ]
