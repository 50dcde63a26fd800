"""The task that observes the system, sends its figures, and calls the notifier about alarms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from airflow.sdk import BaseHook, BaseOperator, Context
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException, AirflowRuntimeError

from tidemark_airflow import alerts, telemetry
from tidemark_airflow.environment.connections import (
    cassandra_environment,
    kafka_environment,
)
from tidemark_airflow.environment.drivers import observe
from tidemark_airflow.environment.installation import home
from tidemark_airflow.journals.journal import OF_ENVIRONMENT, AirflowJournal
from tidemark_airflow.journals.journal import environment as environment_of
from tidemark_airflow.timetables import OBSERVE_MINUTES, minutes_of, scheduled_dags


class ObserveOperator(BaseOperator):
    """Runs `spark_apps/observe.py` without spark-submit.

    The notifier gets the context of the task with two more keys: `alarm`, a dict with `event`
    (`begins` or `ends`), `kind`, `subject`, `since` and `what`, and `reason`, the same in a line.
    An alarm does not fail the task. The XCom `report` has the open alarms and the sent messages.

    Raises:
        AirflowException: nothing could be measured, or the notifier has failed; it is called again
            in the next run.
    """

    def __init__(self, *, journal: AirflowJournal = OF_ENVIRONMENT, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._journal = journal

    def execute(self, context: Context) -> None:
        """Observe, send the figures, and call the notifier once for each message."""
        journal = self._journal
        connection = BaseHook.get_connection(journal.arguments["cassandra_conn_id"])
        environment = {**cassandra_environment(connection), **environment_of(journal.name)}
        with suppress(AirflowNotFoundException):
            environment |= kafka_environment(BaseHook.get_connection(journal.kafka_connection))
        airflow = {
            "every_minutes": minutes_of(*OBSERVE_MINUTES, journal) or None,
            "paused": _paused(cast("Any", context["ti"]), journal),
        }
        observed = json.loads(
            observe(home(), environment, "--json", "--airflow", json.dumps(airflow))
        )
        for line in observed["lines"]:
            self.log.warning("%s", line)
        telemetry.send_figures(observed["observation"])
        for alarm in observed["alarms"]:
            self.log.warning("open: %s", _line(alarm))
        report = {"alarms": observed["alarms"], "messages": observed["messages"]}
        cast("Any", context["ti"]).xcom_push(key="report", value=report)
        self._notify(context, observed["messages"], environment)

    def _notify(
        self,
        context: Context,
        messages: list[dict[str, str]],
        environment: Mapping[str, str],
    ) -> None:
        notify = alerts.notifier()
        if notify is None or not messages:
            return
        received, errors = [], []
        for message in messages:
            reason = f"{message['event']}: {_line(message)}"
            self.log.info("%s", reason)
            try:
                notify({**context, "alarm": message, "reason": reason})
            except Exception as error:
                errors.append(f"{reason}: {error}")
            else:
                received.append([message["event"], message["kind"], message["subject"]])
        if received:
            observe(home(), environment, "--received", json.dumps(received))
        if errors:
            raise AirflowException(f"the notifier has failed: {'; '.join(errors)}")


def _paused(ti: Any, journal: AirflowJournal) -> list[str]:
    paused = []
    for dag_id in scheduled_dags(journal):
        # A DAG that does not exist here is not paused.
        with suppress(AirflowRuntimeError):
            if ti.get_dag(dag_id).is_paused:
                paused.append(dag_id)
    return paused


def _line(alarm: Mapping[str, str]) -> str:
    return f"{alarm['kind']}: {alarm['subject']}: {alarm['what']}"
