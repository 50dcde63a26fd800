"""Quarantined events that are processed again; the result is that of a run without the fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.integration.project.fold_books import TABLE as BOOKS_TABLE
from tests.integration.project.fold_books import books, define, fold
from tests.integration.project.projections import (
    HOUR_MS,
    LATEST,
    LATEST_TABLE,
    START_MS,
    TOTALS,
    TOTALS_TABLE,
    Event,
    Projections,
    amount,
    event,
    kind,
    totals,
)
from tests.integration.project.test_modes import LOG, LOG_TABLE
from tests.integration.support import Journal, Result
from tidemark.errors import CassandraUnavailable
from tidemark.ledger import quarantine

SKIP = "on-error: skip\nevent:"
LAKE = LATEST.replace("latest", "lake").replace("upsert", "export")
LAKE = LAKE.replace("{keyspace}.lake", "lake").replace("SELECT", "SELECT time_bucket,")
QUERIES = {
    "totals": TOTALS.replace("{tags: [red, blue]}", "messages"),
    "latest": LATEST,
    "log": LOG,
    "lake": LAKE,
}
TABLES = {"totals": TOTALS_TABLE, "latest": LATEST_TABLE, "log": LOG_TABLE, "lake": None}
MODES = {"bucket": "totals", "upsert": "latest", "append": "log", "export": "lake", "fold": "books"}
HOPELESS = "c|1"
WRONG_TYPE = "not a JSON object whose fields have the declared types"


def move(pid: str, number: int, hours: float, amount: int = 1) -> Event:
    return event(pid, number, hours, kind="in", amount=amount)


def broken(event: Event, payload: bytes = b"{") -> Event:
    return Event(event.persistence_id, event.sequence_nr, event.hours, event.tags, payload)


IN_THE_MIDDLE, NEWEST = move("a|1", 2, 0.2, 20), move("b|1", 2, 1.4, 40)
AFTER_HOPELESS = move(HOPELESS, 2, 1.5, 7)
OTHERS = [move("a|1", 1, 0.1), move("a|1", 3, 1.1, 300), move("b|1", 1, 0.3), move("d|1", 1, 0.4)]


def define_all(projections: Projections) -> None:
    for name, text in QUERIES.items():
        projections.define(text.replace("event:", SKIP), TABLES[name], f"{name}.sql")
    define(projections, fold().replace('mode="fold"', 'mode="fold", on_error="skip"'), BOOKS_TABLE)


def expected(
    name: str, events: list[Event], skipped: Sequence[Event] = ()
) -> list[tuple[Any, ...]]:
    """Compute by a loop what the target holds after a run over events.

    `skipped` cannot be read; a state of mode fold has their sequence nr if they come last.
    """
    ordered = sorted(events, key=lambda event: (event.persistence_id, event.sequence_nr))
    hour = [(event.time_bucket - START_MS) // HOUR_MS for event in ordered]
    if name == "totals":
        rows = totals([replace(event, tags=frozenset({"red"})) for event in events])
        return [
            tuple(row[column] for column in ("time_bucket", "kind", "n", "total")) for row in rows
        ]
    if name == "log":
        return [
            ("in", of_event, *key(event), amount(event))
            for of_event, event in zip(hour, ordered, strict=True)
        ]
    if name == "lake":
        # pandas reads the name of a directory as text.
        return [
            (*key(event), kind(event), amount(event), str(event.time_bucket)) for event in ordered
        ]
    states: dict[str, tuple[Any, ...]] = {}
    for latest in ordered:
        pid, number = key(latest)
        if name == "latest":
            states[pid] = (pid, amount(latest), kind(latest), None, number)
        else:
            _, balance, folded, _, _ = states.get(pid, (pid, 0, [], None, 0))
            states[pid] = (pid, balance + amount(latest), [*folded, number], None, number)
    for pid, number in map(key, skipped if name == "books" else ()):
        states[pid] = (*states[pid][:4], max(states[pid][4], number))
    return list(states.values())


def key(event: Event) -> tuple[str, int]:
    return event.persistence_id, event.sequence_nr


def stored(projections: Projections, name: str) -> list[tuple[Any, ...]]:
    """Return the rows of a projection's target."""
    if name == "lake":
        directory = Path(projections.journal.environment["TIDEMARK_EXPORT_DIR"]) / name
        return sorted(pd.read_parquet(directory).itertuples(index=False, name=None))
    return sorted(tuple(row.values()) for row in projections.journal.rows(name))


