"""Runs of tag-write during which actors recover and persist, with the real plugin."""

from __future__ import annotations

from unittest.mock import patch

from tests.integration.support import wait_until
from tests.integration.tag_write.test_alive import before
from tests.interop.client import LiveQuery, event
from tests.interop.conftest import SceneMaker
from tests.interop.support import complete, wait_for
from tidemark.tag_write import store


def test_events_of_an_actor_that_came_back_during_a_run_are_delivered_once(
    make_scene: SceneMaker,
) -> None:
    """An actor recovers, persists and deletes up to a snapshot between the reads and the writes.

    Its next recovery starts at the snapshot and numbers from tag_write_progress, so that a progress
    that the run has set back makes it use numbers that readers have already seen.
    """
    scene = make_scene()
    scene.open_untagged().persist("came-back", [[event(f"e-{n}", "red")] for n in (1, 2, 3)])
    scene.close()
    scene.move_back()
    reader, actor_node = scene.open(), scene.open()
    queries: list[LiveQuery] = []

    def comes_back() -> None:
        actor_node.persist("came-back", [[event(f"e-{n}", "red")] for n in (4, 5)])
        wait_until("progress and scanning of event 5", lambda: written_to() == [5, 5])
        assert actor_node.snapshot("came-back") == 5
        actor_node.delete_messages("came-back", 5)
        queries.append(reader.live("red"))
        wait_for(queries[0], 5)
        actor_node.stop("came-back")

    def written_to() -> list[int]:
        names = ("tag_write_progress", "tag_scanning")
        return [row["sequence_nr"] for name in names for row in scene.journal.rows(name)]

    with patch.object(store, "write_tag_views", before(store.write_tag_views, comes_back)):
        scene.tag_write()
    [live] = queries
    restarted = scene.open()
    restarted.persist("came-back", [[event("e-6", "red")]])
    assert restarted.recovered_from("came-back").snapshot == "5"
    wait_for(live, 6)
    assert [row.payload for row in complete(live.stop())] == [f"e-{n}" for n in range(1, 7)]
