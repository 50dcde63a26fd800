"""Events with many rows whose runs die: the next run ends them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.dying import dying_after
from tests.faults.fencing import CHECK, is_checked_before_each, traced
from tests.faults.seams import Seam
from tests.integration.event_groups.test_many import cql, each, shop, submit, wanted
from tests.integration.support import Journal

__all__ = ["shop"]
# In the order in which a run passes them; with calls 2 what is kept are before-images, and what is
# sent is the way back.
WRITES = (
    Seam.MANY_ROWS_EMPTIED,
    Seam.MANY_ROWS_ANNOUNCED,
    Seam.MANY_ROWS_KEPT,
    Seam.MANY_ROWS_SENT,
)
SAMPLE = [(Seam.MANY_ROWS_SENT, 2, "update", True)]
ALL = [
    (seam, calls, kind, fails)
    for kind, sent in (("update", (1, 2, 3)), ("insert", (1, 2, 3)), ("delete", (1, 2)))
    for fails in (False, True)
    for seam, numbers in (
        (Seam.MANY_ROWS_EMPTIED, (1, 2)),
        (Seam.MANY_ROWS_ANNOUNCED, (1, 2)),
        (Seam.MANY_ROWS_KEPT, (1, 2)),
        (Seam.EVENT_BEGUN, (1, 2)),
        (Seam.MANY_ROWS_SENT, sent if fails else (1,)),
        (Seam.EVENT_ENDED, (1, 2)),
    )
    for calls in numbers
]


@pytest.mark.parametrize(
    ("seam", "calls", "kind", "fails"),
    SAMPLE + [pytest.param(*one, marks=pytest.mark.soak) for one in ALL if one not in SAMPLE],
)
def test_a_run_that_dies_anywhere_is_ended_by_the_next(
    shop: Journal, tmp_path: Path, seam: Seam, calls: int, kind: str, *, fails: bool
) -> None:
    wanted(shop, 40)
    shop.insert(
        "item", [{"p": f"p{c % 5}", "c": c, "a": "old", "b": "1.5"} for c in range(0, 40, 2)]
    )
    before = shop.rows("item")
    assert submit(shop, tmp_path, each(kind, fails=fails)).status == 0
    with dying_after(seam, calls):
        shop.run("run_event_groups")
    shop.run("run_event_groups")
    assert shop.run("run_event_groups").report["state"] == "nothing-to-do"
    [group] = shop.own_rows("event_group")
    assert group["state"] == ("rolled-back" if fails else "done")
    if fails:
        assert shop.rows("item") == before
    else:
        found = {row["c"]: row["a"] for row in shop.rows("item")}
        assert found == ({} if kind == "delete" else {c: f"v{c}" for c in range(40)})


def test_before_each_write_of_many_rows_a_run_asks_whether_it_still_holds_its_locks(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted(shop, 10)
    submit(shop, tmp_path, each("update", fails=True))
    trace = traced(monkeypatch, WRITES)
    assert shop.run("run_event_groups").report["counts"]["groups_rolled_back"] == 1
    assert set(trace) == {CHECK, *WRITES}
    assert is_checked_before_each(trace), trace


def test_what_is_written_after_a_death_is_not_overwritten(shop: Journal, tmp_path: Path) -> None:
    wanted(shop, 10)
    submit(shop, tmp_path, each("update"))
    with dying_after(Seam.MANY_ROWS_SENT, 1):
        shop.run("run_event_groups")
    cql(shop, "UPDATE {item} SET a = 'theirs' WHERE p = 'p1' AND c = 1")
    assert shop.run("run_event_groups").status == 0
    assert {row["c"]: row["a"] for row in shop.rows("item")} == {
        **{c: f"v{c}" for c in range(10)},
        1: "theirs",
    }


def test_rows_that_a_dead_run_has_kept_are_not_mixed_with_those_of_the_next(
    shop: Journal, tmp_path: Path
) -> None:
    wanted(shop, 10)
    submit(shop, tmp_path, each("update"))
    with dying_after(Seam.MANY_ROWS_KEPT, 1):
        shop.run("run_event_groups")
    cql(shop, "DELETE FROM {wanted} WHERE id = 3")
    assert shop.run("run_event_groups").status == 0
    assert {row["c"] for row in shop.rows("item")} == {*range(10)} - {3}


def test_rows_as_they_were_are_deleted_though_a_run_died_at_the_end_of_their_group(
    shop: Journal, tmp_path: Path, shift_clock: Callable[[float], None]
) -> None:
    wanted(shop, 10)
    submit(shop, tmp_path, each("update"))
    shift_clock(10)
    with dying_after(Seam.GROUP_STATE_SET, 2):
        shop.run("run_event_groups")
    kept = {row["kind"] for row in shop.own_rows("named_result")}
    assert kept == {"before", "result"}
    shift_clock(0)
    assert shop.run("run_event_groups").report["state"] == "nothing-to-do"
    for name in ("named_result", "named_result_size"):
        assert {row["kind"] for row in shop.own_rows(name)} == {"result"}
