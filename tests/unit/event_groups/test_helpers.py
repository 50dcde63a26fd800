"""Helpers of groups: one that cannot start, raises or dies is noticed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tidemark.event_groups.external.processes import Functions
from tidemark.event_groups.failure import EventFailed

HELPERS = """
import os, time
from pathlib import Path

def serves(asked):
    (Path(__file__).parent / "pid").write_text(str(os.getpid()))
    time.sleep(60)

def returns(asked):
    return "x" * 100_000

def raises(asked):
    raise ValueError(f"no port for {asked['group']}")

def leaves(asked):
    os._exit(3)
"""


@pytest.fixture
def functions(tmp_path: Path) -> Iterator[Functions]:
    """Yield what calls functions in a directory of modules."""
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n\ndef helps(x): pass\n")
    with closing(Functions(lambda: {tmp_path: ""})) as made:
        yield made


def within(seconds: float, condition: Callable[[], object]) -> bool:
    """Return whether a condition becomes true in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(condition())


@pytest.mark.parametrize(
    ("name", "why"),
    [("broken:helps", "No module named"), ("helpers:nothing", "has no `def nothing`")],
)
def test_a_helper_that_cannot_be_imported_is_a_failure(
    functions: Functions, name: str, why: str
) -> None:
    with pytest.raises(EventFailed, match=f"the helper {name}: .*{why}"):
        functions.start_helper(name, "{}")


def test_a_helper_that_raises_or_dies_is_noticed(functions: Functions, tmp_path: Path) -> None:
    functions.start_helper("helpers:returns", "{}")
    functions.start_helper("helpers:serves", "{}")
    assert within(20, (tmp_path / "pid").exists)
    assert functions.helper_failure() == ""
    functions.start_helper("helpers:raises", '{"group": "g"}')
    assert within(20, functions.helper_failure)
    why = functions.helper_failure()
    assert why.startswith("the helper helpers:raises: ValueError: no port for g (helpers.py:")
    assert functions.helper_failure() == why


@pytest.mark.parametrize("name", ["serves", "leaves"])
def test_a_helper_whose_process_ends_is_noticed(
    functions: Functions, tmp_path: Path, name: str
) -> None:
    functions.start_helper(f"helpers:{name}", "{}")
    if name == "serves":
        pid = tmp_path / "pid"
        assert within(20, lambda: pid.exists() and pid.read_text())
        assert functions.helper_failure() == ""
        os.kill(int(pid.read_text()), signal.SIGKILL)
    assert within(20, functions.helper_failure)
    assert functions.helper_failure() == f"the process of the helper helpers:{name} has ended"
