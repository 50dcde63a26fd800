"""The scheduled chain without Airflow's servers: the real DAG files, timetable and operator.

The real DAG objects decide the arguments of each application and the start of the next DAG, so
that a change of a DAG changes every history. Left out are Airflow's database and spark-submit: the
application runs inside the test process.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pendulum
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, Connection
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.timetables.base import DataInterval, TimeRestriction

from tests.integration.support import Result
from tidemark_airflow import tasks, timetables
from tidemark_airflow.operators import TidemarkOperator

ROOT = Path(__file__).resolve().parents[2]
CHAIN = ("tag_write", "validate", "project", "purge")

Application = Callable[[str, Sequence[str]], Result]
"""A function that runs an application by its name, with arguments."""


@cache
def dags(*settings: tuple[str, str]) -> Mapping[str, Any]:
    """Load the DAGs with these variables in Airflow's environment."""
    with patch.dict(os.environ, dict(settings)):
        bag = DagBag(str(ROOT / "dags"))
    assert not bag.import_errors, bag.import_errors
    return dict(bag.dags)


@dataclass(frozen=True)
class Ended:
    """The end of a task that ran an application.

    Attributes:
        application: the DAG of the task.
        arguments: the application's arguments, by try.
        results: the result of each try.
        state: success, skipped or failed.
        why: the text of the exception that ended the task.
        at: the history's time at the start of the task.
        seconds: the real time that the task took.
    """

    application: str
    arguments: Sequence[Sequence[str]]
    results: Sequence[Result]
    state: str
    why: str
    at: datetime
    seconds: float

    def __str__(self) -> str:
        statuses = ",".join(str(result.status) for result in self.results)
        how = f"{self.state} ({statuses}) {self.why}".strip()
        return f"{self.at:%Y-%m-%d %H:%M} {self.application} {how} [{self.seconds:.1f} s]"


