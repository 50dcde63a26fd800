"""The DAGs that assets chain, in a real scheduler, with real Spark on a real journal."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

import httpx
import psutil
import pytest
from playwright.sync_api import Page, expect

from embedded.airflow import rest
from embedded.airflow.server import Airflow
from tests.dags.asset_events import events_of
from tests.dags.browser import chromium
from tests.dags.conftest import PARSED_RARELY
from tests.integration import flights
from tests.integration.conftest import control, make_journals, pool
from tests.integration.flights import FlightsJournal
from tests.integration.project.flights_read_models import assert_shipped, tag_rows
from tests.integration.support import Journal

__all__ = ["control", "make_journals", "pool"]

WINDOW = {"window_start": "2013-01-01T00:00:00Z", "window_end": "2013-01-06T00:00:00Z"}
DAGS = ("tag_write", "validate", "project", "purge")
OTHERS = ("reconcile", "submit_event_groups")
DEADLINE_S = 300
SHOWN_MS = 60_000


@dataclass
class CommandLines:
    """A watcher that collects the command lines of all processes of this machine."""

    seen: set[str] = field(default_factory=set)
    _ended: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> threading.Thread:
        """Watch until `end`."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        return thread

    def end(self) -> None:
        """Stop watching."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            for process in psutil.process_iter(["cmdline"]):
                self.seen.add("\0".join(process.info["cmdline"] or []))


@dataclass(frozen=True)
class Chain:
    """An Airflow, with its home, whose applications work on a journal."""

    loaded: FlightsJournal
    client: httpx.Client
    home: Path
    password: str

    def trigger(self, dag_id: str, **conf: object) -> str:
        """Trigger a DAG with the window, wait for the end, and return the run's id."""
        run_id = rest.trigger(self.client, dag_id, conf={**WINDOW, **conf})
        rest.wait_for_run(self.client, dag_id, run_id, DEADLINE_S)
        return run_id

    def by_asset(self, dag_id: str) -> list[str]:
        """Return the ids of the runs that an asset has started."""
        runs = rest.runs(self.client, dag_id)
        return [run["dag_run_id"] for run in runs if run["run_type"] == "asset_triggered"]


@pytest.fixture(scope="module")
def chain(
    state: Path,
    make_journals: Callable[..., Journal],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Chain]:
    directory = tmp_path_factory.mktemp("chain") / "projections"
    loaded = FlightsJournal.create(make_journals, directory, flights=150, CADENCE="off")
    environment = {**PARSED_RARELY, **loaded.journal.environment}
    server = Airflow(state / "chain", environment)
    try:
        server.start()
        with server.client() as client:
            rest.wait_until(
                "the DAGs to be parsed",
                DEADLINE_S,
                lambda: _known(client) >= {*DAGS, *OTHERS} or None,
            )
            for dag_id in (*DAGS, *OTHERS):
                rest.unpause(client, dag_id)
            password = environment["TIDEMARK_CASSANDRA_PASSWORD"]
            yield Chain(loaded, client, state / "chain", password)
    finally:
        server.stop()


def _known(client: httpx.Client) -> set[str]:
    return {dag["dag_id"] for dag in rest.call(client, "GET", "dags")["dags"]}


@dataclass(frozen=True)
class FirstRuns:
    """A first run of `tag_write`, what state those that it led to ended in, and all processes."""

    run_id: str
    states: dict[str, str | None]
    command_lines: set[str]


@pytest.fixture(scope="module")
def first_runs(chain: Chain) -> FirstRuns:
    commands = CommandLines()
    watching = commands.watch()
    run_id = chain.trigger("tag_write")
    assert rest.task_state(chain.client, "tag_write", run_id, "tag_write") == "success", (
        rest.task_log(chain.client, "tag_write", run_id, "tag_write")
    )
    states: dict[str, str | None] = {}
    for dag_id in DAGS[1:]:
        [run] = rest.wait_for_runs(chain.client, dag_id, "asset_triggered", 1, DEADLINE_S)
        first = 0 if dag_id == "project" else -1
        states[dag_id] = rest.task_state(chain.client, dag_id, run["dag_run_id"], dag_id, first)
        if dag_id == "purge":
            # The window that was just done never holds time buckets past their retention.
            log = rest.task_log(chain.client, dag_id, run["dag_run_id"], "resolve_window")
            assert "no window was given" in log
            continue
        window = rest.xcom(chain.client, dag_id, run["dag_run_id"], "resolve_window")
        assert (window["start"], window["end"]) == tuple(WINDOW.values())
    commands.end()
    watching.join()
    return FirstRuns(run_id, states, commands.seen)


def test_each_dag_starts_when_the_one_before_has_produced_something(
    chain: Chain, first_runs: FirstRuns
) -> None:
    # purge, started by an asset, is a dry run: nothing is deleted, the plan is in its log.
    assert first_runs.states == {"validate": "success", "project": "success", "purge": "skipped"}
    journal, events = chain.loaded.journal, chain.loaded.events
    assert tag_rows(journal) == flights.expected_tag_rows(events)
    assert_shipped(journal, events)
    [audited] = journal.own_rows("audit")
    assert audited["dry_run"] is True

    assert any("spark_apps/tag_write.py" in line for line in first_runs.command_lines)
    assert not any(chain.password in line for line in first_runs.command_lines)
    log = rest.task_log(chain.client, "tag_write", first_runs.run_id, "tag_write")
    assert "tag rows written" in log
    assert chain.password not in log