def quarantined(projections: Projections, name: str) -> dict[tuple[str, int], str]:
    return {
        (row["persistence_id"], row["sequence_nr"]): row["cause"]
        for row in projections.journal.own_rows("quarantine")
        if row["application"] == f"project/{name}"
    }


@dataclass
class Story:
    """A run with unreadable events, their correction, retries, and one more run."""

    projections: Projections
    with_fault: dict[str, list[tuple[Any, ...]]]
    listed: Result
    shortened: Result
    planned: dict[str, Result]
    retried: dict[str, Result]
    rerun: Result


@pytest.fixture(scope="module")
def story(make_journals: Callable[..., Journal], tmp_path_factory: pytest.TempPathFactory) -> Story:
    directory = tmp_path_factory.mktemp("definitions")
    journal = make_journals(EXPORT_DIR=str(tmp_path_factory.mktemp("export")))
    projections = Projections(journal, directory)
    define_all(projections)
    hopeless = move(HOPELESS, 1, 0.5)
    projections.insert(
        *OTHERS, broken(IN_THE_MIDDLE), broken(NEWEST), broken(hopeless), AFTER_HOPELESS
    )
    projections.list_persistence_ids()
    projections.validated(0, 1)
    assert projections.run(0, 2).report["counts"]["quarantined"] == 15
    with_fault = {name: stored(projections, name) for name in MODES.values()}
    listed = projections.manage("quarantine", "list")
    shortened = projections.manage("quarantine", "list", "log", "--limit", "2")

    projections.insert(IN_THE_MIDDLE, NEWEST, broken(hopeless, b"[]"))
    planned = {name: projections.manage("quarantine", "retry", name) for name in MODES.values()}
    assert projections.run(1, 2).report["state"] == "nothing-to-do"
    retried = {
        name: projections.manage("quarantine", "retry", name, "--apply") for name in MODES.values()
    }
    rerun = projections.run(1, 2)
    return Story(projections, with_fault, listed, shortened, planned, retried, rerun)


@pytest.mark.parametrize("mode", MODES)
def test_after_a_retry_the_result_is_that_of_a_run_without_the_fault(
    story: Story, mode: str
) -> None:
    name = MODES[mode]
    plan = story.planned[name]
    assert (plan.status, plan.report["state"]) == (0, "planned")
    assert plan.report["counts"]["events_retried"] == 3
    assert plan.report["counts"]["buckets_restated"] == 2
    assert f"{name}: 3 events of 3 persistence ids will be processed again" in plan.stdout
    assert story.retried[name].status == 0
    assert "starting Spark" not in story.retried[name].stderr
    assert story.rerun.status == 0, story.rerun.stderr
    assert stored(story.projections, name) == sorted(
        expected(name, [*OTHERS, IN_THE_MIDDLE, NEWEST, AFTER_HOPELESS])
    )
    assert story.with_fault[name] == sorted(
        expected(name, [*OTHERS, AFTER_HOPELESS], [IN_THE_MIDDLE, NEWEST])
    )
    # What fails again stays, with its new cause.
    assert list(quarantined(story.projections, name)) == [(HOPELESS, 1)]
    assert quarantined(story.projections, name)[HOPELESS, 1] == WRONG_TYPE


