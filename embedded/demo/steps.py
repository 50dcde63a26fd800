"""The main job over real data: load the flights, let Airflow run the DAGs, show the outcome.

A part of the flights is also appended to a topic of Kafka, replicated, and projected from there,
and projected into a table of PostgreSQL.

Each step looks at the ledger first: a second run does no work twice, and a run that was
interrupted goes on where the last one stopped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx

from embedded import applications
from embedded.airflow import rest
from embedded.airflow.server import Airflow
from embedded.cassandra.server import Cassandra
from embedded.demo import correction, summary
from embedded.errors import EmbeddedError
from embedded.kafka.server import Kafka
from embedded.paths import AIRFLOW_HOME, CASSANDRA_HOME, KAFKA_HOME, POSTGRES_HOME, ROOT
from embedded.postgres.server import Postgres, PostgresEndpoint
from embedded.progress import ProgressLine
from examples.flights.plan import load_window
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import SCHEMA_DIR, create_keyspace, create_tables
from tidemark.ledger.applications import PROJECT, PURGE, TAG_WRITE, VALIDATE
from tidemark.ledger.pieces import Pieces
from tidemark.project.definition import catalog
from tidemark.settings import Settings
from tidemark.window import Window, iso

PURGED_DAYS = 7
PUBLISHED_DAYS = 7
CHAIN = "chain"
STEPS = ("tag_write", "validate", "project")
"""The DAGs of the chain's steps."""
OTHER_READ_MODELS = {"TIDEMARK_PROJECTIONS_DIR": str(ROOT / "include" / "sql" / "demo")}
"""Those of the flights in Kafka, and in PostgreSQL."""
_STARTED_BY_ASSET_S = 120.0
_RUN_S = 1800.0
_UNWIND_S = 30.0


def run(months: int) -> None:
    """Run the demo over the first `months` months of 2013.

    Raises:
        EmbeddedError: a server did not start, a DAG run failed, or the read model disagrees with
            the CSV.
    """
    progress = ProgressLine("demo")
    with ExitStack() as started:
        node = Cassandra(CASSANDRA_HOME)
        _stop_if_interrupted(started, node.stop, ran_before=node.endpoint() is not None)
        broker = Kafka(KAFKA_HOME)
        _stop_if_interrupted(started, broker.stop, ran_before=broker.address() is not None)
        database = Postgres(POSTGRES_HOME)
        _stop_if_interrupted(started, database.stop, ran_before=database.endpoint() is not None)
        pool = started.enter_context(ThreadPoolExecutor(2))
        address, postgres = pool.submit(broker.start), pool.submit(database.start)
        environment = applications.environment(node.start(), address.result(), postgres.result())
        airflow = Airflow(AIRFLOW_HOME, environment)
        _stop_if_interrupted(started, airflow.stop, ran_before=airflow.url() is not None)
        with patch.dict(os.environ, environment):
            settings = Settings.load()
        # Airflow mostly waits while it starts.
        starting = started.enter_context(ThreadPoolExecutor(1)).submit(airflow.start)
        run_application("examples/load_flights.py", environment, "--months", str(months))
        run_application("examples/publish_flights.py", environment, "--days", str(PUBLISHED_DAYS))
        url = starting.result()
        window = load_window(months)
        agrees = _run_steps(settings, airflow, window, environment, postgres.result(), progress)
    print(f"\nAirflow: {url}    Data Docs: {settings.data_docs_dir / 'index.html'}")
    print(f"In Airflow {airflow.login()}.")
    print("The servers run on; `make down` stops them. Next: docs/first-projection.md")
    if not agrees:
        raise EmbeddedError("a read model disagrees with the CSV", "above", "please report this")


def _stop_if_interrupted(
    started: ExitStack, stop: Callable[[], object], *, ran_before: bool
) -> None:
    """Stop a server after Ctrl-C or SIGTERM unless it ran before; after an error it stays up."""

    def at_the_end(kind: type[BaseException] | None, *_: object) -> None:
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt | SystemExit)
        if interrupted and not ran_before:
            stop()

    started.push(at_the_end)


def _run_steps(
    settings: Settings,
    airflow: Airflow,
    window: Window,
    environment: Mapping[str, str],
    postgres: PostgresEndpoint,
    progress: ProgressLine,
) -> bool:
    with Control(settings) as control, airflow.client() as client:
        create_read_models(control, settings)
        steps = Steps(control, settings, client, window)
        steps.unpause(CHAIN, "purge", "replicate")
        if steps.chain():
            steps.plan_of_purge()
        # Before, the assets of the chain would have started them, and they have nothing to do.
        steps.unpause(*STEPS)
        steps.purge()
        steps.replicate()
        days = Window(window.start, window.start + timedelta(days=PUBLISHED_DAYS))
        options = ("--window-start", iso(days.start), "--window-end", iso(days.end))
        summary.create_departures(postgres)
        run_application("spark_apps/project.py", {**environment, **OTHER_READ_MODELS}, *options)
        correction.create_tables(control, settings)

        def event_groups(*arguments: str) -> None:
            # One of the two groups is rolled back, which is exit status 3.
            run_application(
                "spark_apps/run_event_groups.py", environment, *arguments, accepted=(0, 3)
            )

        correction.run(control, settings, event_groups)
        progress.done("all steps are done")
        agrees = summary.show(control, settings, window)
        agrees &= summary.show_topic(control, settings, days)
        return summary.show_departures(postgres, settings, days) and agrees


