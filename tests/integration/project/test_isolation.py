"""A definition that cannot be used fails alone, and a table that is not as written is noticed."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.integration.project.projections import (
    LATEST,
    LATEST_TABLE,
    SOME_EVENTS,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    totals,
)
from tests.integration.support import Result
from tests.integration.tag_write.test_tag_write import window
from tidemark.errors import DefinitionError
from tidemark.purge.needs.tag_views import all_needs

HOURS = window(0, 2)


def commands(error: str) -> list[list[str]]:
    """Return the arguments of the commands that an error names, as the shell reads them."""
    return [shlex.split(text)[1:] for text in re.findall(r"`(spark_apps/project.py [^`]*)`", error)]


def statements(shown: Result) -> list[str]:
    return re.findall(r"CREATE TABLE .*?;", "\n".join(shown.report["lines"]), re.DOTALL)


def test_definitions_that_cannot_be_used_fail_alone_and_all_of_them_are_named(
    projections: Projections,
) -> None:
    journal, directory = projections.journal, projections.directory
    projections.define(TOTALS, TOTALS_TABLE)
    projections.define(LATEST, LATEST_TABLE, file="latest.sql")
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    assert projections.run(0, 2, "--projection", "latest").status == 0
    projections.define(LATEST.replace("amount FROM", "-amount AS amount FROM"), file="latest.sql")
    projections.define(TOTALS.replace("totals", "broken").replace("mode:", "m:"), file="broken.sql")
    for file in ("twin.sql", "twin_too.sql"):
        projections.define(TOTALS.replace("name: totals", "name: twin"), file=file)
    misfit = TOTALS.replace("name: totals", "name: misfit").replace("(amount)", "(amuont)")
    projections.define(misfit, file="misfit.sql")
    projections.define(TOTALS.replace("totals", "draft"), file="draft.sql")
    of_files = [
        f"{directory / file}:{line}"
        for file, line in (("broken.sql", 5), ("twin.sql", 2), ("twin_too.sql", 2))
    ]
    changed = f"{directory / 'latest.sql'}:3"

    def named(result: Result, places: list[str]) -> bool:
        pairs = zip(result.error_lines, places, strict=True)
        return all(place in line and "; " in line for line, place in pairs)

    shown = projections.run(0, 2, "--dry-run", "--show")
    assert shown.status == 2
    assert named(shown, [*of_files, changed, "misfit.sql:10:46"]), shown.stderr
    [statement] = statements(shown)
    assert f"CREATE TABLE {journal.keyspace}.draft (" in statement

    result = projections.run(0, 2)
    assert result.status == 2
    places = [*of_files, changed, "draft does not exist", "misfit.sql:10:46"]
    assert named(result, places), result.stderr
    assert result.report["pieces"] == {"planned": 6, "done": 2, "held": 0, "failed": 4}
    assert journal.rows("totals") == totals(SOME_EVENTS)
    assert set(result.report["details"]["projections"]) == {"totals"}
    assert result.report["done_start"] == "2024-03-01T00:00:00Z"

    status = projections.manage("status")
    assert status.status == 2
    assert named(status, of_files), status.stderr
    assert "totals version 1: 2 done, 0 open" in status.stdout
    planned = projections.manage("plan", *HOURS)
    assert planned.status == 2
    assert named(planned, [*of_files, changed]), planned.stderr
    assert named(projections.manage("status", "totals", "twin"), of_files[1:])

    assert projections.run(0, 2, "--projection", "totals").report["state"] == "nothing-to-do"
    settings = journal.settings().model_copy(update={"projections_dir": directory})
    with pytest.raises(DefinitionError, match=r"broken\.sql"):
        all_needs(journal.control, settings)  # What purge must keep is unknown.
    for command in ("status", "pause", "resume", "get-offset", "releases", "clear"):
        good = projections.manage(command, "totals")
        assert good.status == 0, good.stderr


def test_a_table_that_was_dropped_is_an_error_whose_remedy_brings_its_rows_back(
    projections: Projections,
) -> None:
    journal = projections.journal
    projections.define(TOTALS, TOTALS_TABLE)
    projections.define(LATEST, LATEST_TABLE.replace(", note text", ""), file="two.sql")
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1, 2)
    assert projections.run(0, 2).status == 0
    before = {name: journal.rows(name) for name in ("latest", "totals")}
    assert all(before.values())
    for name in before:
        journal.control.execute_ddl(f"DROP TABLE {journal.keyspace}.{name}")

    idle = projections.run(0, 2)
    assert (idle.status, idle.report["state"]) == (3, "failed")
    assert "starting Spark" not in idle.stderr
    lost = idle.error_lines
    for name, line in zip(before, lost, strict=True):
        assert f"{journal.keyspace}.{name} of projection {name} does not exist any more" in line
        assert "2 time buckets of it are done" in line
    # A run with something to do refuses it in the same way.
    assert projections.run(2, 3).error_lines == lost
    status = projections.manage("status")
    assert (status.status, status.error_lines) == (3, lost)
    assert "totals version 1: 2 done, 1 open" in status.stdout

    for name, line in zip(before, lost, strict=True):
        show, force = commands(line)
        assert "2024-03-01T02:00:00Z" in force
        [statement] = statements(projections.manage(*show))
        journal.control.execute_ddl(statement.removesuffix(";"))
        again = projections.manage(*force)
        assert again.status == 0, again.stderr
        assert journal.rows(name) == before[name]
    assert projections.manage("status").status == 0


@pytest.mark.long
def test_the_table_of_a_blue_green_version_is_made_again_by_force(
    projections: Projections,
) -> None:
    journal = projections.journal
    projections.define(TOTALS.replace("event:", "release: blue-green\nevent:"), TOTALS_TABLE)
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    assert projections.run(0, 2).status == 0
    journal.control.execute_ddl(f"DROP TABLE {journal.keyspace}.totals_v1")
    [line] = projections.run(0, 2).error_lines
    [force] = commands(line)
    assert projections.manage(*force).status == 0
    assert journal.rows("totals_v1") == totals(SOME_EVENTS)


def test_verify_finds_time_buckets_with_other_rows_than_were_written(
    projections: Projections,
) -> None:
    journal = projections.journal
    projections.define(TOTALS, TOTALS_TABLE)
    projections.define(LATEST, LATEST_TABLE, file="two.sql")
    projections.insert(*SOME_EVENTS)
    projections.validated(0, 1)
    assert projections.run(0, 2).status == 0
    whole = projections.manage("status", "--verify")
    assert whole.status == 0, whole.stderr
    assert "each time bucket has as many rows as were written" in whole.stdout
    assert "in mode upsert a row does not belong to one time bucket" in whole.stdout

    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.totals WHERE time_bucket = ?",
        (SOME_EVENTS[3].time_bucket,),
    )
    assert projections.manage("status").status == 0
    found = projections.manage("status", "--verify")
    assert found.status == 3
    [line] = found.error_lines
    assert f"1 time bucket of {journal.keyspace}.totals have another number of rows" in line
    assert "2024-03-01T01:00:00Z has 0 rows, 2 were written" in line
    [force] = commands(line)
    assert projections.manage(*force).status == 0
    assert journal.rows("totals") == totals(SOME_EVENTS)
    assert projections.manage("status", "--verify").status == 0
