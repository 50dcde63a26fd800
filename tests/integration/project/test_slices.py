"""Projections run by ranges of slices, and projections of some entity types only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from tests.integration.project.projections import (
    LATEST,
    LATEST_TABLE,
    TOTALS,
    TOTALS_TABLE,
    Event,
    Projections,
    counts,
    event,
)
from tests.integration.support import Result
from tidemark.ledger.locks import Locks
from tidemark.partitioning import keys, slice_ranges
from tidemark.partitioning.keys import SliceRange
from tidemark.project.offset_store import slice_records

LOG = """\
/*---
name: log
version: 1
source:
  entity-types: [Order, Cart]
mode: append
target: {keyspace}.log
event: kind STRING, amount INT
---*/

SELECT persistence_id, sequence_nr, kind, amount FROM events
"""
LOG_TABLE = """\
CREATE TABLE {keyspace}.log (persistence_id text, sequence_nr bigint, kind text, amount int,
    PRIMARY KEY ((persistence_id), sequence_nr))"""


def ids(entity_type: str, slices: Iterable[int]) -> list[str]:
    """Return a persistence id of the entity type in each of the slices."""
    left, number = list(slices), 0
    id_of: dict[int, str] = {}
    while set(left) - set(id_of):
        name = f"{entity_type}|{number}"
        id_of.setdefault(keys.slice_of(name), name)
        number += 1
    return [id_of[place] for place in left]


def some(pids: Sequence[str], numbers: range, hours: float) -> list[Event]:
    return [
        event(pid, number, hours + number / 100, kind="in", amount=number)
        for pid in pids
        for number in numbers
    ]


def logged(projections: Projections) -> list[tuple[str, int]]:
    rows = projections.journal.rows("log")
    return sorted((row["persistence_id"], row["sequence_nr"]) for row in rows)


def keys_of(events: Iterable[Event], types: tuple[str, ...] = ("Order", "Cart")) -> list[Any]:
    return sorted(
        (event.persistence_id, event.sequence_nr)
        for event in events
        if keys.entity_type(event.persistence_id) in types
    )


def newest(projections: Projections) -> dict[str, int]:
    return {row["persistence_id"]: row["sequence_nr"] for row in projections.journal.rows("latest")}


def in_slices(pids: Iterable[str], first: int, last: int) -> list[str]:
    return [pid for pid in pids if first <= keys.slice_of(pid) <= last]


def total(results: Iterable[Result]) -> dict[str, int]:
    added: dict[str, int] = counts()
    for result in results:
        assert result.status == 0, result.stderr
        for name, number in result.report["counts"].items():
            added[name] += number
    return added


@pytest.mark.long
def test_all_events_arrive_once_over_4_8_and_2_ranges(projections: Projections) -> None:
    """ChangeSliceRangesSpec 1: 20 ids with 10 events each, and 20 more while nothing runs.

    Runs are stopped at a quarter and at three quarters; the third restart replays nothing.
    """
    pids = [
        *ids("Order", range(5, 1024, 103)),
        *ids("Cart", range(40, 1024, 128)),
        *ids("User", [300, 700]),
    ]
    assert len(pids) == 20
    projections.define(LATEST, LATEST_TABLE)
    projections.define(LOG, LOG_TABLE, file="two.sql")
    events = [*some(pids, range(1, 6), 0), *some(pids, range(6, 11), 1)]
    projections.insert(*events)
    projections.list_persistence_ids()
    projections.validated(0, 1)

    runs = [projections.run(0, 2, "--slices", "0-255")]
    quarter = in_slices(pids, 0, 255)
    assert newest(projections) == dict.fromkeys(quarter, 10)
    assert logged(projections) == keys_of(e for e in events if e.persistence_id in quarter)
    assert projections.states() == [
        (name, hour, "planned", None) for name in ("latest", "log") for hour in (0, 1)
    ]

    events += some(pids, range(11, 12), 2)
    projections.insert(*events[-20:])
    projections.validated(2)
    runs.append(projections.run(0, 3, "--slices", "0-127"))
    runs.append(projections.run(0, 3, "--slices", "256-767"))
    assert newest(projections) == {
        **dict.fromkeys(in_slices(pids, 128, 255), 10),
        **dict.fromkeys([*in_slices(pids, 0, 127), *in_slices(pids, 256, 767)], 11),
    }

    runs.append(projections.run(0, 3, "--slices", "0-511"))
    runs.append(projections.run(0, 3, "--slices", "512-1023"))
    assert newest(projections) == dict.fromkeys(pids, 11)
    assert logged(projections) == keys_of(events)
    consumed = len(events) + len(keys_of(events))
    totals = total(runs)
    assert (totals["accepted"], totals["events_read"], totals["duplicate"]) == (
        consumed,
        consumed,
        0,
    )
    assert projections.states() == [
        (name, hour, "done", None) for name in ("latest", "log") for hour in (0, 1, 2)
    ]
    assert projections.journal.own_rows("projection_slices") == []
    of_pieces = [
        row["counts"]["accepted"]
        for row in projections.journal.own_rows("piece")
        if row["application"] == "project"
    ]
    assert sum(of_pieces) == consumed
    assert {number for _, number, _ in projections.offsets().values()} == {11}
    for options in ((), ("--slices", "0-511")):
        assert projections.run(0, 3, *options).report["state"] == "nothing-to-do"


@pytest.mark.long
def test_slow_slice_is_taken_over_by_other_ranges(
    projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ChangeSliceRangesSpec 2: 32 ids (slices 0, 32, 64, ...) with 20 events each, 4 then 2 ranges.

    The range of slice 0 is slow in the extreme: it stops between its offsets and the ledger.
    """
    pids = ids("Order", range(0, 1024, 32))
    projections.define(LOG, LOG_TABLE)
    half = some(pids, range(1, 11), 0)
    projections.insert(*half)
    projections.list_persistence_ids()
    projections.validated(0)
    with monkeypatch.context() as patched:
        patched.setattr(slice_records, "record", stopped)
        assert projections.run(0, 1, "--slices", "0-255").status == 1
    assert len(projections.offsets()) == 8
    first = [projections.run(0, 1, "--slices", f"{n}-{n + 255}") for n in (256, 512, 768)]
    assert total(first) == counts(events_read=240, rows_written=240, accepted=240)

    rest = some(pids, range(11, 21), 1)
    projections.insert(*rest)
    projections.validated(1)
    second = [projections.run(0, 2, "--slices", slices) for slices in ("0-511", "512-1023")]
    # The events of the stopped range are read again, and change nothing.
    assert total(second) == counts(events_read=400, rows_written=400, accepted=320, duplicate=80)
    assert logged(projections) == keys_of([*half, *rest])
    assert {state for _, _, state, _ in projections.states()} == {"done"}


