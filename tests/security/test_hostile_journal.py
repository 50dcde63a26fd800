"""Persistence ids, tags and payloads that somebody has chosen who wants to break in.

Whoever may write events chooses them, and nobody reads them before the applications do.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from tests.integration.project.projections import Projections
from tests.integration.reconcile.test_check import delete_row, view_row
from tests.integration.support import Journal, Result
from tests.integration.tag_write.test_tag_write import (
    comparable,
    expected_tag_views,
    message,
    window,
)
from tests.security.texts import FORGED, TEXTS, raw_controls
from tidemark.cassandra.control import Row

pytestmark = pytest.mark.usefixtures("production")

WINDOW = window(0, 6)
KEPT = """\
/*---
name: kept
version: 1
source: messages
mode: upsert
on-error: skip
target: {keyspace}.kept
event: said STRING
---*/

SELECT persistence_id, sequence_nr, said FROM events
"""
KEPT_TABLE = """\
CREATE TABLE {keyspace}.kept (persistence_id text PRIMARY KEY, sequence_nr bigint, said text)"""


@pytest.fixture(scope="module")
def events() -> list[Row]:
    """Return two events of each text as persistence id, tagged with it, that also say it."""
    return [
        message(text, nr, 0.1 + nr, {text, "all"}, event=json.dumps({"said": text}).encode())
        for text in TEXTS.values()
        for nr in (1, 2)
    ]


@pytest.fixture(scope="module")
def chain(
    make_journals: Callable[..., Journal],
    events: list[Row],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Journal, dict[str, Result]]:
    """Return a journal of these events, and how each application ended on it."""
    directory = tmp_path_factory.mktemp("projections")
    journal = make_journals(
        PROJECTIONS_DIR=str(directory), DATA_DOCS_DIR=str(directory.with_name("docs"))
    )
    Projections(journal, directory).define(KEPT, KEPT_TABLE)
    journal.insert("messages", events)
    journal.insert("all_persistence_ids", [{"persistence_id": text} for text in TEXTS.values()])
    commands: dict[str, tuple[str, ...]] = {
        "tag_write": WINDOW,
        "validate": WINDOW,
        "project": WINDOW,
        "purge": WINDOW,
        "reconcile": ("check", "--all"),
    }
    return journal, {name: journal.run(name, *options) for name, options in commands.items()}


def test_every_application_does_its_work(chain: tuple[Journal, dict[str, Result]]) -> None:
    _, results = chain
    assert {name: (result.status, result.error_lines) for name, result in results.items()} == {
        name: (0, []) for name in results
    }


def test_tag_views_have_every_id_and_tag_as_it_is(
    chain: tuple[Journal, dict[str, Result]], events: list[Row]
) -> None:
    journal, _ = chain
    assert comparable(journal.rows("tag_views")) == comparable(expected_tag_views(events))
    stored = [{**row, "tags": set(row["tags"])} for row in journal.rows("messages")]
    by_key = operator.itemgetter("persistence_id", "sequence_nr")
    present = [{k: v for k, v in row.items() if v is not None} for row in stored]
    assert sorted(present, key=by_key) == sorted(events, key=by_key)


def test_no_text_is_executed(chain: tuple[Journal, dict[str, Result]]) -> None:
    """The shell's texts would make a file in the directory of the process, or in the home."""
    assert chain
    assert [place for place in (Path.cwd(), Path.home()) if (place / "broken_in").exists()] == []


def test_read_models_have_what_was_said(chain: tuple[Journal, dict[str, Result]]) -> None:
    journal, _ = chain
    assert {row["persistence_id"]: row["said"] for row in journal.rows("kept")} == {
        text: text for text in TEXTS.values()
    }


def test_damage_is_told_of_every_id_and_no_text_leaves_its_place(
    chain: tuple[Journal, dict[str, Result]],
) -> None:
    """A terminal is not steered, no line is forged, no page has an element of theirs."""
    journal, _ = chain
    for text in TEXTS.values():
        delete_row(journal, view_row(journal, text, text, 1))
    result = journal.run("validate", *WINDOW, "--force")

    assert result.status == 3
    found = {row["persistence_id"] for row in journal.own_rows("finding")}
    assert found == set(TEXTS.values())
    told = result.stdout + result.stderr
    assert raw_controls(told) == set()
    assert not [line for line in told.splitlines() if line.strip().startswith(FORGED)]
    pages = Path(journal.environment["TIDEMARK_DATA_DOCS_DIR"]).rglob("*.html")
    content = "".join(page.read_text() for page in pages)
    assert "<script>alert" not in content
    assert "<img src=x" not in content
    assert TEXTS["HTML"] in unescape(content)


def test_damage_is_repaired_by_the_same_texts(
    chain: tuple[Journal, dict[str, Result]], events: list[Row]
) -> None:
    journal, _ = chain
    named = [word for text in TEXTS.values() for word in ("--persistence-id", text)]
    result = journal.run("reconcile", "repair", *named, "--apply")
    assert (result.status, result.error_lines) == (0, [])
    assert comparable(journal.rows("tag_views")) == comparable(expected_tag_views(events))
