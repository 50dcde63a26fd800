"""The modes that replace a time bucket, which they do only if all of its events still exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.integration.project.projections import FILES, START_MS, Event, Projections
from tests.integration.support import Journal
from tests.integration.tag_write.tags_and_messages import (
    BOTH,
    both,
    both_sources,
    reached,
    red,
    results,
)
from tidemark import clock
from tidemark.project.acceptance.accept import Acceptance
from tidemark.project.running.pipeline import Pipeline

NAMES = (*BOTH, "files")
GONE = "that its result was made from"


@pytest.fixture
def projections(make_journal: Callable[..., Journal], tmp_path: Path) -> Projections:
    """Return projections of both replacing modes and of both sources."""
    made = both_sources(make_journal, tmp_path / "sql", EXPORT_DIR=str(tmp_path / "export"))
    made.define(FILES, file="three.sql")
    return made


@pytest.fixture(autouse=True)
def sql(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()


def delete(projections: Projections, *events: Event, is_known: bool = True) -> None:
    """Delete messages as their actor does, and their tag views as a TTL does."""
    journal = projections.journal
    for event in events:
        journal.control.execute(
            f"DELETE FROM {journal.keyspace}.messages WHERE persistence_id = ? AND partition_nr = 0"
            " AND sequence_nr = ?",
            (event.persistence_id, event.sequence_nr),
        )
        journal.control.execute(
            f"DELETE FROM {journal.keyspace}.tag_views WHERE tag_name = 'red' AND timebucket = ?"
            " AND timestamp = ? AND persistence_id = ? AND tag_pid_sequence_nr = ?",
            (event.time_bucket, event.timestamp, event.persistence_id, event.sequence_nr),
        )
    highest = {event.persistence_id: event.sequence_nr for event in events}
    if is_known:
        journal.insert(
            "metadata",
            [{"persistence_id": pid, "deleted_to": number} for pid, number in highest.items()],
        )


def states(projections: Projections) -> dict[tuple[str, int], str]:
    return {(name, hour): state for name, hour, state, _ in projections.states()}


def exported(directory: Path) -> list[tuple[str, int]]:
    rows: list[dict[str, Any]] = pd.read_parquet(directory).to_dict("records")  # type: ignore[assignment]
    return sorted((row["persistence_id"], row["sequence_nr"]) for row in rows)


def keys(*events: Event) -> list[tuple[str, int]]:
    return sorted((event.persistence_id, event.sequence_nr) for event in events)


@pytest.mark.long
def test_a_piece_that_waits_for_a_gap_keeps_what_deletions_have_taken(
    projections: Projections, tmp_path: Path
) -> None:
    """In hour 1 q|1 is consumed and p|1 held; q|1 deletes, then what p|1 waits for arrives."""
    p = [red("p|1", 1, 0.1), red("p|1", 2, 0.8), red("p|1", 3, 1.2)]
    q = [red("q|1", number, 1 + number / 10) for number in (1, 2, 3)]
    files = tmp_path / "export" / "files"
    projections.history.update(p)
    projections.insert(p[0], p[2], *q)
    projections.validated(0, 1)
    first = projections.run(0, 2)
    assert first.status == 0, first.stderr
    assert results(projections) == both([p[0], *q])
    assert {state for (_, hour), state in states(projections).items() if hour == 1} == {"held"}

    delete(projections, *q[:2])
    other = red("r|1", 1, 2.1)
    projections.insert(other)
    projections.validated(2)
    # No event is to be added to the piece yet, so its result stays.
    waits = projections.run(2, 3)
    assert waits.status == 0, waits.stderr
    assert waits.report["pieces"] == {"planned": 6, "done": 3, "held": 3, "failed": 0}
    assert {state for (_, hour), state in states(projections).items() if hour == 1} == {"held"}
    assert results(projections) == both([p[0], *q, other])
    assert exported(files) == keys(p[0], *q, other)

    # The missing event arrives, and another of the bucket: as many as before, but not the same.
    more = [red("s|1", 1, 1.7), red("s|1", 2, 1.8), red("t|1", 1, 3.1)]
    projections.insert(p[1], *more)
    projections.validated(3)
    refused = projections.run(3, 4)
    assert refused.status == 3
    assert f"2024-03-01 01:00: 2 of the 3 events {GONE}" in refused.error_lines[0]
    assert {(state, hour) for (_, hour), state in states(projections).items()} == {
        ("done", 0),
        ("failed", 1),
        ("done", 2),
        ("done", 3),
    }
    assert results(projections) == both([*p[:2], *q, other, more[2]])
    assert exported(files) == keys(*p[:2], *q, other, more[2])
    assert {reached(projections)[name, "p|1"] for name in NAMES} == {2}

    # With --accept-purged the bucket is made of the events left, which then are its record.
    settled = projections.run(3, 4, "--accept-purged")
    assert settled.status == 0, settled.stderr
    assert results(projections) == both([*p, q[2], *more, other])
    assert exported(files) == keys(*p, q[2], *more, other)
    assert projections.run(3, 4, "--force").status == 0
    assert results(projections) == both([*p, q[2], *more, other])


@pytest.mark.long
def test_a_run_that_died_before_the_ledger_knew_is_not_made_good_from_less(
    projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run dies between the offsets and the ledger, or before the offsets; then events go."""
    q = [red("q|1", 1, 0.1), red("q|1", 2, 0.2), red("s|1", 1, 0.3)]
    projections.insert(*q)
    projections.validated(0)
    write_offsets = Pipeline._write_offsets

    def die(self: Pipeline, *arguments: Any) -> None:
        if self._definition.name == "every":
            write_offsets(self, *arguments)
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Pipeline, "_write_offsets", die)
        assert projections.run(0, 1).status == 1
    assert set(reached(projections)) == {("every", "q|1"), ("every", "s|1")}
    assert results(projections) == both(q)
    # Without deletions the piece is simply done again.
    with monkeypatch.context() as patched:
        patched.setattr(Pipeline, "_write_offsets", die)
        assert "no longer there" not in projections.run(0, 1).stderr
    delete(projections, *q[:1])
    again = projections.run(0, 1)
    assert again.status == 3
    assert f"1 of the 3 events {GONE}" in again.error_lines[0]
    assert results(projections) == both(q)
    # With the events back, the pieces are done.
    projections.insert(*q[:1])
    projections.journal.insert("metadata", [{"persistence_id": "q|1", "deleted_to": 0}])
    healed = projections.run(0, 1)
    assert healed.status == 0, healed.stderr
    assert set(states(projections).values()) == {"done"}

    # After an offset set back by hand, all events are new again, and none is missed.
    for name in BOTH:
        back = projections.manage(
            "set-offset", name, "--persistence-id", "q|1", "--to", "0", "--apply",
            *(["--tag", "red"] if name == "totals" else []),
        )  # fmt: skip
        assert back.status == 0, back.stderr
    more = red("u|1", 1, 0.9)
    projections.insert(more)
    assert projections.run(0, 1).status == 0
    assert results(projections) == both([*q, more])
    assert projections.manage("clear", "every", "--apply").status == 0
    assert projections.run(0, 1).status == 0
    delete(projections, *q[2:])
    assert projections.manage("clear", "every", "--apply").status == 0
    refused = projections.run(0, 1)
    assert refused.status == 3
    assert f"1 of the 4 events {GONE}" in refused.error_lines[0]
    assert results(projections) == both([*q, more])