def stopped(*_: object, **__: object) -> None:
    raise RuntimeError("stopped")


def stopping_after(times: int, function: Callable[..., None]) -> Callable[..., None]:
    left = iter(range(times))

    def call(*arguments: Any, **options: Any) -> None:
        function(*arguments, **options)
        if next(left, None) is None:
            stopped()

    return call


@pytest.mark.long
def test_interrupted_ranges_late_events_and_gaps(
    projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = ids("Order", range(10, 1024, 100))
    projections.define(LATEST, LATEST_TABLE)
    events = some(pids, range(1, 4), 0)
    projections.insert(*events)
    projections.list_persistence_ids()
    projections.validated(0)
    plan = projections.run(0, 1, "--slices", "0-511", "--dry-run")
    assert "latest  2024-03-01 00:00  new, slices 0-511" in plan.stdout
    assert projections.journal.rows("latest") == []

    with monkeypatch.context() as patched:
        patched.setattr(slice_records, "record", stopping_after(2, slice_records.record))
        ended = [projections.run(0, 1, "--slices", f"{n}-{n + 255}") for n in (0, 256, 512)]
    assert [result.status for result in ended] == [0, 0, 1]
    [(_, _, state, error)] = projections.states()
    assert state == "failed"
    assert error is not None
    assert re.fullmatch(r"slices \d+-\d+: RuntimeError: stopped", error)
    done = slices_of(projections, "done")
    left = slice_ranges.missing(slice_ranges.ALL, done)
    assert left

    # Without options a run takes up the slices that are left, and nothing else.
    rest = projections.run(0, 1)
    again = [pid for pid in pids if any(r.first <= keys.slice_of(pid) <= r.last for r in left)]
    assert rest.report["counts"]["events_read"] == 3 * len(again) < len(events)
    assert newest(projections) == dict.fromkeys(pids, 3)
    assert projections.states() == [("latest", 0, "done", None)]

    late, gap = event(pids[0], 4, 0.9, kind="in", amount=4), some(pids[-1:], range(5, 6), 1)
    projections.insert(late, *gap, *some(pids[1:2], range(4, 5), 1))
    projections.validated(1)
    lower, held = (projections.run(1, 2, "--slices", slices) for slices in ("0-511", "512-1023"))
    assert held.report["pieces"] == {"planned": 1, "done": 0, "held": 1, "failed": 0}
    totals = total([lower, held])
    assert (totals["accepted"], totals["rejected_seq_nr"]) == (2, 1)
    [first, (_, hour, state, error)] = projections.states()
    assert first == ("latest", 0, "done", None)
    assert (hour, state) == (1, "held")
    assert error is not None
    assert error.endswith(f"gap: {pids[-1]} 4 missing")
    assert newest(projections)[pids[0]] == 4

    projections.insert(event(pids[-1], 4, 1.0, kind="in", amount=4))
    healed = projections.run(1, 2, "--slices", "512-1023")
    assert healed.report["counts"] == counts(events_read=2, rows_written=1, accepted=2)
    assert newest(projections)[pids[-1]] == 5
    assert {state for _, _, state, _ in projections.states()} == {"done"}

    # Forced, a bucket is open again until all of its slices are done.
    assert projections.run(1, 2, "--slices", "0-511", "--force").report["pieces"]["done"] == 1
    assert projections.states()[1] == ("latest", 1, "planned", None)
    forced = projections.run(1, 2)
    assert forced.report["counts"] == counts(events_read=2, rows_written=1, duplicate=2)
    assert {state for _, _, state, _ in projections.states()} == {"done"}


def slices_of(projections: Projections, state: str) -> list[SliceRange]:
    return [
        SliceRange(row["first_slice"], row["last_slice"])
        for row in projections.journal.own_rows("projection_slices")
        if row["state"] == state
    ]


def test_overlapping_ranges_exclude_each_other_and_disjoint_ones_do_not(
    projections: Projections,
) -> None:
    projections.define(LATEST, LATEST_TABLE)
    projections.define(TOTALS, TOTALS_TABLE, file="two.sql")
    projections.insert(*some(ids("Order", [100, 900]), range(1, 2), 0))
    projections.validated(0)
    only = ("--projection", "latest")
    refused = projections.run(0, 1, "--slices", "0-255")
    assert (
        "projection totals has mode bucket, whose rows are made of several slices"
        in refused.error_lines[0]
    )
    refused = projections.run(0, 1, *only, "--slices", "0-100")
    assert "'0-100' is not a range of whole blocks of 32 slices" in refused.error_lines[0]

    journal = projections.journal
    resource = f"project/{journal.keyspace}/latest"
    other = Locks(
        journal.control,
        journal.own_keyspace,
        slice_ranges.locked(SliceRange(256, 511), resource),
        owner="other",
        run_id="other",
        ttl=600,
    )
    with other:
        for options in ((), ("--slices", "0-511")):
            held = projections.run(0, 1, *only, *options)
            assert held.status == 1
            assert "is held by other" in held.error_lines[0]
        assert projections.run(0, 1, *only, "--slices", "0-255").status == 0
        assert projections.run(0, 1, *only, "--slices", "512-1023").status == 0
    assert len(newest(projections)) == 2
    assert projections.run(0, 1, *only, "--slices", "256-511").report["pieces"]["done"] == 1
    assert projections.states() == [("latest", 0, "done", None)]
