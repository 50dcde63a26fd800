"""The plan of groups: which tests run together, and which begin first."""

from __future__ import annotations

from tests.repository import REPOSITORY
from tests.scheduling.plan import BEGUN_FIRST, ROOMS, SHARING, WAITING, group, place


def test_every_directory_of_tests_has_its_place() -> None:
    tests = REPOSITORY / "tests"
    rooms = {file.relative_to(tests).parts[0] for file in tests.rglob("test_*.py")}
    assert rooms == {*ROOMS}


def test_files_that_the_plan_names_exist() -> None:
    files = {*BEGUN_FIRST, *WAITING} - {*SHARING}
    assert {file for file in files if not (REPOSITORY / file).is_file()} == set()


def test_tests_that_share_a_server_are_one_group_and_otherwise_those_of_a_file() -> None:
    assert group("tests/dags/test_a.py::one") == group("tests/dags/test_b.py::Two::two[x::y]")
    assert group("tests/dags/test_a.py::one") != group("tests/interop/test_a.py::one")
    assert group("tests/unit/project/test_a.py::Some::one[x::y]") == "tests/unit/project/test_a.py"


def test_tests_are_sorted_by_directory_and_then_by_what_begins_first() -> None:
    nodeids = [
        "tests/unit/test_words.py::a",
        "tests/unit/test_flights.py::a",
        "tests/live/test_defects.py::a",
        "tests/dags/test_access.py::a",
        "tests/dags/test_chain.py::a",
        "tests/unit/test_clock.py::a",
    ]
    assert [name.partition("::")[0] for name in sorted(nodeids, key=place)] == [
        "tests/dags/test_chain.py",
        "tests/dags/test_access.py",
        "tests/live/test_defects.py",
        "tests/unit/test_flights.py",
        "tests/unit/test_words.py",
        "tests/unit/test_clock.py",
    ]
