"""SQL expressions of definitions and event groups that look at what is none of their rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.event_groups.test_many import each, executed, shop, submit, wanted
from tests.integration.project.projections import Projections, event
from tests.integration.support import Journal
from tests.security.test_hostile_journal import KEPT, KEPT_TABLE
from tidemark.cassandra.schema import table
from tidemark.event_groups.definition import result_sql

__all__ = ["shop"]
pytestmark = pytest.mark.usefixtures("production")

VARIABLES = (
    "${spark.cassandra.auth.password}",
    "${sparkconf:spark.cassandra.auth.password}",
    "${env:PATH}",
    "${system:user.home}",
)
"""What Spark puts the value in place of, by default, before it reads a statement."""
CALLS = (
    "java_method('java.lang.System', 'getenv', 'PATH')",
    "reflect('java.lang.System', 'getProperty', 'user.home')",
    "try_reflect('java.lang.System', 'exit', 1)",
)
FILES = (
    "(SELECT max(value) FROM text.`/etc/passwd`)",
    "(SELECT max(content) FROM binaryFile.`/etc/passwd`)",
)


SCRIPT = "(SELECT max(o) FROM (SELECT TRANSFORM('x') USING 'touch {place}' AS (o STRING)))"
"""Spark starts a shell for it."""


def test_variables_are_text_in_definitions(projections: Projections) -> None:
    for number, variable in enumerate(VARIABLES):
        projections.define(
            KEPT.replace("kept", f"kept_{number}").replace(
                "sequence_nr, said", f"sequence_nr, '{variable}' AS said"
            ),
            KEPT_TABLE.replace("kept", f"kept_{number}"),
            f"kept_{number}.sql",
        )
    projections.insert(event("p", 1, 0.5, said="x"))
    projections.validated(0)
    result = projections.run(0, 1)
    assert result.status == 0, result.stderr
    assert [
        row["said"]
        for number in range(len(VARIABLES))
        for row in projections.journal.rows(f"kept_{number}")
    ] == list(VARIABLES)


def test_variables_are_text_in_groups(shop: Journal, tmp_path: Path) -> None:
    wanted(shop, 4)
    for number, variable in enumerate(VARIABLES):
        text = each("update").replace(
            "{event: read, as: v}", f"{{event: read, as: v, sql: \"'{variable}'\"}}"
        )
        executed(shop, tmp_path, text.replace("group: ", f"group: n{number}-"))
        assert {row["a"] for row in shop.rows("item")} == {variable}


@pytest.mark.parametrize("expression", [*CALLS, *FILES, SCRIPT])
def test_expression_over_many_rows_is_refused(
    shop: Journal, tmp_path: Path, expression: str
) -> None:
    wanted(shop, 4)
    text = each("update").replace(
        "{event: read, as: v}", f'{{event: read, as: v, sql: "{expression}"}}'
    )
    result = submit(shop, tmp_path, text)
    assert result.status == 2, result.stdout
    [line] = result.error_lines
    assert "0.yaml" in line
    assert shop.own_rows("event_group") == []


def test_expression_of_a_group_stored_by_somebody_else_is_rejected(
    shop: Journal, tmp_path: Path
) -> None:
    """Whoever may write Tidemark's keyspace need not submit a group."""
    wanted(shop, 4)
    place = tmp_path / "broken_in"
    text = each("update").replace(
        "{event: read, as: v}", "{event: read, as: v, sql: \"'harmless'\"}"
    )
    assert submit(shop, tmp_path, text).status == 0
    [group] = shop.own_rows("event_group")
    assert "'harmless'" in group["definition"]
    shop.control.execute(
        f"UPDATE {table(shop.own_keyspace, 'event_group')} SET definition = ?"
        " WHERE stream = ? AND id = ?",
        (
            group["definition"].replace("'harmless'", SCRIPT.format(place=place)),
            group["stream"],
            group["id"],
        ),
    )
    result = shop.run("run_event_groups")
    assert result.status != 0
    assert "a subquery in an expression is not allowed" in result.stdout + result.stderr
    assert not place.exists()
    assert shop.rows("item") == []


@pytest.mark.parametrize(
    "expression",
    [
        "(SELECT max(content) FROM read_text('/etc/passwd'))",
        "(SELECT count(*) FROM '/etc/passwd')",
        "(SELECT max(column0) FROM read_csv('http://127.0.0.1:1/'))",
        "getenv('PATH')",
        "(SELECT count(*) FROM rows)",
        "(SELECT count(*) FROM names)",
        "1) FROM result; COPY result TO '/tmp/broken_in'; SELECT (1",
        "(SELECT 1 FROM range(100000000000) WHERE range = -1)",
    ],
)
def test_expression_over_one_row_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        result_sql.evaluate(expression, [{"a": 1}], 30)


@pytest.mark.parametrize("variable", VARIABLES)
def test_variables_are_text_over_one_row(variable: str) -> None:
    assert result_sql.evaluate(f"'{variable}'", [{"a": 1}], 30) == [variable]
