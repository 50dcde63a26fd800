"""The tables of the last observation, of the history of its figures, and of the alarms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from tidemark import clock
from tidemark.cassandra.schema import table
from tidemark.context import RunContext
from tidemark.observations.alarms import Alarm, AlarmKey, AlarmKind, AlarmState
from tidemark.observations.metrics import Observation, Sample, series

DAYS = 14
"""How long the history is kept; the table deletes older values."""


def last(run: RunContext) -> Observation | None:
    """Return the last observation of the journal; None if there is none."""
    keyspace, journal = run.settings.keyspace, run.settings.journal_keyspace
    if run.control.table_columns(keyspace, "observation") is None:
        return None
    rows = run.control.execute(
        f"SELECT at, every_minutes, samples FROM {table(keyspace, 'observation')}"
        " WHERE journal_keyspace = ?",
        (journal,),
    )
    if not rows:
        return None
    samples = [
        Sample(name, tuple(labels), value) for name, labels, value in json.loads(rows[0]["samples"])
    ]
    at = rows[0]["at"].replace(tzinfo=UTC)
    return Observation(journal, at, samples, rows[0]["every_minutes"])


def write(run: RunContext, observation: Observation) -> None:
    """Store an observation: its history first, so that the last observation is always in it."""
    keyspace, journal = run.settings.keyspace, observation.journal
    run.control.execute_many(
        f"INSERT INTO {table(keyspace, 'observation_history')}"
        " (journal_keyspace, series, day, at, value) VALUES (?, ?, ?, ?, ?)",
        (
            (
                *(journal, series(journal, sample.name, *sample.labels)),
                *(f"{observation.at:%Y-%m-%d}", observation.at, sample.value),
            )
            for sample in observation.samples
        ),
    )
    row: dict[str, object] = {
        "journal_keyspace": journal,
        "at": observation.at,
        "samples": json.dumps(observation.samples),
    }
    # An observation by hand does not change the schedule.
    if observation.every_minutes is not None:
        row["every_minutes"] = observation.every_minutes
    run.control.execute(
        f"INSERT INTO {table(keyspace, 'observation')} ({', '.join(row)})"
        f" VALUES ({', '.join('?' * len(row))})",
        list(row.values()),
    )


def history(
    run: RunContext, name: str, *labels: str, since: datetime
) -> list[tuple[datetime, float]]:
    """Return the values of a figure since a time, the oldest first; at most those of 14 days."""
    keyspace, journal = run.settings.keyspace, run.settings.journal_keyspace
    if run.control.table_columns(keyspace, "observation_history") is None:
        return []
    now = clock.now()
    first = max(since, now - timedelta(days=DAYS))
    days = [first.date() + timedelta(days=n) for n in range((now.date() - first.date()).days + 1)]
    answers = run.control.execute_many(
        f"SELECT at, value FROM {table(keyspace, 'observation_history')}"
        " WHERE journal_keyspace = ? AND series = ? AND day = ? AND at >= ?",
        [(journal, series(journal, name, *labels), day.isoformat(), first) for day in days],
    )
    return [(row["at"].replace(tzinfo=UTC), row["value"]) for rows in answers for row in rows]


def alarms(run: RunContext) -> Sequence[Alarm]:
    """Return the alarms of the journal, sorted by kind and subject."""
    keyspace, journal = run.settings.keyspace, run.settings.journal_keyspace
    if run.control.table_columns(keyspace, "alarm") is None:
        return []
    rows = run.control.execute(
        f"SELECT kind, subject, state, since, what FROM {table(keyspace, 'alarm')}"
        " WHERE journal_keyspace = ?",
        (journal,),
    )
    return [
        Alarm(
            *(AlarmKind(row["kind"]), row["subject"], AlarmState(row["state"])),
            *(row["since"].replace(tzinfo=UTC), row["what"]),
        )
        for row in rows
    ]


def write_alarms(run: RunContext, changed: Mapping[AlarmKey, Alarm | None]) -> None:
    """Store alarms, and delete those that are None."""
    name, journal = table(run.settings.keyspace, "alarm"), run.settings.journal_keyspace
    run.control.execute_many(
        f"INSERT INTO {name} (journal_keyspace, kind, subject, state, since, what)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (journal, alarm.kind, alarm.subject, alarm.state, alarm.since, alarm.what)
            for alarm in changed.values()
            if alarm is not None
        ],
    )
    run.control.execute_many(
        f"DELETE FROM {name} WHERE journal_keyspace = ? AND kind = ? AND subject = ?",
        [(journal, *key) for key, alarm in changed.items() if alarm is None],
    )