@pytest.mark.usefixtures("first_runs")
def test_nothing_new_starts_nothing_downstream(chain: Chain) -> None:
    run_id = chain.trigger("tag_write")
    assert rest.task_state(chain.client, "tag_write", run_id, "tag_write") == "skipped"
    assert events_of(chain.home, "tag_write", run_id) == []


def test_a_group_from_the_form_is_submitted_or_refused_with_its_line_and_column(
    chain: Chain,
) -> None:
    journal, task = chain.loaded.journal, "submit_event_groups"
    statement = f"UPDATE {journal.keyspace}.typed SET n = 4711 WHERE id = 1"
    group = f"group: typed\nevents:\n  - name: set\n    statement: {statement}\n"
    made = f"CREATE TABLE {journal.keyspace}.typed (id int PRIMARY KEY, n int)"
    journal.control.execute_ddl(made)
    commands = CommandLines()
    watching = commands.watch()

    def submitted(text: str) -> tuple[str | None, str, str]:
        run_id = rest.trigger(chain.client, task, conf={"group": text})
        rest.wait_for_run(chain.client, task, run_id, DEADLINE_S)
        state = rest.task_state(chain.client, task, run_id, task)
        return state, run_id, rest.task_log(chain.client, task, run_id, task)

    state, run_id, log = submitted(group.replace("name: set", "nam: set"))
    assert state == "failed"
    assert re.search(r"unknown key nam \(/\S+/group\.yaml:3:5\)\nnext: write name", log), log
    path = f"dags/{task}/dagRuns/{quote(run_id)}/taskInstances/{task}"
    assert rest.call(chain.client, "GET", path)["try_number"] == 1
    assert submitted(group)[0] == "success"
    [stored] = journal.own_rows("event_group")
    assert (stored["id"], statement in stored["definition"]) == ("typed", True)
    commands.end()
    watching.join()
    assert any("/group.yaml" in line for line in commands.seen)
    assert not any("4711" in line for line in commands.seen)


@pytest.mark.long
@pytest.mark.usefixtures("first_runs")
def test_failed_check_holds_its_time_bucket_and_its_buttons_lead_to_green(
    chain: Chain, tmp_path: Path
) -> None:
    journal = chain.loaded.journal
    whole = journal.rows("tag_views")
    doomed = next(row for row in journal.rows("tag_views") if row["tag_pid_sequence_nr"] == 2)
    key = ("tag_name", "timebucket", "timestamp", "persistence_id", "tag_pid_sequence_nr")
    journal.control.execute(
        f"DELETE FROM {journal.keyspace}.tag_views WHERE "
        + " AND ".join(f"{name} = ?" for name in key),
        [doomed[name] for name in key],
    )
    before = chain.by_asset("project")
    red = chain.trigger("validate", force=True)
    assert rest.task_state(chain.client, "validate", red, "validate") == "failed"
    log = rest.task_log(chain.client, "validate", red, "validate")
    assert doomed["persistence_id"] in log
    # The time buckets that passed once more start project, which has done them.
    project_runs = rest.wait_for_runs(
        chain.client, "project", "asset_triggered", len(before) + 1, DEADLINE_S
    )
    started = project_runs[-1]["dag_run_id"]
    assert rest.task_state(chain.client, "project", started, "project", 0) == "skipped"

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.set_default_timeout(SHOWN_MS)
        walk = Walk(chain, page, tmp_path)
        planned = walk.press("validate", red, "Next step", "reconcile")
        assert rest.task_state(chain.client, "reconcile", planned, "reconcile") == "skipped"
        assert len(journal.rows("tag_views")) == len(whole) - 1
        repaired = walk.press("reconcile", planned, "Next step", "reconcile")
        assert rest.task_state(chain.client, "reconcile", repaired, "reconcile") == "success"
        assert journal.rows("tag_views") == whole
        green = walk.press("validate", red, "Run again", "validate")
    assert rest.task_state(chain.client, "validate", green, "validate") == "success"


@dataclass(frozen=True)
class Walk:
    """The way of somebody who follows the buttons; each page leaves a picture."""

    chain: Chain
    page: Page
    pictures: Path

    def press(self, dag_id: str, run_id: str, button: str, leads_to: str) -> str:
        """Follow a task's button, start what it fills in, and return the run when it is over."""
        base = str(self.chain.client.base_url).partition("/api/")[0]
        self.page.goto(f"{base}/dags/{dag_id}/runs/{quote(run_id)}/tasks/{dag_id}/details")
        link = self.page.get_by_role("link", name=button)
        expect(link).to_be_visible(timeout=SHOWN_MS)
        self._picture(f"{dag_id} {button}")
        self.page.goto(f"{base}{link.get_attribute('href')}")
        expect(self.page.get_by_role("heading", name=f"Trigger {leads_to}")).to_be_visible()
        self._picture(f"{leads_to} form")
        self.page.get_by_role("button", name="Trigger").click()
        self.page.wait_for_url(re.compile(rf"/dags/{leads_to}/runs/"))
        started = unquote(self.page.url.rpartition("/")[2])
        rest.wait_for_run(self.chain.client, leads_to, started, DEADLINE_S)
        return started

    def _picture(self, name: str) -> None:
        self.page.screenshot(path=self.pictures / f"{name}.png")
