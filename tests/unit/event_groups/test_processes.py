"""What is said of a function whose process ends, or that gives no answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tidemark.event_groups.external.processes import Functions
from tidemark.event_groups.failure import EventFailed

PATIENCE_S = 60
ENDS = """
import os
import signal
import sys
import time


def leaves(_):
    sys.exit()


def leaves_with_a_reason(_):
    sys.exit("not today")


def dies(_):
    os._exit(7)


def is_killed(_):
    os.kill(os.getpid(), signal.SIGKILL)


def sleeps(_):
    time.sleep(600)


def closes_its_answers(_):
    os.closerange(3, 9)
    time.sleep(600)
"""


@pytest.fixture
def functions(tmp_path: Path) -> Iterator[Functions]:
    """Yield functions that do not return, and a module that cannot be imported."""
    (tmp_path / "ends.py").write_text(ENDS)
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(3)\n\ndef of(_):\n    pass\n")
    with closing(Functions(lambda: {tmp_path: ""})) as made:
        yield made


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ends:leaves", "has ended its process with exit status 0, as sys.exit() does"),
        ("ends:leaves_with_a_reason", "has ended its process with exit status 1"),
        ("ends:dies", "has ended its process with exit status 7"),
        ("ends:is_killed", "has not answered: signal 9 (Killed) has ended its process"),
        ("leaving:of", "has ended its process with exit status 3"),
    ],
)
def test_the_end_of_a_process_is_told_from_a_missing_answer(
    functions: Functions, name: str, says: str
) -> None:
    for _ in range(2):
        with pytest.raises(EventFailed) as failed:
            functions.call(name, "null", PATIENCE_S)
        assert str(failed.value).startswith(f"{name} {says}")


def test_a_function_that_does_not_end_has_not_answered_in_time(functions: Functions) -> None:
    functions.require("ends:sleeps", PATIENCE_S)
    with pytest.raises(EventFailed) as failed:
        functions.call("ends:sleeps", "null", 1)
    assert str(failed.value) == "ends:sleeps has not answered within 1 s"


def test_a_function_that_closes_what_it_answers_with_is_not_waited_for(
    functions: Functions,
) -> None:
    with pytest.raises(EventFailed, match="it has closed the files of its process"):
        functions.call("ends:closes_its_answers", "null", PATIENCE_S)