@dataclass
class Steps:
    """The DAG runs of the demo, one after the other."""

    control: Control
    settings: Settings
    client: httpx.Client
    window: Window

    def unpause(self, *dags: str) -> None:
        """Let DAGs run once they are parsed; a new Airflow has them paused."""
        rest.wait_until("the DAGs to be parsed", _RUN_S, lambda: self._known(dags))
        for dag_id in dags:
            rest.unpause(self.client, dag_id)

    def chain(self) -> bool:
        """Run the DAG `chain` over the window.

        Returns:
            Whether it has updated read models, so that their asset starts purge.
        """
        if not any(map(self._pending, self._subjects().values())):
            ProgressLine(CHAIN).done("every time bucket is done already")
            return False
        run_id = rest.trigger(self.client, CHAIN, conf=_conf(self.window))
        self._wait(CHAIN, run_id, self._step)
        return "success" in rest.task_states(self.client, CHAIN, run_id, "project")

    def _step(self) -> str:
        """Return the first step of the chain that is not done, and its open time buckets."""
        for name, subjects in self._subjects().items():
            if number := self._pending(subjects):
                return f"{name}, {number} time buckets to do"
        return "all time buckets are done"

    def plan_of_purge(self) -> None:
        """Wait for the run that the chain's last asset starts: it shows what could be purged."""
        self._wait("purge", self._started_by_asset("purge"))

    def purge(self) -> None:
        """Purge the tag views of the first week."""
        week = Window(self.window.start, self.window.start + timedelta(days=PURGED_DAYS))
        if not self._pending({PURGE: [self.settings.journal_keyspace]}, week):
            ProgressLine("purge").done("the first week is purged already")
            return
        run_id = rest.trigger(self.client, "purge", conf={**_conf(week), "dry_run": False})
        self._wait("purge", run_id)

    def replicate(self) -> None:
        """Bring the topic of flights into kafka-journal's tables."""
        run_id = rest.trigger(self.client, "replicate", conf={})
        self._wait("replicate", run_id)

    def _subjects(self) -> dict[str, dict[str, list[str]]]:
        """Return the subjects of the pieces, by DAG and application."""
        journal = self.settings.journal_keyspace
        definitions = catalog.load(self.settings.projections_dir)
        return {
            "tag_write": {TAG_WRITE: [journal]},
            "validate": {VALIDATE: [journal]},
            "project": {PROJECT: [definition.subject(journal) for definition in definitions]},
        }

    def _pending(self, subjects: Mapping[str, list[str]], window: Window | None = None) -> int:
        """Return how many time buckets are not done, summed over the subjects."""
        wanted = set((window or self.window).buckets(self.settings.bucket_size))
        return sum(
            len(
                wanted
                - Pieces(
                    self.control,
                    self.settings.keyspace,
                    application,
                    subject,
                    self.settings.bucket_size,
                ).done()
            )
            for application, names in subjects.items()
            for subject in names
        )

    def _known(self, dags: tuple[str, ...]) -> bool | None:
        present = rest.call(self.client, "GET", "dags?limit=100")["dags"]
        return set(dags) <= {dag["dag_id"] for dag in present} or None

    def _started_by_asset(self, dag_id: str) -> str:
        """Return the run that the previous asset started: the newest, which must appear soon."""

        def probe() -> str | None:
            active = [
                run
                for run in rest.runs(self.client, dag_id)
                if run["run_type"] == "asset_triggered" and run["state"] not in rest.OVER
            ]
            return str(active[-1]["dag_run_id"]) if active else None

        return rest.wait_until(f"{dag_id} to be started by its asset", _STARTED_BY_ASSET_S, probe)

    def _wait(self, dag_id: str, run_id: str, step: Callable[[], str] | None = None) -> None:
        progress = ProgressLine(dag_id)

        def probe() -> dict[str, Any] | None:
            run: dict[str, Any] = rest.call(self.client, "GET", f"dags/{dag_id}/dagRuns/{run_id}")
            details = f": {step()}" if step else ""
            progress.update(f"{run['state']} in Airflow{details}")
            return run if run["state"] in rest.OVER else None

        ended = rest.wait_until(f"{dag_id} {run_id} to be over", _RUN_S, probe)
        if ended["state"] != "success":
            log = rest.task_log(self.client, dag_id, run_id, dag_id)
            raise EmbeddedError(
                f"the run {run_id} of {dag_id} failed: {log.splitlines()[-1]}",
                f"DAG {dag_id}",
                "read its log in Airflow's UI",
            )
        progress.done("done by Airflow")


def _conf(window: Window) -> dict[str, Any]:
    return {"window_start": iso(window.start), "window_end": iso(window.end)}


def run_application(
    program: str, environment: Mapping[str, str], *options: str, accepted: tuple[int, ...] = (0,)
) -> None:
    """Run an application as a user would; its progress goes through, its report is checked.

    Args:
        program: its file, from the directory of the project.
        environment: of this process, and what is added to it.
        options: of the command line.
        accepted: the exit statuses of a run that has done its work.

    Raises:
        EmbeddedError: its status is none of `accepted`.
    """
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    running = subprocess.Popen(
        [sys.executable, str(ROOT / program), *options],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        output, _ = running.communicate()
    except KeyboardInterrupt:
        # The terminal has told it as well: let it give its locks back.
        running.wait(_UNWIND_S)
        raise
    except SystemExit:
        running.terminate()
        running.wait(_UNWIND_S)
        raise
    if running.returncode not in accepted:
        raise EmbeddedError(f"{Path(program).name} failed", program, "its error is above")
    *text, report = output.splitlines()
    if json.loads(report)["state"] == "done":
        print("\n".join(text))


def create_read_models(control: Control, settings: Settings) -> None:
    """Make the keyspace and the tables of the flights' read models, unless they are there."""
    create_keyspace(control, applications.READ_MODEL_KEYSPACE, settings.replication)
    create_tables(control, SCHEMA_DIR / "flights.cql", applications.READ_MODEL_KEYSPACE)
