"""Every option and argument of every application, filled with what is to break out of it.

Each is a run that plans only. Whatever it says of the text: the tables stay as they are, nothing is
executed, and it ends with a report or with one line.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_lines import command_line
from tests.docs_commands import ROOT
from tests.integration.pekko_journals import write_as_pekko
from tests.integration.support import Journal
from tests.integration.tag_write.test_tag_write import message
from tests.integration.test_bad_input import GOOD, contents
from tests.security.texts import FORGED, SENDABLE, TEXTS, raw_controls
from tidemark.cassandra.control import Row

APPLICATIONS = (
    "tag_write",
    "validate",
    "project",
    "purge",
    "reconcile",
    "cleanup",
    "replicate",
    "run_event_groups",
)
IN_MAKE_TEST = ("tag_write", "run_event_groups")
COMPOUND = "|".join(SENDABLE.values())


def calls(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield a call for each option and argument that takes a text; only the text is missing."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from calls(inner, (*words, name))
    names = {parameter.name for parameter in command.params}
    window = GOOD if {"window_start", "window_end"} <= names else ()
    dry = ("--dry-run",) if "dry_run" in names else ()
    required = [
        word
        for parameter in command.params
        if parameter.required and parameter.param_type_name == "option"
        for word in (parameter.opts[0], "1")
    ]
    for parameter in command.params:
        if getattr(parameter, "is_flag", False):
            continue
        is_option = parameter.param_type_name == "option"
        before = parameter.opts[0] if is_option else "--"
        yield (*words, *dry, *required, *window, before)


@pytest.fixture(scope="module")
def journal(
    make_journals: Callable[..., Journal], tmp_path_factory: pytest.TempPathFactory
) -> Journal:
    """Return a journal with work for every application, and files of its own."""
    home = tmp_path_factory.mktemp("home")
    directories = {
        name: str(home / name.lower())
        for name in (
            *("PROJECTIONS_DIR", "CHECKS_DIR", "TAGGING_DIR"),
            *("DATA_DOCS_DIR", "EXPORT_DIR", "SAVE_DIRS"),
        )
    }
    for directory in directories.values():
        Path(directory).mkdir()
    journal = make_journals(**directories)
    write_as_pekko(journal, [message(pid, nr, nr / 10, {"red"}) for pid in "ab" for nr in (1, 2)])
    journal.insert("messages", [message("c", number, 0.5, {"red"}) for number in (1, 2)])
    return journal


@pytest.mark.parametrize(
    "application",
    [
        name if name in IN_MAKE_TEST else pytest.param(name, marks=pytest.mark.long)
        for name in APPLICATIONS
    ],
)
def test_no_option_breaks_out(
    journal: Journal,
    kafka: str,
    application: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before: dict[str, list[Row]] = contents(journal)
    tried = list(calls(command_line(application)))
    assert tried
    wrong: list[tuple[tuple[str, ...], Any]] = []
    singles = itertools.cycle(SENDABLE.values())
    # A number or a name refuses the compound at its first character: a single text comes further.
    for *words, attack in ((*call, text) for call in tried for text in (COMPOUND, next(singles))):
        result = journal.run(application, *words, attack, KAFKA_BOOTSTRAP_SERVERS=kafka)
        told = result.stdout + result.stderr
        is_clean = (
            result.status in (0, 1, 2, 3)
            and "Traceback" not in told
            and len(result.error_lines) <= 1
            and not raw_controls(told)
            and not [line for line in told.splitlines() if line.strip().startswith(FORGED)]
        )
        if not is_clean:
            wrong.append(((*words, attack[:40]), (result.status, told[-600:])))
    assert wrong == []
    assert contents(journal) == before
    assert not (tmp_path / "broken_in").exists()


def test_the_docs_say_how_many_there_are() -> None:
    number = sum(len(list(calls(command_line(name)))) for name in APPLICATIONS)
    page = (ROOT / "docs" / "security.md").read_text()
    assert f"{number} options and arguments of {len(APPLICATIONS)} applications" in page
    assert f"({len(TEXTS)} texts)" in page
