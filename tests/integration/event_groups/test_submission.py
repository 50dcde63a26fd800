"""Groups that are submitted while others submit, purge or settle the same ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.integration.event_groups.test_event_groups import FAILING, executed, shop, state, submit
from tests.integration.event_groups.test_held import group
from tests.integration.event_groups.test_states import states
from tests.integration.support import Journal, Result
from tidemark.cassandra.schema import table
from tidemark.event_groups.execution.rollback import Rollback
from tidemark.event_groups.stream.states import GroupState
from tidemark.event_groups.stream.store import Stream

__all__ = ["shop"]
KEY = "WHERE stream = 'default' AND id = 'g'"


def order(journal: Journal) -> list[tuple[int, str]]:
    rows = journal.own_rows("event_group_order")
    return sorted((row["sequence"], row["id"]) for row in rows if row["sequence"] is not None)


def test_a_group_that_purge_deletes_while_it_is_submitted_again_is_a_new_one(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert submit(shop, tmp_path, group("g", "ann"), group("later", "bob")).status == 0
    executed(shop)
    groups, places = (
        table(shop.own_keyspace, name) for name in ("event_group", "event_group_order")
    )
    place = Stream._place
    purged: list[int] = []

    def purge_and_place(stream: Stream, name: str) -> Any:
        if not purged:
            purged.append(1)
            shop.control.execute(f"DELETE FROM {places} WHERE stream = 'default' AND sequence = 1")
            shop.control.execute(f"DELETE FROM {groups} {KEY} IF sequence = 1")
        return place(stream, name)

    monkeypatch.setattr(Stream, "_place", purge_and_place)
    again = submit(shop, tmp_path, group("g", "ann"))
    assert again.report["lines"] == ["g: submitted as number 3"]
    assert executed(shop)["counts"]["groups_done"] == 1
    assert order(shop) == [(2, "later"), (3, "g")]
    assert states(shop) == {"g": "done", "later": "done"}


def test_a_group_of_which_purge_has_deleted_only_the_place_has_ended(
    shop: Journal, tmp_path: Path
) -> None:
    assert submit(shop, tmp_path, group("g", "ann"), group("later", "bob")).status == 0
    executed(shop)
    places = table(shop.own_keyspace, "event_group_order")
    shop.control.execute(f"DELETE FROM {places} WHERE stream = 'default' AND sequence = 1")
    again = submit(shop, tmp_path, group("g", "ann"))
    assert again.report["lines"] == ["g: was submitted before as number 1"]
    assert order(shop) == [(2, "later")]


def test_a_group_that_another_submission_has_placed_meanwhile_keeps_its_place(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert submit(shop, tmp_path, group("g", "ann")).status == 0
    places = table(shop.own_keyspace, "event_group_order")
    key = "WHERE stream = 'default' AND sequence = 1"
    shop.control.execute(f"DELETE FROM {places} {key} IF EXISTS")
    next_sequence = Stream.next_sequence
    placed: list[int] = []

    def other_places_it(stream: Stream) -> int:
        if not placed:
            placed.append(1)
            shop.control.execute(f"UPDATE {places} SET id = 'g' {key} IF id = null")
        return next_sequence(stream)

    monkeypatch.setattr(Stream, "next_sequence", other_places_it)
    again = submit(shop, tmp_path, group("g", "ann"))
    assert again.report["lines"] == ["g: was submitted before as number 1"]
    assert order(shop) == [(1, "g")]
    executed(shop)
    assert states(shop) == {"g": "done"}


def test_a_group_cannot_be_settled_while_a_run_rolls_it_back(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert submit(shop, tmp_path, FAILING).status == 0
    take_back = Rollback.take_back
    refused: list[Result] = []

    def and_settle(rollback: Rollback, *rest: Any) -> bool:
        done = take_back(rollback, *rest)
        settle = ("settle", "correction", "--as", "done", "--apply")
        refused.append(shop.run_alone("run_event_groups", *settle))
        return done

    monkeypatch.setattr(Rollback, "take_back", and_settle)
    shop.run("run_event_groups")
    assert {one.status for one in refused} == {1}
    assert "event-groups/default is held by" in refused[0].error_lines[0]
    assert states(shop) == {"correction": GroupState.ROLLED_BACK}
    assert shop.own_rows("before_image") == []


def test_a_group_with_the_id_of_one_that_a_machine_with_a_fast_clock_purges_is_whole(
    shop: Journal, tmp_path: Path, shift_clock: Callable[[float], None]
) -> None:
    assert submit(shop, tmp_path, FAILING, group("later", "bob")).status == 0
    executed(shop, 3)
    before = state(shop)
    long_ago = datetime.now(UTC) - timedelta(days=100)
    groups = table(shop.own_keyspace, "event_group")
    key = KEY.replace("'g'", "'correction'")
    shop.control.execute(f"UPDATE {groups} SET ended_at = ? {key} IF EXISTS", (long_ago,))
    file = tmp_path / "retention.yaml"
    file.write_text("policies: [{name: old, target: event-groups, keep-days: 90}]")
    shift_clock(10)
    purged = shop.run("purge", "--apply", RETENTION_FILE=str(file))
    assert purged.status == 0, purged.stderr
    shift_clock(0)
    assert states(shop).keys() == {"later"}
    assert submit(shop, tmp_path, FAILING).status == 0
    executed(shop, 3)
    assert states(shop)["correction"] == "rolled-back"
    assert len(shop.own_rows("group_event")) > 1
    assert state(shop) == before
