"""What README and docs give their readers to type, typed in the order of each page.

The pages' keyspaces `pekko`, `flights` and `tidemark` stand for those of the test's journal, which
holds a fortieth of the flights of January 2013 as the demo leaves them.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from examples.flights.source import flights_file
from tests import flights_model
from tests.docs_commands import PAGES, ROOT, blocks, commands
from tests.integration import flights
from tests.integration.support import Journal, Result

WINDOW = ("--window-start", "2013-01-01", "--window-end", "2013-02-01")
AIRCRAFT = "N14228"
"""The aircraft that the pages name."""
PAGE = {page.stem: page for page in PAGES}


@dataclass(frozen=True)
class Shell:
    """A journal, and a directory of definitions, that the pages' commands are run on."""

    journal: Journal
    directory: Path

    def own(self, text: str) -> str:
        """Return a page's text with the test's names for the pages' own."""
        journal, own = self.journal.keyspace, self.journal.own_keyspace
        text = re.sub(r"\b(pekko|flights)\.(?=[a-z_]+\b)", f"{journal}.", text)
        text = re.sub(r"\btidemark\.(?=[a-z_]+\b)", f"{own}.", text)
        return text.replace("include/sql/projections", str(self.directory))

    def type(self, command: str) -> Result:
        """Run an application's command inside this process, and any other as its own."""
        program, *arguments = shlex.split(self.own(command))
        if program.endswith(".py"):
            return self.journal.run(program.removesuffix(".py"), *arguments)
        if program == "make":
            target, *settings = arguments
            given = dict(setting.split("=", 1) for setting in settings)
            # As the target does; its virtual environment is the one that runs the tests.
            command_line = ["-m", "embedded", target, *shlex.split(given.get("ARGS", ""))]
        else:
            command_line = arguments
        ended = subprocess.run(
            [sys.executable, *command_line], capture_output=True, text=True, cwd=ROOT, check=False
        )
        return Result(ended.returncode, ended.stdout, ended.stderr)

    def done(self, command: str) -> Result:
        """Run a command that must end well."""
        result = self.type(command)
        assert result.status == 0, (command, result.stdout, result.stderr)
        return result


@pytest.fixture
def shell(
    request: pytest.FixtureRequest, make_journal: Callable[..., Journal], tmp_path: Path
) -> Shell:
    directory = tmp_path / "projections"
    bucket_size = getattr(request, "param", "Day")
    journal = flights.defined(make_journal, directory, "projections", "examples")
    environment = {
        **journal.environment,
        "TIDEMARK_BUCKET_SIZE": bucket_size,
        "TIDEMARK_SAVE_DIRS": str(tmp_path),
    }
    journal = replace(journal, environment=environment)
    every = flights_model.read_csv(flights_file(), 27_000)
    chosen = [
        flight for place, flight in enumerate(every)
        if place % 40 == 0 or flight["tailnum"] == AIRCRAFT
    ]  # fmt: skip
    events = flights_model.first_months(flights_model.events(chosen), 1)
    journal.insert("messages", [flights.message(event) for event in events])
    for application in ("tag_write", "validate"):
        assert journal.run(application, *WINDOW).status == 0
    return Shell(journal, directory)


@pytest.mark.long
def test_first_projection(shell: Shell) -> None:
    page = PAGE["first-projection"]
    [definition] = blocks(page, "sql")
    [test] = blocks(page, "python")
    shown = ""
    for command in commands(page):
        if command in ("make demo", "make up"):
            continue
        result = shell.done(command)
        if " new late_departures" in command:
            _edit(shell, definition, test)
        if "--show" in command:
            shown = result.stdout[result.stdout.index("CREATE TABLE") :].partition(";")[0]
        if "CREATE TABLE" in command:
            # What the page has one type is what its reader has just been shown.
            typed = re.sub(r"^.*-e \"|\"'$", "", shell.own(command))
            assert _words(typed) == _words(re.sub(r" --.*", "", shown))
        if "SELECT * FROM" in command:
            assert "(3 rows)" in result.stdout
    [pytest_line] = re.findall(
        r"^\.venv/bin/(python -m pytest .*)$", page.read_text(), re.MULTILINE
    )
    assert "1 passed" in shell.done(pytest_line).stdout


def _edit(shell: Shell, definition: str, test: str) -> None:
    """Give the new definition and its test what the page gives them."""
    (shell.directory / "late_departures.sql").write_text(shell.own(definition))
    file = shell.directory / "test_late_departures.py"
    head = file.read_text()
    file.write_text(head[: head.index("def event(")] + test)


def _words(text: str) -> str:
    return "".join(text.split())


@pytest.mark.long
def test_running_projections(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("running-projections", "projections"):
        for command in commands(PAGE[name]):
            if "diff daily@1" in command:
                _release_daily(shell)
            shell.done(re.sub(r"--window-start \.\.\.", " ".join(WINDOW), command))
    [give_up] = [command for command in commands(PAGE["operating"]) if "--give-up" in command]
    (shell.directory / "daily.sql").unlink()
    shell.done(give_up.replace("NAME", "daily"))


def _release_daily(shell: Shell) -> None:
    """Have version 2 of the page's projection `daily` live, and version 1 still there."""
    [text] = blocks(PAGE["first-projection"], "sql")
    text = shell.own(text).replace("late_departures", "daily")
    journal = shell.journal
    journal.control.execute_ddl(
        f"CREATE TABLE {journal.keyspace}.daily (time_bucket bigint, origin text,"
        " departures bigint, late bigint, PRIMARY KEY ((time_bucket), origin))"
    )
    for version in ("1", "2"):
        released = f"version: {version}\nrelease: blue-green\nkey: [time_bucket, origin]"
        (shell.directory / "daily.sql").write_text(text.replace("version: 1", released))
        shell.done(f"project.py --projection daily {' '.join(WINDOW)}")


@pytest.mark.long
@pytest.mark.parametrize("shell", ["Hour"], indirect=True)
def test_tag_views(shell: Shell) -> None:
    for name in ("README", "cluster", "reconcile", "tagging", "troubleshooting"):
        for command in commands(PAGE[name]):
            if command.startswith("make "):
                continue
            if " settle " in command:
                # No reader could read it: it has no payload.
                unreadable = {**flights.message(flights.first_events(1)[0]), "event": None}
                key = {"persistence_id": "Order|9", "sequence_nr": 4711}
                shell.journal.insert("messages", [{**unreadable, **key}])
                refused = shell.type(f"validate.py {' '.join(WINDOW)} --force")
                assert refused.status == 3, refused.stderr
            command = re.sub(r"--window-start … --window-end …|--force$", _with_window, command)
            shell.done(command)


def _with_window(found: re.Match[str]) -> str:
    return " ".join([*WINDOW, *re.findall("--force", found[0])])


def test_statements(shell: Shell) -> None:
    statements = [
        statement
        for page in PAGES
        for block in [*blocks(page, "sql"), *blocks(page, "cql")]
        for statement in re.findall(r"^(?:SELECT|CREATE)[^;]*", block, re.MULTILINE)
        if re.search(r"\b(?:tidemark|pekko)\.", statement)
    ]
    assert len(statements) > 5
    for statement in statements:
        run = (
            shell.journal.control.execute
            if statement.startswith("SELECT")
            else shell.journal.control.execute_ddl
        )
        run(shell.own(statement))
