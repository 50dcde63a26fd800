"""The assets that chain the DAGs, and their updates with the windows that runs have completed.

The extra of each asset event has window_start, window_end and run_id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os.path import commonpath
from typing import Any

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context, TriggerRule
from airflow.sdk.exceptions import AirflowSkipException

from tidemark_airflow.journals.journal import DEFAULT, named

GROUP = "tidemark"

TAG_VIEWS = Asset(
    name="tag_views",
    uri="tidemark://tag_views",
    group=GROUP,
    extra={"description": "the tag views, written up to a window by tag_write"},
)
VALIDATED = Asset(
    name="validated",
    uri="tidemark://validated",
    group=GROUP,
    extra={"description": "a window whose sequence continuity validate has confirmed"},
)
REPLICATED = Asset(
    name="replicated",
    uri="tidemark://replicated",
    group=GROUP,
    extra={"description": "time buckets of kafka-journal's topics that replicate has completed"},
)
ALIAS = AssetAlias("read_models_of_projections", group=GROUP)
"""The placeholder for the assets of the projections that a run has updated (`read_model_of`)."""

READ_MODELS = Asset(
    name="read_models",
    uri="tidemark://read_models",
    group=GROUP,
    extra={"description": "the read models, brought up to a window by project"},
)


def read_model_of(projection: str, journal: str = DEFAULT) -> Asset:
    """Return the asset of one projection, for a DAG that depends only on its read model."""
    return Asset(
        name=named(f"read_model_{projection}", journal),
        uri=f"{named('tidemark://read_models', journal)}/{projection}",
        group=GROUP,
        extra={"description": f"the read model of the projection {projection}"},
    )


def update(context: Context, outlets: Iterable[Any], report: Mapping[str, Any]) -> None:
    """Update a task's outlets; for an alias, the asset of each updated projection.

    The extra of each asset event is window_start and window_end of the hull of the done time
    buckets, and run_id.
    """
    for outlet in outlets:
        if isinstance(outlet, AssetAlias):
            spans = report.get("details", {}).get("projections", {})
            for name, span in spans.items():
                extra = _extra(span, report)
                read_model = read_model_of(name, _journal_of(outlet))
                context["outlet_events"][outlet].add(read_model, extra=extra)
        else:
            context["outlet_events"][outlet].extra.update(_extra(report, report))


class _UpdateByReports(BaseOperator):
    """Updates the assets of the application's task, its only upstream task, from its reports.

    The task is skipped if the runs have completed no time bucket. It is a teardown because Airflow
    takes the state of a DAG run from its last tasks except teardowns: the run still ends as failed
    if the application's task has failed.
    """

    def __init__(self, *, task_id: str, trigger_rule: TriggerRule, **kwargs: Any) -> None:
        super().__init__(task_id=task_id, trigger_rule=trigger_rule, **kwargs)
        self.is_teardown = True

    def execute(self, context: Context) -> None:
        """Update the assets from the reports of the last tries."""
        completed = [report for report in self.reports(context) if report and report["done_start"]]
        if not completed:
            raise AirflowSkipException("the run has completed no time bucket")
        report = together(completed)
        self.log.info("completed: [%s, %s)", report["done_start"], report["done_end"])
        self.update(context, report)

    def reports(self, context: Context) -> Sequence[Mapping[str, Any] | None]:
        """Return the reports of the runs; in a mapped group, that of its own run."""
        [application] = self.upstream_task_ids
        ti: Any = context["ti"]
        return [ti.xcom_pull(task_ids=application, key="report", map_indexes=ti.map_index)]

    def update(self, context: Context, report: Mapping[str, Any]) -> None:
        """Update the assets from the combined report of the runs."""
        update(context, self.outlets, report)


class UpdateAfterFailure(_UpdateByReports):
    """Updates the assets of an application's task that failed.

    Airflow drops the asset events of a failed task, but completed time buckets must not wait for
    time buckets that cannot be completed. The trigger rule is not that of a teardown, so that the
    scheduler skips the task without a process.
    """

    def __init__(self, *, task_id: str = "update_after_failure", **kwargs: Any) -> None:
        super().__init__(task_id=task_id, trigger_rule=TriggerRule.ALL_FAILED, **kwargs)


class UpdateAfterReplication(_UpdateByReports):
    """Updates the asset of replicated topics with newly complete time buckets.

    A report has all complete time buckets of its topics. The extra of the asset's last event also
    has `topics`, the end up to which each topic was announced. So if a run dies after replication
    and before this task, the next run announces its time buckets, too.
    """

    def __init__(
        self,
        *,
        task_id: str = "update_after_replication",
        outlets: Sequence[Asset] = (REPLICATED,),
        **kwargs: Any,
    ) -> None:
        super().__init__(
            task_id=task_id,
            trigger_rule=TriggerRule.ALL_DONE,
            inlets=[*outlets],
            outlets=[*outlets],
            **kwargs,
        )

    def update(self, context: Context, report: Mapping[str, Any]) -> None:
        """Update the asset, unless no time bucket is new."""
        [replicated] = self.outlets
        events = context["inlet_events"][replicated].ascending(False).limit(1)
        last: Mapping[str, Any] = (events[0].extra or {}) if len(events) else {}
        extra = newly_complete(report["details"]["topics"], last.get("topics", {}))
        if extra is None:
            raise AirflowSkipException("no time bucket has become complete")
        context["outlet_events"][replicated].extra.update({**extra, "run_id": report["run_id"]})


def newly_complete(
    topics: Mapping[str, Mapping[str, str]], announced: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the extra of an asset event of topics; None if they have no new time bucket.

    `topics` has done_start and done_end of each topic, in ISO 8601 and UTC; `announced` the end of
    each topic in the asset's last event.
    """
    spans = [
        (announced.get(topic, span["done_start"]), span["done_end"])
        for topic, span in topics.items()
    ]
    new = [(start, end) for start, end in spans if start < end]
    if not new:
        return None
    return {
        "window_start": min(start for start, _ in new),
        "window_end": max(end for _, end in new),
        "topics": {**announced, **{topic: span["done_end"] for topic, span in topics.items()}},
    }