def test_nothing_is_made_from_tag_views_that_reconcile_has_in_its_hands(
    projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partitions are away when they are read, and back when the result is written."""
    events, own = [red("p|1", 1, 0.1), red("p|1", 2, 0.2)], projections.journal.own_keyspace
    projections.insert(*events)
    projections.validated(0)
    assert projections.run(0, 1).status == 0
    execute = projections.journal.control.execute
    resource = f"tag_views/{projections.journal.keyspace}"
    execute(f"INSERT INTO {own}.lock (resource, owner) VALUES (?, 'rebuild')", (resource,))
    held = projections.run(0, 1, "--force", "--projection", "totals", "--accept-purged")
    assert held.status == 1
    assert f"{resource} is held by rebuild: tag views may be incomplete" in held.error_lines[0]
    assert projections.run(0, 1, "--force", "--projection", "every").status == 0
    execute(f"DELETE FROM {own}.lock WHERE resource = ?", (resource,))

    take = Acceptance.accept

    def while_rebuilt(*arguments: Any) -> Any:
        accepted = take(*arguments)
        delete = f"DELETE FROM {projections.journal.keyspace}.tag_views WHERE tag_name = 'red'"
        execute(f"{delete} AND timebucket = ?", (START_MS,))
        audited = f"{projections.journal.keyspace}: tag red"
        execute(
            f"INSERT INTO {own}.audit (day, at, application, operation, subject, dry_run)"
            " VALUES (?, now(), 'reconcile', 'rebuild', ?, false)",
            (f"{clock.now():%Y-%m-%d}", audited),
        )
        projections.insert_tag_views(*events)
        return accepted

    with monkeypatch.context() as patched:
        patched.setattr(Acceptance, "accept", while_rebuilt)
        changed = projections.run(0, 1, "--projection", "totals", "--accept-purged")
    assert changed.status == 1
    assert "reconcile has changed the tag views while they were read" in changed.error_lines[0]
    assert projections.run(0, 1).status == 0
    assert results(projections) == both(events)
