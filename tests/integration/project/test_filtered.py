"""Events that a projection leaves out, which are consumed in their order, or held, like others."""

from __future__ import annotations

from dataclasses import replace

from tests.integration.project.projections import LATEST, LATEST_TABLE, Event, Projections, event

SKIPPED = "{serializer-id: 20, manifest: filtered, kind: skip}"
FILTERS = ("decoder", "unreadable", "where")
"""Ways to leave an event out: its decoder's `skip`, its payload, the SQL's WHERE."""


def by_filter(projections: Projections, event: Event, how: str) -> None:
    """Insert the event so that it is left out in the given way."""
    if how == "where":
        event = replace(event, payload=b'{"kind": "filtered"}')
    if how == "unreadable":
        event = replace(event, payload=b"\xff\xfe")
    projections.insert_messages(event)
    if how == "decoder":
        key = {"persistence_id": event.persistence_id, "partition_nr": 0}
        key |= {"sequence_nr": event.sequence_nr, "timestamp": event.timestamp}
        projections.journal.insert("messages", [{**key, "ser_manifest": "filtered"}])


def plain(pid: str, *numbers: int, hour: float = 0) -> list[Event]:
    return [event(pid, number, hour + number / 100, kind="in", amount=1) for number in numbers]


def test_filtered_events_are_numbers_like_others(projections: Projections) -> None:
    log = LATEST.replace("latest", "log").replace("upsert", "append")
    log = log.replace("event:", f"decoders: [{SKIPPED}, json]\non-error: skip\nevent:")
    projections.define(
        log.replace("FROM events", "FROM events WHERE kind <> 'filtered'"),
        LATEST_TABLE.replace("latest", "log")
        .replace("text PRIMARY KEY", "text")
        .replace("note text", "PRIMARY KEY (persistence_id, sequence_nr)"),
    )
    # e3, e4 and e6 of six are left out, and yet the offset is at the last event.
    projections.insert_messages(*plain("e|1", 1, 2, 5))
    for number, how in zip((3, 4, 6), FILTERS, strict=True):
        by_filter(projections, event("e|1", number, number / 100), how)
    for how in FILTERS:
        # 4 is behind a gap, and 7 is the first event seen of its id.
        projections.insert_messages(*plain(f"known|{how}", 1, 2))
        by_filter(projections, event(f"known|{how}", 4, 0.04), how)
        by_filter(projections, event(f"unknown|{how}", 7, 0.07), how)
    projections.validated(0, 1)
    first = projections.run(0, 1)
    assert {state for _, _, state, _ in projections.states()} == {"held"}, first.stderr
    counts = first.report["counts"]
    assert (counts["accepted"], counts["rejected_seq_nr"]) == (12, 6)
    assert numbers(projections) == {"e|1": 6} | {f"known|{how}": 2 for how in FILTERS}
    assert logged(projections) == {"e|1": [1, 2, 5]} | {f"known|{how}": [1, 2] for how in FILTERS}

    for how in FILTERS:
        projections.insert_messages(*plain(f"known|{how}", 3, hour=1))
        projections.insert_messages(*plain(f"unknown|{how}", 1, 2, 3, 4, 5, 6, 8, hour=1))
    second = projections.run(1, 2)
    assert second.status == 0, second.stderr
    assert {state for _, _, state, _ in projections.states()} == {"done"}
    assert numbers(projections) == {
        "e|1": 6,
        **{f"known|{how}": 4 for how in FILTERS},
        **{f"unknown|{how}": 8 for how in FILTERS},
    }
    assert logged(projections) == {
        "e|1": [1, 2, 5],
        **{f"known|{how}": [1, 2, 3] for how in FILTERS},
        **{f"unknown|{how}": [1, 2, 3, 4, 5, 6, 8] for how in FILTERS},
    }


def numbers(projections: Projections) -> dict[str, int]:
    """Return the offset of each persistence id."""
    return {pid: place[1] for (_, pid, _), place in projections.offsets().items()}


def logged(projections: Projections) -> dict[str, list[int]]:
    """Return the sequence nrs in the read model, by persistence id."""
    numbers_of: dict[str, list[int]] = {}
    for row in projections.journal.rows("log"):
        numbers_of.setdefault(row["persistence_id"], []).append(row["sequence_nr"])
    return {pid: sorted(numbers) for pid, numbers in numbers_of.items()}
