"""One Pekko client for the whole run, and journals whose events lie in past time buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.cassandra import Endpoint
from tests.integration.conftest import control, make_journal, make_journals, pool
from tests.integration.support import Journal
from tests.interop import build
from tests.interop.client import Client
from tests.interop.support import Scene

__all__ = ["control", "make_journal", "make_journals", "pool"]


@pytest.fixture(scope="session")
def pekko(state: Path, cassandra: Endpoint) -> Iterator[Client]:
    """The process that holds every Pekko node of this run."""
    log = state / "pekko-client.log"
    with Client.start(build.command(state), cassandra.environment(), log) as client:
        yield client


@pytest.fixture
def make_scene(make_journal: Callable[..., Journal], pekko: Client) -> Iterator[SceneMaker]:
    """Makes a journal with Pekko nodes on it; both are gone when the test has ended."""
    yield from scene_maker(make_journal, pekko)


@pytest.fixture(scope="module")
def make_scenes(make_journals: Callable[..., Journal], pekko: Client) -> Iterator[SceneMaker]:
    """The same for what several tests of a module share."""
    yield from scene_maker(make_journals, pekko)


SceneMaker = Callable[..., Scene]


def scene_maker(make: Callable[..., Journal], pekko: Client) -> Iterator[SceneMaker]:
    """Yield the maker, then close the nodes of what it made."""
    made: list[Scene] = []

    def make_scene(bucket_size: str = "Hour", **settings: str) -> Scene:
        made.append(Scene.create(make(BUCKET_SIZE=bucket_size, **settings), pekko, bucket_size))
        return made[-1]

    yield make_scene
    for scene in made:
        scene.close()