class UpdateAfterAll(_UpdateByReports):
    """Updates the assets of a mapped task once, after all of its runs have ended."""

    def __init__(self, *, task_id: str = "update_after_all", **kwargs: Any) -> None:
        super().__init__(task_id=task_id, trigger_rule=TriggerRule.ALL_DONE, **kwargs)

    def reports(self, context: Context) -> Sequence[Mapping[str, Any] | None]:
        """Return the reports of all runs of the mapped task."""
        [application] = self.upstream_task_ids
        value = context["ti"].xcom_pull(task_ids=application, key="report")
        return value if isinstance(value, list) else [value]


def together(reports: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Combine the reports of parallel runs: the hull of their windows, and all projections.

    The run_id is the common beginning of their run ids.
    """
    if len(reports) == 1:
        return reports[0]
    projections: dict[str, Any] = {}
    for report in reports:
        projections |= report.get("details", {}).get("projections", {})
    return {
        "done_start": min(report["done_start"] for report in reports),
        "done_end": max(report["done_end"] for report in reports),
        "run_id": commonpath([report["run_id"] for report in reports]),
        "details": {"projections": projections},
    }


def is_of(asset: Any, default: Asset) -> bool:
    """Return whether an asset of any journal corresponds to this asset of `default`."""
    return str(asset.name).partition(".")[0] == default.name


def _journal_of(alias: AssetAlias) -> str:
    return alias.name.partition(".")[2] or DEFAULT


def _extra(span: Mapping[str, Any], report: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "window_start": span["done_start"],
        "window_end": span["done_end"],
        "run_id": report["run_id"],
    }
