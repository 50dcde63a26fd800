"""The log of an application: its content and its destination."""

from __future__ import annotations

import logging
import re
from typing import Any, cast

import pytest

from tidemark.application import log
from tidemark.context import RunContext

PASSWORD = "not-for-the-log"


def a_run() -> RunContext:
    anything = cast("Any", None)
    return RunContext("tag-write", anything, anything, "one")


def test_progress_goes_to_standard_error_with_application_and_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with log.on_standard_error("tag-write"):
        a_run().say("writing 100 % of it")
        logging.getLogger("tidemark.ledger.locks").warning("of a module")
    out, err = capsys.readouterr()
    first, second = err.splitlines()
    assert re.fullmatch(r"tag-write    0\.\d s  writing 100 % of it", first)
    assert re.fullmatch(r"tag-write    0\.\d s  of a module", second)
    assert out == ""


def test_nothing_is_logged_twice_when_applications_run_after_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for application in ("tag-write", "validate"):
        with log.on_standard_error(application):
            a_run().say("reading")
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == [
        "tag-write",
        "validate",
    ]


def test_other_libraries_do_not_write_into_it(capsys: pytest.CaptureFixture[str]) -> None:
    with log.on_standard_error("tag-write"):
        logging.getLogger("cassandra.cluster").info("password=%s", PASSWORD)
        logging.getLogger("py4j").info("password=%s", PASSWORD)
    assert PASSWORD not in capsys.readouterr().err


def test_a_record_says_which_module_it_came_from(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, log.LIBRARY):
        a_run().say("reading")
    [record] = caplog.records
    assert (record.name, record.module) == ("tidemark.tag-write", "test_log")
