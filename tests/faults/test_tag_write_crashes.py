"""tag-write killed with SIGKILL after each kind of write, then run again: byte-equal tables."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.support import ROOT, Journal, wait_until
from tests.integration.test_tag_write import a_small_journal, window

CRASH = Path(__file__).parent / "crash.py"
SCRIPT = str(ROOT / "spark_apps" / "tag_write.py")
BOUNDARIES = [
    "tidemark.tagging.layout:record_bucket_size",
    "tidemark.tagging.store:write_tag_views",
    "tidemark.tagging.store:write_progress",
    "tidemark.tagging.store:write_scanning",
]


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_killed_after_a_write_and_run_again(
    make_journal: Callable[..., Journal], boundary: str
) -> None:
    undisturbed, killed = make_journal(), make_journal(LOCK_TTL="5")
    for journal in (undisturbed, killed):
        journal.insert("messages", a_small_journal())
    assert undisturbed.run("tag_write", *window(0, 6)).status == 0

    process = killed.start(CRASH, boundary, SCRIPT, *window(0, 6))
    assert process.wait() == -signal.SIGKILL
    assert {row["state"] for row in killed.own_rows("piece")} == {"running"}
    wait_until("the dead run's locks to expire", lambda: not killed.own_rows("lock"))

    again = killed.run("tag_write", *window(0, 6))
    assert again.status == 0, again.stderr
    assert killed.tag_tables() == undisturbed.tag_tables()
    assert {row["state"] for row in killed.own_rows("piece")} == {"done"}