@dataclass
class Chain:
    """A scheduler that knows the DAGs.

    Attributes:
        settings: TIDEMARK_ variables of Airflow's environment.
        run_application: the function that runs an application.
        now: the function that tells the present.
        wait: the function that moves the present on.
        last: the data interval of the last scheduled run.
        events: asset events that no run has consumed yet, by asset.
        count: the number of runs, for their ids.
    """

    settings: Mapping[str, str]
    run_application: Application
    now: Callable[[], datetime]
    wait: Callable[[timedelta], None]
    last: DataInterval | None = None
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    count: int = 0

    def due(self) -> tuple[datetime, DataInterval]:
        """Return the start of the next scheduled run, and its data interval."""
        schedule = dags(*self.settings.items())["tag_write"].timetable
        restriction = TimeRestriction(earliest=None, latest=None, catchup=False)
        present = pendulum.instance(self.now())
        with patch.object(timetables, "_now", lambda: present):
            info = schedule.next_dagrun_info(
                last_automated_data_interval=self.last, restriction=restriction
            )
        assert info is not None
        return info.run_after, info.data_interval

    def scheduled(self, interval: DataInterval, *, stop_after: str = "purge") -> list[Ended]:
        """Run the chain for an interval, as far as each DAG starts the next.

        Args:
            interval: the data interval of the first DAG.
            stop_after: the DAG after whose run the scheduler goes down; the events of that run's
               assets wait for the next scheduler.
        """
        self.last = interval
        run = SimpleNamespace(
            run_type=SimpleNamespace(value="scheduled"),
            logical_date=interval.start,
            data_interval_start=interval.start,
            data_interval_end=interval.end,
            consumed_asset_events=[],
            conf={},
        )
        ended = [self._run("tag_write", run)]
        for dag_id in CHAIN[1 : CHAIN.index(stop_after) + 1]:
            consumed = self._consume(dag_id)
            if consumed:
                ended.append(self._run(dag_id, _started_by(consumed)))
        return ended

    def by_hand(self, dag_id: str, **params: Any) -> Ended:
        """Trigger a DAG with its form."""
        run = SimpleNamespace(
            run_type=SimpleNamespace(value="manual"),
            logical_date=None,
            data_interval_start=None,
            data_interval_end=None,
            consumed_asset_events=[],
            conf=params,
        )
        return self._run(dag_id, run, params)

    def _consume(self, dag_id: str) -> list[SimpleNamespace]:
        condition = dags(*self.settings.items())[dag_id].timetable.asset_condition
        return [
            SimpleNamespace(asset=SimpleNamespace(name=asset.name), extra=extra)
            for asset in condition.objects
            for extra in self.events.pop(asset.name, [])
        ]

    def _run(self, dag_id: str, run: Any, params: Mapping[str, Any] | None = None) -> Ended:
        dag = dags(*self.settings.items())[dag_id]
        self.count += 1
        context: dict[str, Any] = {
            "dag_run": run,
            "params": {**dag.params.dump(), **(params or {})},
            "outlet_events": _Outlets(),
        }
        given: dict[str, Any] = {}
        for task in dag.topological_sort():
            if isinstance(task, MappedOperator):
                return self._try_each(task, given["list_projections"], given, context)
            if isinstance(task, TidemarkOperator):
                ended = self._try(task, given.get("resolve_window"), context)
                if ended.state == "failed":
                    self._update_assets(task, [ended], context)
                return ended
            with self._connected(), patch.object(tasks, "get_current_context", lambda: context):
                given[task.task_id] = task.python_callable()
        raise AssertionError(f"{dag_id} runs no application")

    def _try_each(
        self,
        task: Any,
        options: Sequence[Mapping[str, str]],
        given: Mapping[str, Any],
        context: dict[str, Any],
    ) -> Ended:
        """Run the tasks that a task is mapped to one after the other, and end as all of them."""
        at, began = self.now(), time.monotonic()
        parts = [
            self._try(task.unmap({"options": each}), given["resolve_window"], context, number)
            for number, each in enumerate(options)
        ]
        self._update_assets(task, parts, context)
        states = {part.state for part in parts}
        return Ended(
            task.dag_id,
            [arguments for part in parts for arguments in part.arguments],
            [result for part in parts for result in part.results],
            next(state for state in ("failed", "success", "skipped") if state in states),
            " ".join(part.why for part in parts if part.why),
            at,
            time.monotonic() - began,
        )

    def _try(self, task: Any, window: Any, context: dict[str, Any], map_index: int = -1) -> Ended:
        arguments: list[list[str]] = []
        results: list[Result] = []
        state, why, at, began = "failed", "", self.now(), time.monotonic()
        for number in range(1, task.retries + 2):
            copied = copy.copy(task)
            if task.window is not None:
                copied.window = window
            context["ti"] = SimpleNamespace(
                dag_id=task.dag_id,
                run_id=f"run-{self.count}",
                try_number=number,
                map_index=map_index,
                xcom_push=lambda **_: None,
            )
            copied.render_template_fields(context)
            try:
                with self._inside(copied, arguments, results):
                    copied.execute(context)
            except AirflowSkipException as skipped:
                state, why = "skipped", str(skipped)
                break
            except AirflowFailException as failure:
                why = str(failure)
                break
            except AirflowException as failure:
                why = str(failure)
                if number <= task.retries:
                    self.wait(task.retry_delay)
            else:
                state = "success"
                self._keep_events(task, context)
                break
        return Ended(task.dag_id, arguments, results, state, why, at, time.monotonic() - began)

    def _update_assets(self, task: Any, ended: Sequence[Ended], context: dict[str, Any]) -> None:
        reports = [part.results[-1].report for part in ended]
        context["ti"] = SimpleNamespace(xcom_pull=lambda **_: reports)
        for update in task.downstream_list:
            with suppress(AirflowSkipException), patch.object(ExecutorSafeguard, "test_mode", True):
                update.execute(context)
                self._keep_events(update, context)

    def _keep_events(self, task: Any, context: dict[str, Any]) -> None:
        for asset in task.outlets:
            extra = context["outlet_events"][asset].extra
            self.events.setdefault(asset.name, []).append(dict(extra))

    @contextmanager
    def _inside(
        self, task: Any, arguments: list[list[str]], results: list[Result]
    ) -> Iterator[None]:
        """Replace spark-submit by a call of the application in this process."""

        def submit(operator: Any, context: Any) -> None:
            name = Path(operator.application).stem
            arguments.append(list(operator.application_args))
            results.append(self.run_application(name, operator.application_args))
            if results[-1].status:
                raise AirflowException(
                    f"Cannot execute: spark-submit. Error code is: {results[-1].status}."
                )

        with (
            self._connected(),
            patch.object(SparkSubmitOperator, "execute", submit),
            patch.object(ExecutorSafeguard, "test_mode", True),
        ):
            yield

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Put the settings into the environment, and a connection into each place of one."""
        connection = Connection(conn_id="one", conn_type="spark", host="local[*]")
        with (
            patch.object(BaseHook, "get_connection", lambda conn_id: connection),
            patch.dict(os.environ, self.settings),
        ):
            yield


class _Outlets:
    """The outlet_events of a task's context."""

    def __init__(self) -> None:
        self._found: dict[str, SimpleNamespace] = {}

    def __getitem__(self, asset: Any) -> SimpleNamespace:
        outlet = SimpleNamespace(extra={}, add=lambda *_, **__: None)
        return self._found.setdefault(asset.name, outlet)


def _started_by(consumed: Sequence[SimpleNamespace]) -> Any:
    return SimpleNamespace(
        run_type=SimpleNamespace(value="asset_triggered"),
        logical_date=None,
        data_interval_start=None,
        data_interval_end=None,
        consumed_asset_events=list(consumed),
        conf={},
    )
