"""What --dry-run --show tells somebody who writes a first definition."""

from __future__ import annotations

import pytest

from tests.integration.project.projections import SOME_EVENTS, TOTALS, TOTALS_TABLE, Projections


def shown(projections: Projections, definition: str, *, table: str | None = TOTALS_TABLE) -> str:
    projections.define(definition, table)
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 2)
    result = projections.run(0, 2, "--dry-run", "--show")
    assert result.status == 0, result.stderr
    return result.stdout


def test_works_before_there_is_a_target_and_prints_the_statement_that_makes_it(
    projections: Projections,
) -> None:
    text = shown(projections, TOTALS, table=None)
    journal = projections.journal
    start = text.index("CREATE TABLE")
    statement = text[start : text.index(";", start)]
    assert f"{journal.keyspace}.totals does not exist yet; this makes it" in text
    journal.control.execute_ddl(statement)
    assert journal.control.primary_key(journal.keyspace, "totals") == (["time_bucket"], ["kind"])
    assert projections.run(0, 2).status == 0


@pytest.mark.long
def test_without_it_a_missing_target_is_still_refused(projections: Projections) -> None:
    projections.define(TOTALS, None)
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    refused = projections.run(0, 1, "--dry-run")
    assert refused.status == 3
    assert "`project.py --dry-run --show` prints the statement" in refused.stderr


@pytest.mark.long
def test_doubtful_fields_and_tags_are_named(projections: Projections) -> None:
    misspelt = TOTALS.replace("[red, blue]", "[red, blue, bleu]")
    text = shown(
        projections, misspelt.replace("event: kind STRING", "event: kind STRING, knd STRING")
    )
    assert "the field knd is null in the whole sample: is it spelt as in the payload?" in text
    assert "the field kind is null" not in text
    assert "no event has the tag bleu" in text
    assert "the tag red" not in text


@pytest.mark.long
def test_field_whose_type_the_payloads_do_not_fit_is_named(projections: Projections) -> None:
    wrong = TOTALS.replace("kind STRING, amount INT", "kind INT, amount INT")
    text = shown(projections, wrong, table=None)
    assert "whose fields have the declared types: kind is not INT\n" in text


CALLS = """\
from tidemark.projection import projection


@projection(name="calls", version=1, source="messages", mode="fold", target="{keyspace}.calls",
            event="kind STRING", state="calls INT")
def count(state, events):
    return {"calls": (state or {"calls": 0})["calls"] + 1}
"""


def test_a_result_that_depends_on_how_runs_are_divided_is_told(projections: Projections) -> None:
    columns = "persistence_id text PRIMARY KEY, sequence_nr bigint, calls int"
    projections.define(CALLS, f"CREATE TABLE {{keyspace}}.calls ({columns})", "calls.py")
    text = shown(projections, TOTALS)
    assert "the result depends on how runs are divided: the state of a|1 is" in text
