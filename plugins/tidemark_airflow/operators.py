"""The operators that run a Tidemark application under spark-submit and act on its report."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import (
    BaseHook,
    BaseOperator,
    BaseOperatorLink,
    Connection,
    Context,
    TriggerRule,
)
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
)

from tidemark_airflow import telemetry
from tidemark_airflow.assets import update
from tidemark_airflow.environment import pools
from tidemark_airflow.environment.connections import (
    POSTGRES_CONNECTIONS,
    cassandra_environment,
    kafka_environment,
    postgres_connections,
    postgres_environment,
)
from tidemark_airflow.environment.drivers import Driver, report_of, sendable, write_private
from tidemark_airflow.environment.installation import home, spark_jars
from tidemark_airflow.journals import journal as journals
from tidemark_airflow.journals.journal import CASSANDRA
from tidemark_airflow.next_step import NextStepLink, RunAgainLink, Step, applied, remedy_of
from tidemark_airflow.operations import Operation, filled_in, refuse_other_fields
from tidemark_airflow.telemetry import read_report, summary

_RETRIES = 1
_log = logging.getLogger(__name__)
SPARK = "spark_default"
"""The connection of Spark."""
_AUTOMATIC = ("scheduled", "asset_triggered")
# 2: the input is rejected; 3: the data must be corrected first (tidemark.errors).
_NO_RETRY_HELPS = re.compile(r"Error code is: [23]\b")
_COMMAND = re.compile(r"Cannot execute: .*(?=Error code is: )", re.DOTALL)
"""Matches the command of spark-submit, with the paths of all jars, in the provider's text."""


