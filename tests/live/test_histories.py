"""Weeks of a live journal, generated from seeds.

`LIVE_SEED=17 LIVE_HISTORIES=1 pytest tests/live/test_histories.py --soak` plays one history.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.support import Journal
from tests.live.generator import history_of, profile_of
from tests.live.play import play

FIRST = int(os.environ.get("LIVE_SEED", "1000"))
COUNT = int(os.environ.get("LIVE_HISTORIES", "200"))
INTERVALS = int(os.environ.get("LIVE_INTERVALS", "20"))


@pytest.mark.parametrize(
    ("seed", "intervals"),
    [
        # Has deletes, and somebody who writes within a run.
        (10, 1),
        # These found a defect.
        pytest.param(3, 3, marks=pytest.mark.long),
        pytest.param(5, 3, marks=pytest.mark.soak),
    ],
)
def test_short_history(
    seed: int, intervals: int, make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    play(profile_of(seed), history_of(seed, intervals), make_journal(), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_long_history(seed: int, make_journal: Callable[..., Journal], tmp_path: Path) -> None:
    play(profile_of(seed), history_of(seed, INTERVALS), make_journal(), tmp_path)
