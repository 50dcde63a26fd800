"""Which worker runs which group: by xdist itself, on a small project."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.scheduling.conftest import Run

Write = Callable[[str, str], Path]

NOTES = """
import os, pathlib

def note(*words):
    with pathlib.Path("notes").open("a") as notes:
        print(os.environ.get("PYTEST_XDIST_WORKER"), *words, file=notes, flush=True)
"""
CONFTEST = f"""{NOTES}
def pytest_sessionfinish():
    note("ended")
"""
NOTING = f"""{NOTES}
import pytest

@pytest.mark.parametrize("number", range(3))
def test_one(number):
    note(__file__)
"""
WAITING_FOR_THE_WAITER = """
import time

def test_the_waiter_has_ended():
    deadline = time.monotonic() + 120
    while "ended" not in pathlib.Path("notes").read_text():
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.05)
"""


def workers(pytester: pytest.Pytester) -> dict[str, list[str]]:
    """Return for each file, from its directory on, the worker of each of its tests."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (pytester.path / "notes").read_text().splitlines():
        worker, file = line.split()
        found["/".join(Path(file).parts[-2:])].append(worker)
    return found


def test_each_group_has_one_worker_and_the_waiter_ends_before_the_others(
    pytester: pytest.Pytester, project: Run, write: Write
) -> None:
    write("conftest.py", CONFTEST)
    for name in ("dags/test_a", "dags/test_b", "live/test_real_time", "unit/test_c", "unit/test_d"):
        write(f"tests/{name}.py", NOTING)
    for name in ("unit/test_y", "unit/test_z"):
        write(f"tests/{name}.py", WAITING_FOR_THE_WAITER + NOTING)
    project("--numprocesses", "3").assert_outcomes(passed=7 * 3 + 2)
    ran = workers(pytester)
    ended = ran.pop("ended")
    assert {file: (len(names), len({*names})) for file, names in ran.items()} == dict.fromkeys(
        ran, (3, 1)
    )
    assert len(ran) == 7
    [waiter] = {*ran["dags/test_a.py"], *ran["dags/test_b.py"], *ran["live/test_real_time.py"]}
    others = {name for file, names in ran.items() if file.startswith("unit/") for name in names}
    assert waiter not in others
    assert ended[0] == waiter


@pytest.mark.parametrize("count", [1, 2])
def test_with_fewer_workers_all_of_them_take_all_groups(
    count: int, pytester: pytest.Pytester, project: Run, write: Write
) -> None:
    for name in ("dags/test_a", "dags/test_b", "unit/test_c", "unit/test_d"):
        write(f"tests/{name}.py", NOTING)
    project("--numprocesses", str(count)).assert_outcomes(passed=4 * 3)
    ran = workers(pytester)
    assert {*ran["dags/test_a.py"]} == {*ran["dags/test_b.py"]}
    assert all(len({*names}) == 1 for names in ran.values())


def test_marks_decide_what_runs(project: Run, write: Write) -> None:
    write(
        "tests/unit/test_marks.py",
        "import pytest\n@pytest.mark.long\ndef test_long(): ...\n"
        "@pytest.mark.soak\ndef test_soak(): ...\ndef test_plain(): ...\n",
    )
    project().assert_outcomes(passed=1, deselected=2)
    project("--long").assert_outcomes(passed=2, deselected=1)
    project("--soak").assert_outcomes(passed=3)
    status = project("--long-status").stdout.str()
    assert "passed" in status
    assert "test_marks.py::test_long" in status
    assert "test_plain" not in status