class TidemarkOperator(SparkSubmitOperator):
    """Submits `spark_apps/<application_name>.py`, then reads the run's report.

    Ends as success only if the run has done something (with outlets: pieces), and then updates the
    outlets by `assets.update`; after a failure, `UpdateAfterFailure` does so. The window of the
    update is not the requested window: some time buckets may be left for later, and older time
    buckets may have been done. A run that had nothing to do, or a dry run, ends as skipped, so that
    nothing downstream starts. The report is the XCom `report`, even if the run failed.

    Args:
        application_name: name of the application, without `.py`.
        window: the result of `resolve_window`; None for an application without a window.
        command: the application's command of one or two words, if it has several (templated).
        options: further options of the application, as option to value (templated).
        params_as_options: params whose values become options, as option to name of the param. A
            list repeats the option, True gives it without a value, None and False omit it.
        params_as_arguments: params whose lists are the command's arguments.
        params_as_files: params whose texts become files that are the command's arguments, as name
            of the param to name of the file: all users can see command lines.
        dry_by_default: whether the application only plans without `--apply`.
        applies_on_schedule: whether a run started by time or by an asset gets `--apply`; for a run
            by hand or a backfill the form decides.
        always_applies: whether every run gets `--apply`, because a previous task has planned.
        option_without_params: option of the application for a run whose window is not from its
            params, but from an asset, a schedule or a backfill.
        operations: the fields of each operation, if the form has a field `operation`.
        links: further buttons of the task in the UI.
        journal: the name of the journal.
        kafka_conn_id: the connection of Kafka, for an application that reads Kafka.
        reads_kafka: whether to load Spark's Kafka source; implied by `kafka_conn_id`.
        more_connections: functions that make the environment of optional connections, by id.

    Raises:
        AirflowFailException: the form, the input or the data is rejected; no retry.
        AirflowException: the application failed; the text is a line with the fault and a line with
            the next step.
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        "window",
        "command",
        "options",
    )
    operator_extra_links: tuple[BaseOperatorLink, ...] = (NextStepLink(), RunAgainLink())

    def __init__(
        self,
        *,
        application_name: str,
        window: Any = None,
        command: str | None = None,
        options: dict[str, str] | None = None,
        params_as_options: dict[str, str] | None = None,
        params_as_arguments: Sequence[str] = (),
        params_as_files: Mapping[str, str] | None = None,
        dry_by_default: bool = False,
        applies_on_schedule: bool = False,
        always_applies: bool = False,
        option_without_params: str | None = None,
        operations: Mapping[str, Operation] | None = None,
        links: Sequence[BaseOperatorLink] = (),
        journal: str = journals.DEFAULT,
        conn_id: str = SPARK,
        cassandra_conn_id: str = CASSANDRA,
        kafka_conn_id: str | None = None,
        reads_kafka: bool = False,
        more_connections: Mapping[str, Callable[[Connection], dict[str, str]]] | None = None,
        pool: str | None = None,
        retries: int = _RETRIES,
        retry_delay: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        self._file = home() / "spark_apps" / f"{application_name}.py"
        super().__init__(
            application=str(self._file),
            name=f"tidemark-{application_name}",
            conn_id=conn_id,
            conf={"spark.log.level": "WARN"},
            pool=pool or pools.journal(journal),
            retries=retries,
            retry_delay=retry_delay or default_retry_delay(),
            **kwargs,
        )
        self.driver = Driver()
        self.window = window
        self.command = command
        self.options = options or {}
        self.params_as_options = params_as_options or {}
        self.params_as_arguments = params_as_arguments
        self.params_as_files = params_as_files or {}
        self.dry_by_default = dry_by_default
        self.applies_on_schedule = applies_on_schedule
        self.always_applies = always_applies
        self.option_without_params = option_without_params
        self.operations = operations
        self.operator_extra_links = (*links, *TidemarkOperator.operator_extra_links)
        self.next_step: Step | None = None
        self.run_again: Step | None = None
        self.report: Mapping[str, Any] | None = None
        self.journal = journal
        self.cassandra_conn_id = cassandra_conn_id
        self.kafka_conn_id = kafka_conn_id
        self.reads_kafka = reads_kafka or kafka_conn_id is not None
        self.more_connections = more_connections or {}

    @classmethod
    def for_each(cls, options: Any, **kwargs: Any) -> Any:
        """Return a mapped task: a run of the application for each of the `options`.

        The name of a run is the first value of its options. `kwargs` are those of the operator.
        """
        partial = cls.partial(
            # Otherwise Airflow would use its own defaults.
            retries=_RETRIES,
            retry_delay=default_retry_delay(),
            map_index_template="{{ task.options.values() | first | default('all of them') }}",
            **kwargs,
        )
        return partial.expand(options=options)

    def _of_postgres(self) -> dict[str, str]:
        """Return the connections to PostgreSQL; add its driver to the jars if there are any."""
        names = postgres_connections()
        if names:
            driver = self._jars_of("spark-postgres", "TIDEMARK_SPARK_POSTGRES_JARS")
            self.jars = f"{self.jars},{driver}"
        environment: dict[str, str] = {}
        for name in names:
            try:
                environment |= postgres_environment(BaseHook.get_connection(name))
            except (AirflowNotFoundException, ValueError) as fault:
                # What needs no such connection runs on; the application names what needs it.
                self.log.warning("%s: %s; correct it in Airflow", POSTGRES_CONNECTIONS, fault)
        return environment

    def execute(self, context: Context) -> None:
        """Submit the application, report, and end as success, skipped or failed."""
        ti: Any = context["ti"]
        dag_run: Any = context["dag_run"]
        given = filled_in(dag_run.conf or {}, self.dag.params) | _window_fields(self.window)
        self.run_again = Step(ti.dag_id, given)
        params = self._params(context["params"], str(dag_run.run_type.value))
        if self.operations is not None:
            refuse_other_fields(params, self.operations, self.dag.params)
        self.driver = Driver.of(BaseHook.get_connection(self._conn_id))
        if self.driver.home is not None and self._files(params, Path()):
            raise AirflowFailException(
                f"{self._conn_id} runs drivers in the cluster, where the form's text is not;"
                " submit it by a topic, or use a connection whose driver runs here"
            )
        run_id = _run_id(ti)
        self.application = self.driver.place(self._file, home())
        self.jars = self._jars_of("spark", "TIDEMARK_SPARK_JARS")
        environment = cassandra_environment(BaseHook.get_connection(self.cassandra_conn_id))
        environment |= self._of_postgres()
        if self.reads_kafka:
            self.jars += "," + self._jars_of("spark-kafka", "TIDEMARK_SPARK_KAFKA_JARS")
        if self.kafka_conn_id is not None:
            environment |= kafka_environment(BaseHook.get_connection(self.kafka_conn_id))
        for conn_id, environment_of in self.more_connections.items():
            with suppress(AirflowNotFoundException):
                environment |= environment_of(BaseHook.get_connection(conn_id))
        environment |= journals.environment(self.journal)
        with TemporaryDirectory(prefix="tidemark-") as directory:
            file = Path(directory) / "report.json"
            for path, text in self._files(params, file.parent).items():
                write_private(path, text)
            self.application_args = sendable(self._arguments(params, run_id, file))
            self.env_vars = self.driver.environment(environment)
            try:
                super().execute(context)
            except AirflowException as failure:
                report = self._read_report(run_id, file, environment)
                if report is not None:
                    self._publish(ti, report)
                self.next_step = remedy_of(report, self.journal)
                raise _explained(failure, report, self.next_step) from None
            report = self._read_report(run_id, file, environment)
        if report is None:
            raise AirflowException(f"{self.name} ended well but left no report, see the log above")
        self.log.info("%s", summary(report))
        self._publish(ti, report)
        self.run_again = None
        self.next_step = applied(ti.dag_id, given, report)
        self._update_outlets(context, report)

    def get_openlineage_facets_on_complete(self, _ti: Any) -> Any:
        """Return the tables that the run has read and written, for OpenLineage's provider."""
        return telemetry.lineage(
            self.report, (self.env_vars or {}).get("TIDEMARK_CASSANDRA_HOSTS", "")
        )

    def _get_hook(self) -> Any:
        hook = super()._get_hook()
        if self.driver.home is None:
            # For YARN and Kubernetes the hook would put them on the command line, too.
            hook._env_vars, hook._env = None, self.env_vars
        return hook

    def _jars_of(self, group: str, variable: str) -> str:
        jars = spark_jars(group, variable).split(",")
        return ",".join(self.driver.place(Path(jar), home()) for jar in jars if jar)

    def _read_report(
        self, run_id: str, file: Path, environment: Mapping[str, str]
    ) -> dict[str, Any] | None:
        if self.driver.home is None:
            return read_report(file)
        return report_of(run_id, environment, home())

    def _publish(self, ti: Any, report: Mapping[str, Any]) -> None:
        ti.xcom_push(key="report", value=report)
        telemetry.send_metrics(report, self.options.get("--projection"), self.journal)
        self.report = report

    def _params(self, params: Mapping[str, Any], run_type: str) -> Mapping[str, Any]:
        is_automatic = self.applies_on_schedule and run_type in _AUTOMATIC
        if not is_automatic and not self.always_applies:
            return params
        return {**params, "dry_run": False}

    def _arguments(self, params: Mapping[str, Any], run_id: str, report: Path) -> list[str]:
        arguments = self.command.split() if self.command else []
        if self.window is not None:
            arguments += ["--window-start", self.window["start"]]
            arguments += ["--window-end", self.window["end"]]
            if self.option_without_params and self.window["source"] != "params":
                arguments.append(self.option_without_params)
        arguments += ["--run-id", run_id]
        if self.driver.home is None:
            arguments += ["--report", str(report)]
        if params.get("dry_run", self.dry_by_default) != self.dry_by_default:
            arguments.append("--apply" if self.dry_by_default else "--dry-run")
        if params.get("force"):
            arguments.append("--force")
        for option, value in self.options.items():
            arguments += [option, str(value)]
        for option, name in self.params_as_options.items():
            arguments += _as_option(option, params[name])
        operands = [word for name in self.params_as_arguments for word in params[name] or []]
        operands += map(str, self._files(params, report.parent))
        # After `--`, nothing that a person has typed is taken for an option.
        return [*arguments, "--", *operands] if operands else arguments

    def _files(self, params: Mapping[str, Any], directory: Path) -> dict[Path, str]:
        files = self.params_as_files.items()
        return {directory / file: params[name] for name, file in files if params[name]}

    def _update_outlets(self, context: Context, report: Mapping[str, Any]) -> None:
        update_or_skip(context, self.outlets, report)


