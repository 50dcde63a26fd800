"""Short histories, each of which once showed a defect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.support import Journal
from tests.live.play import play
from tests.live.steps import (
    Cleanup,
    Delete,
    History,
    Mend,
    Miss,
    Pass,
    Persist,
    Refused,
    Run,
    Within,
)
from tests.live.world import Profile

HOUR, DAY = 3600.0, 86400.0
PEKKO = Profile(tags_by_pekko=True)
TIDEMARK = Profile(tags_by_pekko=False)
SUMS = Profile(tags_by_pekko=True, models=("sums",))

HISTORIES: dict[str, tuple[Profile, History]] = {
    "a day on which Airflow was down is made good": (
        TIDEMARK,
        (Persist("a|1"), Run(), Persist("a|1"), Miss(), Pass(HOUR), Persist("a|1"), Run()),
    ),
    "an interval that was refused is made good": (
        TIDEMARK,
        (Persist("a|1"), Run(), Persist("a|1"), Refused(), Persist("a|1"), Run()),
    ),
    "an event of the last hour of the day is not accused": (
        TIDEMARK,
        (Persist("a|1"), Run(), Persist("a|1"), Pass(23.5 * HOUR), Persist("a|1"), Run()),
    ),
    "an actor that deletes what was not seen yet contradicts nothing": (
        PEKKO,
        (
            Persist("a|1", count=25),
            Run(),
            Persist("a|1", count=15),
            Delete("a|1", keep=5),
            Run(),
            Run(),
        ),
    ),
    "messages that are deleted while tag-write works change no numbers": (
        TIDEMARK,
        tuple(
            step
            for seam in (3, 4, 5, 6)
            for step in (
                Persist(f"a|{seam}", count=30),
                Within("tag_write", seam, Delete(f"a|{seam}", keep=10)),
                Run(),
            )
        ),
    ),
    "a bucket that waits for an event of tomorrow is not made of what is left of it": (
        SUMS,
        (
            Pass(10 * HOUR),
            Persist("a|1"),
            Persist("a|1", skew=20 * HOUR),
            Persist("a|1"),
            Persist("b|1", count=3),
            Run(),
            Delete("b|1", consumed=True),
            Run(),
        ),
    ),
    "an event of tomorrow under a tag is no gap in it today": (
        TIDEMARK,
        (Persist("a|1"), Persist("a|1", skew=20 * HOUR), Persist("a|1"), Run(), Run()),
    ),
    "what the first run of all was refused is the next one's": (
        TIDEMARK,
        (Persist("a|1"), Refused(), Persist("a|1"), Run()),
    ),
    "repair takes nothing of an actor that is gone for good": (
        TIDEMARK,
        (Persist("a|1", count=3), Persist("b|1"), Run(), Run(), Cleanup("a|1"), Run(), Mend()),
    ),
}


SAMPLE = "a day on which Airflow was down is made good"
"""The history that `make long` plays; `make soak` plays all, `make test` a random one."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=pytest.mark.long if one == SAMPLE else pytest.mark.soak)
        for one in HISTORIES
    ],
)
def test_history_that_once_broke(
    name: str, make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    profile, history = HISTORIES[name]
    play(profile, history, make_journal(), tmp_path)
