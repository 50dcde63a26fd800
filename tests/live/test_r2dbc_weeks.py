"""Weeks of a live journal in PostgreSQL, generated from seeds.

`LIVE_SEED=17 LIVE_HISTORIES=1 pytest tests/live/test_r2dbc_weeks.py --soak` plays one history.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from embedded.postgres.server import PostgresEndpoint
from tests.integration.postgres.databases import new_schema
from tests.integration.postgres.r2dbc_journal import R2dbcJournal
from tests.integration.support import Journal
from tests.live.r2dbc_week import Week

FIRST = int(os.environ.get("LIVE_SEED", "1000"))
COUNT = int(os.environ.get("LIVE_HISTORIES", "200"))
RUNS = int(os.environ.get("LIVE_INTERVALS", "20"))


def play(
    seed: int,
    runs: int,
    make_journal: Callable[..., Journal],
    postgres: PostgresEndpoint,
    directory: Path,
) -> None:
    with new_schema(postgres) as database:
        plugin = R2dbcJournal(database, (1, 4)[seed % 2])
        plugin.create()
        week = Week(seed, plugin, make_journal(**_settings(plugin)), directory)
        try:
            week.play(runs)
        except Exception as broken:
            broken.add_note("\n".join([f"seed {seed}", *week.seen]))
            raise


def _settings(plugin: R2dbcJournal) -> dict[str, str]:
    return {name.removeprefix("TIDEMARK_"): value for name, value in plugin.variables().items()}


@pytest.mark.parametrize(
    ("seed", "runs"),
    [
        (1, 2),
        pytest.param(2, 4, marks=pytest.mark.long),
        pytest.param(3, 4, marks=pytest.mark.long),
        pytest.param(4, 8, marks=pytest.mark.soak),
    ],
)
def test_short_week(
    seed: int,
    runs: int,
    make_journal: Callable[..., Journal],
    postgres: PostgresEndpoint,
    tmp_path: Path,
) -> None:
    play(seed, runs, make_journal, postgres, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_long_week(
    seed: int, make_journal: Callable[..., Journal], postgres: PostgresEndpoint, tmp_path: Path
) -> None:
    play(seed, RUNS, make_journal, postgres, tmp_path)
