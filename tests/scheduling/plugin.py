"""A plugin of pytest: which tests run, in which order, and on which worker.

`tests/conftest.py` loads it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.workermanage import WorkerController

from tests.scheduling import affected, turns
from tests.scheduling.plan import file_of, place, room
from tests.scheduling.workers import Groups

_AFFECTED = pytest.StashKey[affected.Choice]()
_STATUS = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that `make test`, `make long` and `make soak` set."""
    parser.addoption("--long", action="store_true", help="also run the tests marked long")
    parser.addoption("--half", action="store_true", help="mark half of tests/integration as long")
    parser.addoption("--soak", action="store_true", help="also run those marked long or soak")
    parser.addoption("--share", action="store_true", help="run this commit's share of those")
    parser.addoption("--long-status", action="store_true", help="show when those last ran here")
    parser.addoption(
        "--affected", metavar="COMMIT", help="only test files that changes since COMMIT can break"
    )


def pytest_configure(config: pytest.Config) -> None:
    """With --affected choose the test files: once, as it takes seconds; workers are told."""
    commit = config.getoption("affected")
    if commit is None:
        return
    if _is_worker(config):
        chosen, left_out = config.workerinput["affected"]  # type: ignore[attr-defined]
        config.stash[_AFFECTED] = affected.Choice(frozenset(chosen), frozenset(left_out))
        return
    try:
        changed = affected.changed_since(commit, config.rootpath)
        dependencies = affected.Dependencies(affected.read(config.rootpath, changed))
    except ValueError as error:
        raise pytest.UsageError(f"--affected: {error}") from error
    config.stash[_AFFECTED] = affected.choose(changed, dependencies)


def pytest_configure_node(node: WorkerController) -> None:
    """Tell a worker which test files are chosen."""
    if choice := node.config.stash.get(_AFFECTED, None):
        node.workerinput["affected"] = [sorted(choice.chosen), sorted(choice.left_out)]


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say which test files are left out."""
    choice = config.stash.get(_AFFECTED, None)
    return [*choice.lines()] if choice else []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import the test files that are left out."""
    choice = config.stash.get(_AFFECTED, None)
    if choice is None or not collection_path.is_relative_to(config.rootpath):
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    return True if name in choice.left_out else None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    """Use `Groups` with `--numprocesses`, instead of the scheduler that `--dist` names."""
    # By default xdist begins with the groups of many tests, and those tests are short.
    config.option.loadscopereorder = False
    return Groups(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests in order, and leave out those marked long or soak unless an option wants them.

    With --half, half of the integration tests are long as well: those that ran at the commit before
    are, and at the next one the others.
    """
    items.sort(key=lambda item: place(item.nodeid))
    if config.getoption("long_status"):
        config.stash[_STATUS] = turns.status(items, turns.kept(_state()))
        items.clear()
        return
    commit = turns.commits() if config.getoption("half") or config.getoption("share") else 0
    if config.getoption("half"):
        for item in items:
            function = turns.function_of(item)
            if room(function) == "integration" and not turns.is_turn(function, commit, 2):
                item.add_marker("long")
    marks = {"soak"} if config.getoption("long") else turns.LEFT_OUT
    choice = config.stash.get(_AFFECTED, None)

    def runs(item: pytest.Item) -> bool:
        # Files that the command names are collected in any case.
        if choice is not None and file_of(item.nodeid) in choice.left_out:
            return False
        if config.getoption("soak"):
            return True
        if config.getoption("share"):
            is_turn = turns.is_turn(turns.function_of(item), commit, turns.SHARES)
            return is_turn and turns.is_left_out(item)
        return not turns.is_left_out(item, marks)

    chosen = [(item, runs(item)) for item in items]
    config.hook.pytest_deselected(items=[item for item, is_chosen in chosen if not is_chosen])
    items[:] = [item for item, is_chosen in chosen if is_chosen]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note when the tests ran that `make test` leaves out."""
    turns.note(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how to repeat what has failed, or when tests last ran."""
    lines = terminalreporter.config.stash.get(_STATUS, [])
    for line in [*lines, *turns.repeats(terminalreporter.getreports("failed"))]:
        terminalreporter.write_line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep when the tests ran that `make test` leaves out."""
    if not _is_worker(session.config):
        turns.keep(_state())


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _state() -> Path:
    """Return the state directory of the tests; `tests/conftest.py` sets it."""
    return Path(os.environ["TIDEMARK_STATE"])