def test_events_in_quarantine_are_listed_with_version_time_bucket_and_cause(story: Story) -> None:
    events = [one for one in story.listed.report["details"]["events"] if one["projection"] == "log"]
    assert [(one["persistence_id"], one["sequence_nr"], one["time_bucket"]) for one in events] == [
        ("a|1", 2, "2024-03-01T00:00:00Z"),
        ("b|1", 2, "2024-03-01T01:00:00Z"),
        (HOPELESS, 1, "2024-03-01T00:00:00Z"),
    ]
    assert {(one["version"], one["cause"]) for one in events} == {(1, "not JSON")}
    assert "log: a|1 2 of 2024-03-01 00:00, version 1, 20" in story.listed.stdout
    shown = story.projections.manage("quarantine", "list", "log", "--persistence-id", HOPELESS)
    assert shown.report["counts"] == {"events": 1}
    assert story.shortened.report["counts"] == {"events": 2}
    assert "log: there are more than 2; raise --limit" in story.shortened.stdout


@pytest.mark.long
def test_discard_deletes_the_rows_and_keeps_who_and_why(story: Story) -> None:
    projections = story.projections
    options = ("quarantine", "discard", "log", "--reason", "a test of the actors")
    one = ("--persistence-id", HOPELESS, "--sequence-nr", "1")
    rows = projections.journal.rows("log")
    planned = projections.manage(*options, *one)
    assert planned.report["counts"] == {"events_discarded": 1}
    assert quarantined(projections, "log")
    done = projections.manage(*options, *one, "--apply")
    assert (done.status, done.report["state"]) == (0, "done")
    assert quarantined(projections, "log") == {}
    assert quarantined(projections, "totals")
    audits = sorted(projections.journal.own_rows("audit"), key=lambda row: row["at"].time)
    audit = audits[-1]
    assert audit["operation"] == "quarantine discard"
    assert audit["counts"] == {"events_discarded": 1}
    assert "and in no result: a test of the actors" in audit["plan"]
    assert f"log: {HOPELESS} 1 of 2024-03-01 00:00, version 1" in audit["plan"]
    assert audit["owner"]
    assert projections.journal.rows("log") == rows
    nothing = projections.manage(*options)
    assert (nothing.status, nothing.report["counts"]) == (0, {"events_discarded": 0})
    assert "log: nothing is in quarantine" in nothing.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list", "nobody"), "nobody"),
        (("retry", "nobody"), "nobody"),
        (("retry", "totals", "--sequence-nr", "1"), "a sequence nr alone is no event"),
        (
            ("retry", "totals", "--persistence-id", "x|1", "--apply"),
            "no event x|1 of totals is in quarantine (--persistence-id)",
        ),
        (
            ("discard", "totals", "--reason", "r", "--persistence-id", "c|1", "--sequence-nr", "9"),
            "no event c|1 9 of totals is in quarantine (--sequence-nr)",
        ),
        (("discard", "totals", "--sequence-nr", "1", "--reason", "r"), "alone is no event"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(
    story: Story, arguments: tuple[str, ...], words: str
) -> None:
    before = story.projections.states(), quarantined(story.projections, "totals")
    refused = story.projections.manage("quarantine", *arguments)
    assert refused.status == 2
    [line] = refused.error_lines
    assert words in line
    assert (story.projections.states(), quarantined(story.projections, "totals")) == before


@pytest.fixture
def projections(make_journal: Callable[..., Journal], tmp_path: Path) -> Projections:
    return Projections(make_journal(), tmp_path)


def test_a_run_that_processes_a_failed_time_bucket_takes_its_events_out_of_quarantine(
    projections: Projections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the result and the quarantine, the next run does it."""
    projections.define(LATEST, LATEST_TABLE)
    projections.insert(OTHERS[0], broken(IN_THE_MIDDLE))
    projections.list_persistence_ids()
    projections.validated(0)
    assert projections.run(0, 1).status == 1
    assert list(quarantined(projections, "latest")) == [("a|1", 2)]
    projections.insert(IN_THE_MIDDLE)

    def unavailable(*_: Any) -> None:
        raise CassandraUnavailable("not now")

    with monkeypatch.context() as patched:
        patched.setattr(quarantine, "release", unavailable)
        assert projections.run(0, 1).status == 1
    assert projections.offsets() == {}
    assert [state for _, _, state, _ in projections.states()] == ["failed"]
    assert list(quarantined(projections, "latest")) == [("a|1", 2)]
    assert projections.run(0, 1).status == 0
    assert quarantined(projections, "latest") == {}


@pytest.mark.long
def test_what_was_skipped_by_hand_or_deleted_stays_in_quarantine(projections: Projections) -> None:
    define(projections, fold().replace('mode="fold"', 'mode="fold", on_error="skip"'), BOOKS_TABLE)
    projections.insert(OTHERS[0], broken(IN_THE_MIDDLE), broken(move("b|1", 1, 0.3)))
    projections.list_persistence_ids()
    projections.validated(0)
    assert projections.run(0, 1).report["counts"]["quarantined"] == 2
    projections.insert(move("a|1", 3, 1.1))
    skipped = ("skip", "books", "--persistence-id", "a|1", "--apply")
    assert projections.manage(*skipped).status == 0
    projections.journal.insert("metadata", [{"persistence_id": "b|1", "deleted_to": 1}])
    plan = projections.manage("quarantine", "retry", "books")
    assert plan.report["counts"] == {
        "events_retried": 1, "persistence_ids": 1, "buckets_restated": 1, "events_left": 2,
    }  # fmt: skip
    assert "1 event stay: skipped by hand" in plan.stdout
    assert "1 event stay: they or the first events of their persistence ids" in plan.stdout


@pytest.mark.long
@pytest.mark.parametrize("command", [pytest.param("clear", marks=pytest.mark.long), "set-offset"])
def test_a_fold_computes_states_again_after_clear_and_set_offset_back(
    projections: Projections, command: str
) -> None:
    define(projections, table=BOOKS_TABLE)
    projections.insert(move("a|1", 1, 0.1), move("a|1", 2, 0.2), move("a|1", 3, 1.1))
    projections.insert(move("b|1", 1, 0.3))
    projections.list_persistence_ids()
    projections.validated(0, 1, 2)
    assert projections.run(0, 2).status == 0
    assert books(projections)["a|1"] == (3, 3, [1, 2, 3])
    # The states are wrong as soon as the journal is corrected; smaller values than before, which
    # Cassandra would not keep at the same write timestamp.
    projections.insert(move("a|1", 2, 0.2, -20), move("b|1", 1, 0.3, -5))
    series = ("--persistence-id", "a|1", "--to", "1") if command == "set-offset" else ()
    changed = projections.manage(command, "books", *series, "--apply")
    assert changed.status == 0, changed.stderr
    assert books(projections)["a|1"] == (3, 3, [1, 2, 3])
    assert projections.run(1, 2).status == 0
    assert books(projections) == {
        "a|1": (3, -18, [1, 2, 3]),
        "b|1": (1, -5 if command == "clear" else 1, [1]),
    }
    # They go on from there.
    projections.insert(move("a|1", 4, 2.1), move("b|1", 2, 2.2))
    assert projections.run(2, 3).status == 0
    assert books(projections)["a|1"] == (4, -17, [1, 2, 3, 4])
    assert books(projections)["b|1"][0] == 2


@pytest.mark.long
def test_an_event_before_the_first_time_bucket_is_retried_with_the_newest_of_its_fold(
    projections: Projections,
) -> None:
    text = fold().replace(
        'mode="fold"', 'mode="fold", from_="2024-03-01T01:00:00Z", on_error="skip"'
    )
    define(projections, text, BOOKS_TABLE)
    projections.insert(broken(move("a|1", 1, 0.2)), move("a|1", 2, 1.1))
    projections.list_persistence_ids()
    projections.validated(0, 1)
    assert projections.run(0, 2).report["counts"]["quarantined"] == 1
    assert books(projections)["a|1"] == (2, 1, [2])
    projections.insert(move("a|1", 1, 0.2, 10))
    retried = projections.manage("quarantine", "retry", "books", "--apply")
    assert retried.report["counts"]["buckets_restated"] == 1
    assert projections.run(1, 2).status == 0
    assert books(projections)["a|1"] == (2, 11, [1, 2])
    assert quarantined(projections, "books") == {}
