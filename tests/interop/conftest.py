"""Fixtures: a Pekko client for the whole run, and journals with events in past time buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedded.cassandra.server import Endpoint
from embedded.postgres.server import PostgresEndpoint
from tests.integration.conftest import (
    control,
    journal,
    make_journal,
    make_journals,
    pool,
    projections,
    shift_clock,
)
from tests.integration.postgres.databases import new_schema
from tests.integration.support import Journal
from tests.interop import build
from tests.interop.akka import AkkaScene
from tests.interop.client import Client
from tests.interop.support import Scene

__all__ = [
    "control",
    "journal",
    "make_journal",
    "make_journals",
    "pool",
    "projections",
    "shift_clock",
]


@pytest.fixture(scope="session")
def pekko(state: Path, cassandra: Endpoint) -> Iterator[Client]:
    """Yield the process that holds every Pekko node of this run."""
    log = state / "pekko-client.log"
    with Client.start(build.PEKKO.command(state), cassandra.environment(), log) as client:
        yield client


@pytest.fixture(scope="session")
def akka(state: Path, postgres: PostgresEndpoint) -> Iterator[Client]:
    """Yield the process that holds every Akka node of this run."""
    log = state / "akka-client.log"
    with Client.start(build.AKKA.command(state), postgres.environment(), log) as client:
        yield client


@pytest.fixture
def akka_scene(
    akka: Client, postgres: PostgresEndpoint, request: pytest.FixtureRequest
) -> Iterator[AkkaScene]:
    """Yield an empty journal in PostgreSQL, and an Akka node on it, which end with the test.

    The parameter of the test has further settings of the application.
    """
    with new_schema(postgres) as database:
        scene = AkkaScene.create(database, akka, getattr(request, "param", {}))
        yield scene
        scene.node.close()


@pytest.fixture
def make_scene(make_journal: Callable[..., Journal], pekko: Client) -> Iterator[SceneMaker]:
    """Yield a maker of journals with Pekko nodes on them, which disappear with the test."""
    yield from scene_maker(make_journal, pekko)


@pytest.fixture(scope="module")
def make_scenes(make_journals: Callable[..., Journal], pekko: Client) -> Iterator[SceneMaker]:
    """Yield a maker of scenes that several tests of a module share."""
    yield from scene_maker(make_journals, pekko)


SceneMaker = Callable[..., Scene]


def scene_maker(make: Callable[..., Journal], pekko: Client) -> Iterator[SceneMaker]:
    """Yield a maker of scenes, then close the nodes of the scenes that it made."""
    made: list[Scene] = []

    def make_scene(bucket_size: str = "Hour", **settings: str) -> Scene:
        made.append(Scene.create(make(BUCKET_SIZE=bucket_size, **settings), pekko, bucket_size))
        return made[-1]

    yield make_scene
    for scene in made:
        scene.close()
