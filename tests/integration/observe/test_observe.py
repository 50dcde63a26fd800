"""observe in a real Cassandra: lag, history, alarms from their beginning to their end."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from embedded.cassandra.server import Endpoint
from tests.integration.pool import Pool
from tests.integration.project.projections import (
    LATEST,
    LATEST_TABLE,
    START,
    TOTALS,
    TOTALS_TABLE,
    Projections,
    event,
)
from tests.integration.status.status_reading import Ledger, context, with_settings
from tests.integration.support import Journal
from tests.openmetrics import families
from tidemark import clock
from tidemark.ledger import quarantine
from tidemark.ledger.piece import State
from tidemark.observations import store
from tidemark.observations.alarms import AlarmKey
from tidemark.observe import run as observing
from tidemark.observe.run import Observed
from tidemark.project.definition import catalog
from tidemark.status import overview
from tidemark.status.projections import lag_history
from tidemark.status.rules import PartState

PROMISE = "version: 1\nfresh-within: 2 h"


def promised(definition: str) -> str:
    return definition.replace("version: 1", PROMISE)


@pytest.fixture
def empty(pool: Pool, cassandra: Endpoint, tmp_path: Path) -> Iterator[Journal]:
    """Yield an empty journal, for tests that start no Spark."""
    keyspaces = pool.take()
    yield Journal.over(
        pool.control,
        cassandra.environment(),
        keyspaces.journal,
        keyspaces.own,
        PROJECTIONS_DIR=str(tmp_path),
    )
    pool.give_back(keyspaces)


def observe(
    journal: Journal, hours: float, paused: list[str] | None = None, every: int | None = 5
) -> Observed:
    """Observe at a time in hours since START."""
    with patch.object(clock, "now", lambda: START + timedelta(hours=hours)):
        run = context(journal, "observe")
        return observing.observe(run, paused_dags=paused, every_minutes=every)


def messages(observed: Observed) -> list[str]:
    return sorted(
        f"{message.event} {message.alarm.kind} {message.alarm.subject}"
        for message in observed.messages
    )


def receive(journal: Journal, observed: Observed) -> None:
    """Confirm all messages, as the DAG does after the notifier has got them."""
    observing.confirm(
        context(journal),
        [
            (message.event, AlarmKey(message.alarm.kind, message.alarm.subject))
            for message in observed.messages
        ],
    )


def ledger_of(journal: Journal, name: str) -> Ledger:
    settings = journal.settings()
    [definition] = catalog.select(settings.projections_dir, [name]).definitions
    subject = definition.subject(settings.journal_keyspace)
    return Ledger(journal, START, "project", subject, definition.fingerprint)


def quarantined(journal: Journal, number: int) -> dict[str, Any]:
    return {
        "source": f"{journal.keyspace}.tag_views",
        "application": "project/totals",
        "persistence_id": "p|1",
        "sequence_nr": number,
        "timestamp": uuid.uuid1(),
        "cause": "no JSON",
    }


def values(observed: Observed) -> dict[tuple[str, ...], float]:
    assert observed.observation is not None
    return {(sample.name, *sample.labels): sample.value for sample in observed.observation.samples}


def test_lag_is_an_independent_count_of_the_events_after_the_cursor(
    journal: Journal, tmp_path: Path
) -> None:
    """tag_write, validate and project are the real ones; the count reads messages alone."""
    made = Projections(with_settings(journal, PROJECTIONS_DIR=str(tmp_path)), tmp_path)
    made.define(promised(LATEST), LATEST_TABLE)
    events = [
        event(f"p|{number % 7}", number // 7 + 1, number * 6 / 60, "red", kind="in", amount=1)
        for number in range(59)
    ]
    made.insert_messages(*events)
    made.list_persistence_ids()
    window = (
        *("--window-start", START.isoformat()),
        *("--window-end", (START + timedelta(hours=6)).isoformat()),
    )
    for application in ("tag_write", "validate"):
        result = made.journal.run(application, *window)
        assert result.status == 0, result.stderr
    assert made.run(0, 2).status == 0

    observed = values(observe(made.journal, 9))

    rows = journal.control.execute(f"SELECT timestamp FROM {journal.keyspace}.messages")
    cursor = START + timedelta(hours=2)
    gregorian = datetime(1582, 10, 15, tzinfo=UTC)
    times = [gregorian + timedelta(microseconds=row["timestamp"].time // 10) for row in rows]
    after = [at for at in times if at >= cursor]
    assert observed["projection_lag_events", "latest"] == len(after) == 39
    assert observed["projection_lag_seconds", "latest"] == 4 * 3600
    assert observed["projection_complete_to_timestamp_seconds", "latest"] == cursor.timestamp()
    assert observed["complete_to_timestamp_seconds", "validate"] == cursor.timestamp() + 4 * 3600
    assert observed["alarm", "late", "projection latest"] == 1


class TestAlarms:
    @pytest.fixture
    def journal(self, empty: Journal, tmp_path: Path) -> Journal:
        """Return a journal with a promise for everything, of which all is done to hour 8."""
        made = Projections(empty, tmp_path)
        made.define(promised(TOTALS), TOTALS_TABLE)
        journal = with_settings(empty, FRESH_TAG_WRITE="3 h", FRESH_VALIDATE="4 h")
        with patch.object(clock, "now", lambda: START + timedelta(hours=9)):
            for application in ("tag-write", "validate"):
                Ledger(journal, START, application).end(State.DONE, *range(8))
            ledger_of(journal, "totals").end(State.DONE, *range(8))
        return journal

    def test_promises_are_broken_and_kept_again_with_one_message_each(
        self, journal: Journal
    ) -> None:
        kept = observe(journal, 9)
        assert (messages(kept), kept.alarms) == ([], [])

        late = observe(journal, 10.5)
        assert messages(late) == ["begins late projection totals"]
        again = observe(journal, 10.6)
        assert messages(again) == messages(late), "nobody has received it"
        receive(journal, again)
        assert messages(observe(journal, 10.7)) == []

        later = observe(journal, 13)
        assert messages(later) == ["begins late tag-write", "begins late validate"]
        assert {alarm.subject for alarm in later.alarms} == {
            *("projection totals", "tag-write", "validate")
        }
        receive(journal, later)
        for application in ("tag-write", "validate"):
            Ledger(journal, START, application).end(State.DONE, *range(8, 12))
        ledger_of(journal, "totals").end(State.DONE, *range(8, 12))

        caught_up = observe(journal, 13.1)
        assert messages(caught_up) == [
            *("ends late projection totals", "ends late tag-write", "ends late validate")
        ]
        assert caught_up.alarms == []
        receive(journal, caught_up)
        assert messages(observe(journal, 13.2)) == []
        assert journal.own_rows("alarm") == []

    def test_a_gap_alarms_when_it_is_older_than_the_promise(self, journal: Journal) -> None:
        totals = ledger_of(journal, "totals")
        totals.end(State.HELD, 7, error="gap: p|1 red 4..6 missing")
        assert messages(observe(journal, 9)) == []
        held = observe(journal, 10)
        assert messages(held) == ["begins gap projection totals", "begins late projection totals"]
        assert "gap: p|1 red 4..6 missing" in held.alarms[0].what
        assert values(held)["projection_gap_age_seconds", "totals"] == 3600
        receive(journal, held)
        totals.end(State.DONE, 7)
        assert messages(observe(journal, 9.5)) == [
            *("ends gap projection totals", "ends late projection totals")
        ]

    def test_a_quarantine_alarms_when_it_grows_until_it_shrinks(self, journal: Journal) -> None:
        observe(journal, 9)
        for number in (1, 2):
            record = quarantined(journal, number)
            quarantine.write_one(journal.control, journal.settings(), record, run_id="r")
        grown = observe(journal, 9.1)
        assert messages(grown) == ["begins quarantine projection totals"]
        receive(journal, grown)
        assert messages(observe(journal, 9.2)) == []
        place = quarantine.Place(f"{journal.keyspace}.tag_views", "project/totals", "p|1", 1)
        quarantine.delete(journal.control, journal.settings(), place)
        assert messages(observe(journal, 9.3)) == ["ends quarantine projection totals"]

    def test_a_paused_dag_alarms_and_an_observation_by_hand_does_not_end_it(
        self, journal: Journal
    ) -> None:
        paused = observe(journal, 9, ["validate", "replicate"])
        assert messages(paused) == ["begins paused DAG validate"]
        receive(journal, paused)
        assert messages(observe(journal, 9.1, every=None)) == []
        assert messages(observe(journal, 9.2, [])) == ["ends paused DAG validate"]

    def test_a_broken_definition_ends_no_alarm(self, journal: Journal, tmp_path: Path) -> None:
        receive(journal, observe(journal, 10.5))
        file = tmp_path / "one.sql"
        definition = file.read_text()
        file.write_text(definition.replace("mode: bucket", "mode: bukket"))
        broken = observe(journal, 10.6)
        assert (messages(broken), len(broken.alarms)) == ([], 1)
        file.write_text(definition.replace("fresh-within: 2 h\n", ""))
        assert messages(observe(journal, 10.7)) == ["ends late projection totals"]


class TestOverview:
    @staticmethod
    def line(journal: Journal, hours: float) -> tuple[PartState, str]:
        with patch.object(clock, "now", lambda: START + timedelta(hours=hours)):
            lines = overview.overview(context(journal), None).lines
        [found] = [line for line in lines if line.subject == "observation"]
        return found.state, found.what

    def test_it_says_that_nothing_is_observed(self, empty: Journal) -> None:
        assert self.line(empty, 0) == (PartState.EMPTY, "nothing has run yet")
        observe(empty, 0)
        assert self.line(empty, 0.15) == (PartState.OK, "no alarm is open")
        state, what = self.line(empty, 0.2)
        assert state is PartState.STOPPED
        assert "nothing was observed since Friday 2024-03-01 00:00" in what

    def test_observations_by_hand_alone_are_not_missed(self, empty: Journal) -> None:
        observe(empty, 0, every=None)
        assert self.line(empty, 99)[0] is PartState.OK

    def test_an_observation_by_hand_keeps_the_schedule(self, empty: Journal) -> None:
        observe(empty, 0)
        observe(empty, 0.1, every=None)
        assert self.line(empty, 0.3)[0] is PartState.STOPPED

    def test_an_open_alarm_is_late(self, empty: Journal) -> None:
        observe(with_settings(empty, FRESH_VALIDATE="1 h"), 0)
        assert self.line(empty, 0) == (PartState.LATE, "1 open alarm: late validate")

    def test_a_promise_decides_whether_a_projection_is_late(
        self, empty: Journal, tmp_path: Path
    ) -> None:
        """Without it, a projection is late only if validate has not run for an hour."""
        Projections(empty, tmp_path).define(promised(TOTALS), TOTALS_TABLE)
        now = START + timedelta(hours=9)
        with patch.object(clock, "now", lambda: now):
            Ledger(empty, START, "validate").end(State.DONE, *range(8))
            ledger_of(empty, "totals").end(State.DONE, *range(6))
            lines = overview.overview(context(empty), None).lines
        [found] = [line for line in lines if line.subject == "projections"]
        assert found.state is PartState.LATE
        assert "complete up to 2024-03-01T06:00:00Z, promised within 2:00:00" in found.what


class TestHistory:
    def test_the_lag_over_time_is_read_by_series_over_midnight(
        self, empty: Journal, tmp_path: Path
    ) -> None:
        made = Projections(empty, tmp_path)
        made.define(TOTALS, TOTALS_TABLE, "totals.sql")
        made.define(LATEST, LATEST_TABLE, "latest.sql")
        counts = {"messages_checked": 4, "tag_rows_checked": 9}
        validate = Ledger(empty, START, "validate")
        for hour in (22, 23, 24, 25):
            validate.end(State.DONE, hour, counts=counts)
            observe(empty, hour + 1)
        with patch.object(clock, "now", lambda: START + timedelta(hours=26)):
            run = context(empty)
            found = lag_history(run, "latest")
            since = START + timedelta(hours=24)
            late = store.history(run, "projection_lag_events", "totals", since=since)
        assert [(value.events, value.seconds) for value in found] == [
            (4 * hours, 3600 * hours) for hours in (1, 2, 3, 4)
        ]
        assert [value.at for value in found] == [
            START + timedelta(hours=hour) for hour in (23, 24, 25, 26)
        ]
        assert [value for _, value in late] == [18, 27, 36]

    def test_values_are_deleted_after_14_days(self, empty: Journal) -> None:
        observe(empty, 0)
        [row, *_] = empty.control.execute(
            f"SELECT ttl(value) AS ttl FROM {empty.own_keyspace}.observation_history"
        )
        assert 0 < row["ttl"] <= store.DAYS * 86_400

    def test_status_shows_it(self, empty: Journal, tmp_path: Path) -> None:
        arguments = ("projections", "--history", "totals")
        assert empty.run_alone("status", *arguments).stdout == "nothing was observed\n"
        Projections(empty, tmp_path).define(TOTALS, TOTALS_TABLE)
        Ledger(empty, START, "validate").end(State.DONE, 0, counts={"tag_rows_checked": 9})
        run = context(empty, "observe")
        observing.observe(run, paused_dags=None, every_minutes=None)
        shown = empty.run_alone("status", *arguments).stdout.splitlines()
        assert shown[0].split() == ["observed", "(UTC)", "about", "events", "lag"]
        assert shown[1].split()[2:] == ["9", "1:00:00"]


class TestCommand:
    def test_it_prints_figures_messages_and_takes_confirmations(self, empty: Journal) -> None:
        journal = with_settings(empty, FRESH_VALIDATE="1 h")
        nothing = journal.run_alone("observe", "--last")
        assert (nothing.status, nothing.stdout) == (0, "nothing was observed yet\n")

        airflow = '{"every_minutes": 5, "paused": []}'
        observed = journal.run_alone("observe", "--json", "--airflow", airflow)
        assert (observed.status, observed.stderr) == (0, "")
        answer = json.loads(observed.stdout)
        [message] = answer["messages"]
        assert (message["event"], message["subject"]) == ("begins", "validate")
        assert answer["observation"]["every_minutes"] == 5

        received = json.dumps([[message[name] for name in ("event", "kind", "subject")]])
        assert journal.run_alone("observe", "--received", received).status == 0
        figures = journal.run_alone("observe", "--last", "--openmetrics").stdout
        assert "tidemark_alarm" in families(figures)
        shown = journal.run_alone("observe")
        assert "  late: validate: nothing has run yet, promised within 1:00:00" in shown.stdout
        assert json.loads(journal.run_alone("observe", "--last", "--json").stdout)["messages"] == []

    @pytest.mark.parametrize(("option", "value"), [("--airflow", "x"), ("--received", '[["a"]]')])
    def test_a_wrong_value_is_one_line(self, empty: Journal, option: str, value: str) -> None:
        found = empty.run_alone("observe", option, value)
        assert (found.status, found.stdout) == (2, "")
        assert "the value has another form" in found.stderr