class ChainStep(BaseOperator):
    """The task of a step of the application `chain`, whose task is its only upstream task.

    Its end, the updates of its outlets and its XCom `report` are those of the task of the step's
    application.

    Args:
        application_name: name of the application, as in reports.
        links: further buttons of the task in the UI.
        journal: the name of the journal.

    Raises:
        AirflowFailException: the step has failed; the text says why, and what to do next.
        AirflowSkipException: the step had nothing to do, was only planned, or was not started.
    """

    operator_extra_links: tuple[BaseOperatorLink, ...] = (NextStepLink(),)

    def __init__(
        self,
        *,
        application_name: str,
        links: Sequence[BaseOperatorLink] = (),
        journal: str = journals.DEFAULT,
        cassandra_conn_id: str = CASSANDRA,
        **kwargs: Any,
    ) -> None:
        super().__init__(trigger_rule=TriggerRule.ALL_DONE, **kwargs)
        self.journal = journal
        self.cassandra_conn_id = cassandra_conn_id
        self.application_name = application_name
        self.operator_extra_links = (*links, *ChainStep.operator_extra_links)
        self.next_step: Step | None = None
        self.report: Mapping[str, Any] | None = None

    def execute(self, context: Context) -> None:
        """Take the step's report out of that of the chain, and end with its state."""
        ti: Any = context["ti"]
        [chain] = self.upstream_task_ids
        # In a mapped group, the report of its own run.
        chain_report = ti.xcom_pull(task_ids=chain, key="report", map_indexes=ti.map_index)
        if chain_report is None:
            raise AirflowFailException(
                f"the task {chain} has left no report; see its log, or that of the task before it"
            )
        if chain_report["dry_run"]:
            raise AirflowSkipException("a dry run wrote nothing")
        steps = chain_report.get("details", {}).get("steps")
        if steps is None:
            # If all steps were skipped, the run of the DAG would end as a success.
            raise AirflowFailException(_why(chain_report, remedy_of(chain_report, self.journal)))
        self.report = steps.get(self.application_name)
        if self.report is None:
            raise AirflowSkipException("the step was not started; see the steps before it")
        self.log.info("%s", summary(self.report))
        ti.xcom_push(key="report", value=self.report)
        telemetry.send_metrics(self.report, journal=self.journal)
        if self.report["state"] == "failed":
            self.next_step = remedy_of(self.report, self.journal)
            raise AirflowFailException(_why(self.report, self.next_step))
        update_or_skip(context, self.outlets, self.report)

    def get_openlineage_facets_on_complete(self, _ti: Any) -> Any:
        """Return the tables that the step read and wrote, for OpenLineage's provider."""
        environment = cassandra_environment(BaseHook.get_connection(self.cassandra_conn_id))
        return telemetry.lineage(self.report, environment["TIDEMARK_CASSANDRA_HOSTS"])


