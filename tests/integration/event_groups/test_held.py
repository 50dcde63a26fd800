"""Groups that wait for one that is not rolled back: read once, and free once it is settled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults.dying import Died, dying_after
from tests.faults.seams import Seam
from tests.integration.event_groups.test_event_groups import compensated, executed, shop, submit
from tests.integration.event_groups.test_states import states
from tests.integration.support import Journal
from tidemark.event_groups.stream import holding
from tidemark.event_groups.stream.states import StoredGroup

__all__ = ["shop"]
STUCK = compensated("stuck", "repaired", "much")
GROUP = """
group: NAME
rows: [ROWS]
events: [{name: a}]
"""


def group(name: str, *ids: str) -> str:
    rows = ", ".join(f"{{table: <account>, key: {{id: {one}}}}}" for one in ids)
    return GROUP.replace("NAME", name).replace("ROWS", rows)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of the groups that runs look at."""
    names: list[str] = []

    footprint_of = holding.footprint_of

    def footprint(one: StoredGroup, **how: bool) -> Any:
        names.append(one.id)
        return footprint_of(one, **how)

    monkeypatch.setattr(holding, "footprint_of", footprint)
    return names


def looked_at(shop: Journal, looked: list[str], status: int = 3) -> Sequence[str]:
    looked.clear()
    executed(shop, status)
    return [*looked]


def test_a_run_reads_a_group_that_must_wait_once(
    shop: Journal, tmp_path: Path, looked: list[str]
) -> None:
    waiting = [group(f"w{number}", "ann", f"i{number}") for number in range(3)]
    assert submit(shop, tmp_path, STUCK, *waiting).status == 0
    looked_at(shop, looked)
    assert looked_at(shop, looked) == []
    # One that collides with what waits waits as well; one that does not is executed.
    assert submit(shop, tmp_path, group("w3", "i1"), group("free", "carl")).status == 0
    assert looked_at(shop, looked) == ["w3", "free"]
    assert states(shop)["free"] == "done"
    assert looked_at(shop, looked) == []
    assert executed(shop, 3)["counts"] == {"groups_held": 4}
    # Who has waited for one that is cancelled need not wait any more; no other group is read.
    assert shop.run("run_event_groups", "cancel", "w1", "--apply").status == 0
    assert looked_at(shop, looked) == []
    assert states(shop)["w3"] == "done"
    assert shop.run("run_event_groups", "retry", "stuck", "--apply").status == 0
    assert {*looked_at(shop, looked)} == {"stuck"}
    assert states(shop)["stuck"] == "rollback-failed"
    assert looked_at(shop, looked) == []
    settled = shop.run("run_event_groups", "settle", "stuck", "--as", "rolled-back", "--apply")
    assert settled.status == 0
    executed(shop)
    assert {*states(shop).values()} == {"done", "cancelled", "rolled-back"}


@pytest.mark.parametrize("seam", [Seam.CHANGE_NOTED, Seam.GROUP_STATE_SET])
def test_a_command_that_dies_delays_a_group_no_longer_than_until_the_next_run(
    shop: Journal, tmp_path: Path, looked: list[str], seam: Seam
) -> None:
    assert submit(shop, tmp_path, STUCK, group("w", "ann")).status == 0
    executed(shop, 3)
    with dying_after(seam, 1):
        shop.run("run_event_groups", "retry", "stuck", "--apply")
    is_made = seam is Seam.GROUP_STATE_SET
    assert states(shop)["stuck"] == ("rolling-back" if is_made else "rollback-failed")
    assert {*looked_at(shop, looked)} == ({"stuck"} if is_made else {*()})
    assert len(noted(shop)) == (not is_made)
    # What was noted of a change that was not made is there until the state changes.
    settled = shop.run("run_event_groups", "settle", "stuck", "--as", "rolled-back", "--apply")
    assert settled.status == 0, settled.stderr
    executed(shop)
    assert states(shop) == {"stuck": "rolled-back", "w": "done"}
    assert noted(shop) == set()


def noted(shop: Journal) -> set[Any]:
    [row] = shop.own_rows("event_group_held")
    return row["changes"] or set()


def test_a_run_that_dies_after_it_has_kept_what_waits_has_done_all(
    shop: Journal, tmp_path: Path, looked: list[str]
) -> None:
    assert submit(shop, tmp_path, STUCK, group("w", "ann")).status == 0
    with dying_after(Seam.HELD_GROUPS_KEPT, 1):
        shop.run("run_event_groups")
    assert looked_at(shop, looked) == []
    assert executed(shop, 3)["counts"] == {"groups_held": 1}


def test_a_run_that_dies_before_it_keeps_what_waits_has_executed_the_rest(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = [group(name, "ann", name) for name in ("w1", "w2")]
    assert submit(shop, tmp_path, STUCK, *waiting, group("w3", "w1")).status == 0
    executed(shop, 3)
    assert shop.run("run_event_groups", "cancel", "w1", "--apply").status == 0

    def dies(*rest: Any) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(holding.HeldGroups, "keep", dies)
        with pytest.raises(Died):
            shop.run("run_event_groups")
    assert states(shop)["w3"] == "done"
    assert executed(shop, 3)["counts"] == {"groups_held": 1}
    assert shop.run("run_event_groups", "settle", "stuck", "--as", "done", "--apply").status == 0
    assert executed(shop)["counts"] == {"groups_done": 1, "groups_held": 0}
