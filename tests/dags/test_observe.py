"""Alarms reach the notifier: Airflow, the application and Cassandra are the real ones."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid1

import httpx
import pytest

from embedded.airflow import rest
from embedded.cassandra.server import Endpoint
from tests.dags.conftest import ALARMS, OBSERVED, PATIENCE_S, SILENT, VIEWER, Doors
from tests.integration.project.projections import TOTALS, TOTALS_TABLE, Projections
from tests.integration.status.status_reading import Ledger
from tests.integration.support import Journal, control_of
from tests.openmetrics import families
from tidemark import clock
from tidemark.cassandra.schema import create_own_tables
from tidemark.ledger import quarantine
from tidemark.ledger.piece import State
from tidemark.project.definition import catalog
from tidemark_airflow.observation.metrics import PREFIX


@pytest.fixture
def journal(doors: Doors, cassandra: Endpoint, tmp_path: Path) -> Iterator[Journal]:
    """Yield a journal that the application `observe` of the doors reads."""
    with control_of(cassandra) as control:
        journal = Journal.create(
            control,
            cassandra.environment(),
            PROJECTIONS_DIR=str(tmp_path),
            FRESH_TAG_WRITE="3 h",
        )
        create_own_tables(control, journal.settings())
        variables = doors.home / OBSERVED
        variables.write_text(
            "".join(
                f"export {name}={shlex.quote(value)}\n"
                for name, value in journal.environment.items()
            )
        )
        yield journal
        variables.unlink()
        for keyspace in (journal.keyspace, journal.own_keyspace):
            control.execute_ddl(f"DROP KEYSPACE IF EXISTS {keyspace}")


def observed(doors: Doors) -> tuple[str, list[str]]:
    """Run the DAG; return its state, and the reasons with which it called the notifier."""
    run_id = rest.trigger(doors.client, "observe")
    state = rest.wait_for_run(doors.client, "observe", run_id, PATIENCE_S)["state"]
    calls = [reason for called_by, reason in doors.lines_of(ALARMS) if called_by == run_id]
    return state, sorted(reason.split(",")[0] for reason in calls)


def test_each_alarm_reaches_the_notifier_once_when_it_begins_and_once_when_it_ends(
    doors: Doors, journal: Journal, tmp_path: Path
) -> None:
    first = clock.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=9)
    made = Projections(journal, tmp_path)
    made.define(TOTALS.replace("version: 1", "version: 1\nfresh-within: 4 h"), TOTALS_TABLE)
    [definition] = catalog.select(tmp_path, ["totals"]).definitions
    subject, version = definition.subject(journal.keyspace), definition.fingerprint
    ledgers = {name: Ledger(journal, first, name) for name in ("tag-write", "validate")} | {
        "project": Ledger(journal, first, "project", subject, version)
    }
    for ledger in ledgers.values():
        ledger.end(State.DONE, *range(8))
    assert observed(doors) == ("success", [])

    # All faults at once: tag-write is undone, events are missing, and one has no JSON.
    ledgers["tag-write"].end(State.FAILED, 3, error="no such table")
    ledgers["project"].end(State.HELD, 3, error="gap: p|1 red 4..6 missing")
    source, application = f"{journal.keyspace}.tag_views", "project/totals"
    record = {
        **{"source": source, "application": application, "persistence_id": "p|1"},
        **{"sequence_nr": 1, "timestamp": uuid1(), "cause": "no JSON"},
    }
    quarantine.write_one(journal.control, journal.settings(), record, run_id="r")
    rest.unpause(doors.client, "validate", paused=True)
    try:
        (doors.home / SILENT).touch()
        assert observed(doors) == ("failed", [])
        (doors.home / SILENT).unlink()
        at = (first + timedelta(hours=3)).isoformat().replace("+00:00", "Z")
        assert observed(doors) == (
            "success",
            [
                f"begins: gap: projection totals: the time bucket {at} is held: gap: p|1 red"
                " 4..6 missing",
                f"begins: late: projection totals: complete up to {at}",
                f"begins: late: tag-write: complete up to {at}",
                "begins: paused: DAG validate: paused",
                "begins: quarantine: projection totals: 1 in quarantine",
            ],
        )
        assert observed(doors) == ("success", [])
        figures = httpx.get(
            f"{doors.address}{PREFIX}/", headers=doors.client.headers, timeout=PATIENCE_S
        )
        assert figures.headers["content-type"].startswith("application/openmetrics-text")
        assert len(families(figures.text)["tidemark_alarm"].samples) == 5
    finally:
        rest.unpause(doors.client, "validate")
    for name in ("tag-write", "project"):
        ledgers[name].end(State.DONE, 3)
    place = quarantine.Place(source, application, "p|1")
    quarantine.delete(journal.control, journal.settings(), place)
    state, reasons = observed(doors)
    assert (state, [reason.split(": ")[:3] for reason in reasons]) == (
        "success",
        [
            ["ends", "gap", "projection totals"],
            ["ends", "late", "projection totals"],
            ["ends", "late", "tag-write"],
            ["ends", "paused", "DAG validate"],
            ["ends", "quarantine", "projection totals"],
        ],
    )


@pytest.mark.usefixtures("journal")
def test_figures_need_a_login_and_whoever_may_read_the_logs_may_read_them(doors: Doors) -> None:
    address = f"{doors.address}{PREFIX}/"
    assert httpx.get(address, timeout=PATIENCE_S).status_code == 401
    with doors.airflow.client(VIEWER) as viewer:
        figures = httpx.get(address, headers=viewer.headers, timeout=PATIENCE_S)
    assert (figures.status_code, figures.text) == (200, "# EOF\n")


def test_figures_without_cassandra_are_no_answer(doors: Doors) -> None:
    address = f"{doors.address}{PREFIX}/"
    variables = doors.home / OBSERVED
    variables.write_text("export TIDEMARK_CASSANDRA_HOSTS=127.0.0.1:1\n")
    try:
        answer = httpx.get(address, headers=doors.client.headers, timeout=PATIENCE_S)
    finally:
        variables.unlink()
    assert answer.status_code == 503
    assert "cannot reach Cassandra" in answer.json()["detail"]