def update_or_skip(context: Context, outlets: Sequence[Any], report: Mapping[str, Any]) -> None:
    """Update the outlets with the window that a run has completed.

    Raises:
        AirflowSkipException: the run had nothing to do, or was a dry run.
    """
    is_idle = report["state"] != "done" or (outlets and report["pieces"]["done"] == 0)
    if report["dry_run"] or is_idle:
        reason = "a dry run wrote nothing" if report["dry_run"] else "nothing was to be done"
        if report["lines"] and not report["dry_run"]:
            reason += f": {report['lines'][0]}"
        _log.info("%s: the task ends as skipped and nothing downstream starts", reason)
        raise AirflowSkipException(reason)
    update(context, outlets, report)


def _as_option(option: str, value: object) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    values = value if isinstance(value, list) else [value]
    return [word for part in values for word in (option, str(part))]


def _run_id(ti: Any) -> str:
    """Return a run id that is unique for each try, also among tasks of one mapping."""
    mapped = f"/{ti.map_index}" if ti.map_index >= 0 else ""
    return f"{ti.dag_id}/{ti.run_id}/{ti.try_number}{mapped}"


def default_retry_delay() -> timedelta:
    """Return 15 s more than TIDEMARK_LOCK_TTL: by then the locks of a dead run have expired."""
    ttl = os.environ.get("TIDEMARK_LOCK_TTL", "")
    # The application rejects a text that is no number, without a retry.
    return timedelta(seconds=15 + (int(ttl) if ttl.isdecimal() else 60))


def _explained(
    failure: AirflowException, report: Mapping[str, Any] | None, next_step: Step | None
) -> AirflowException:
    """Return an error with the fault and the next step, a line each, for "Cannot execute"."""
    kind = AirflowFailException if _NO_RETRY_HELPS.search(str(failure)) else AirflowException
    if report is None or not report["error"]:
        ended = _COMMAND.sub("spark-submit has ended without a report. ", str(failure))
        return kind(f"{ended} The application's error is in the log above.")
    return kind(_why(report, next_step))


def _why(report: Mapping[str, Any], next_step: Step | None) -> str:
    """Return the fault and the next step, a line each."""
    failure = report["failure"]
    if failure is None:
        return "\n".join(f"{report['application']}: {line}" for line in report["error"].split("\n"))
    place = f" ({failure['where']})" if failure["where"] else ""
    lines = [f"{report['application']}: {failure['what']}{place}"]
    if next_step is not None:
        lines.append(f'next: {next_step} (the button "{NextStepLink.name}" has it filled in)')
    elif failure["do"]:
        lines.append(f"next: {failure['do']}")
    return "\n".join(" ".join(line.split()) for line in lines)


def _window_fields(window: Any) -> dict[str, str]:
    if window is None:
        return {}
    return {"window_start": window["start"], "window_end": window["end"]}
