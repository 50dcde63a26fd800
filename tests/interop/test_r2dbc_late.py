"""Events that the real plugin commits long after their time, before and after runs of Tidemark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.project import fold_books
from tests.integration.project.fold_books import fold
from tests.integration.project.projections import START, Projections
from tests.integration.support import wait_until
from tests.interop.akka import AkkaScene
from tests.interop.client import PekkoError
from tests.interop.test_r2dbc_source import folded, move, moves, over_akka, run
from tidemark import clock

__all__ = ["over_akka"]

HOUR_S = 3600
LOCK = 47
CLOSE_CALLS = "akka.persistence.r2dbc.connection-factory.close-calls-exceeding"
_TRIGGER = f"""\
CREATE FUNCTION wait_in_commit() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock_shared({LOCK}); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON event_journal DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.persistence_id LIKE '%late') EXECUTE FUNCTION wait_in_commit()"""


@contextmanager
def held_commits(scene: AkkaScene) -> Iterator[None]:
    """Hold every transaction with an event of an id that ends with "late" inside its COMMIT."""
    with scene.database.session() as session:
        session.execute(_TRIGGER.encode())
        session.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        yield
        session.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def number_of(scene: AkkaScene, pid: str) -> int:
    """Return how many committed events an id has."""
    query = "SELECT count(*) FROM event_journal WHERE persistence_id = %s"
    [(number,)] = scene.database.rows(query, pid)
    return int(number)


def waits(scene: AkkaScene) -> bool:
    """Return whether a transaction waits inside its COMMIT."""
    query = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted"
    return bool(scene.database.rows(query, LOCK))


@pytest.fixture
def shift_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return what moves the present time by seconds, but not that of locks and writes."""
    monkeypatch.setattr(clock, "now_micros", clock.machine_micros)

    def shift(seconds: float) -> None:
        monkeypatch.setattr(clock, "now", lambda: datetime.now(UTC) + timedelta(seconds=seconds))

    return shift


@pytest.mark.parametrize(
    ("akka_scene", "believes_that_it_failed"),
    [({}, False), ({CLOSE_CALLS: "1 s"}, True)],
    indirect=["akka_scene"],
    ids=["waits", "believes that it failed"],
)
def test_a_late_commit_is_projected_once(
    akka_scene: AkkaScene,
    over_akka: Projections,
    shift_time: Callable[[float], None],
    believes_that_it_failed: bool,
) -> None:
    """A run reads the events around it, the next one delivers it, a third one changes nothing.

    A writer that gives up and closes its connection sees a failure, although its events exist.
    """
    fold_books.define(over_akka, fold(), fold_books.TABLE)
    over_akka.journal.environment = {
        **over_akka.journal.environment,
        "TIDEMARK_R2DBC_LOOK_BACK": str(4 * HOUR_S),
    }
    scene, node = akka_scene, akka_scene.node
    hour = int((datetime.now(UTC) - START).total_seconds()) // HOUR_S
    node.persist({"Order|early": moves(1, 2)})
    with held_commits(scene):
        batch = {"Order|late": [[move(3), move(4)]]}
        if believes_that_it_failed:
            with pytest.raises(PekkoError, match="TimeoutException"):
                node.persist(batch, timeout_s=10)
        else:
            node.start_to_persist(batch)
        wait_until("a transaction inside its COMMIT", lambda: waits(scene))
        node.persist({"Order|on time": moves(5), "Order|early": moves(6)})
        shift_time(4 * HOUR_S)
        run(over_akka, hour, hour + 3)
        assert folded(over_akka, "books") == {
            "Order|early": ([1, 2, 3], 9),
            "Order|on time": ([1], 5),
        }
        assert number_of(scene, "Order|late") == 0
    wait_until("the late events", lambda: number_of(scene, "Order|late") == 2)
    shift_time(5 * HOUR_S)
    run(over_akka, hour + 3, hour + 4)
    wanted = {
        "Order|early": ([1, 2, 3], 9),
        "Order|on time": ([1], 5),
        "Order|late": ([1, 2], 7),
    }
    assert folded(over_akka, "books") == wanted
    node.stop()
    assert node.persist({"Order|late": moves(8)}) == [3]
    shift_time(6 * HOUR_S)
    run(over_akka, hour + 4, hour + 5)
    assert folded(over_akka, "books") == {**wanted, "Order|late": ([1, 2, 3], 15)}
