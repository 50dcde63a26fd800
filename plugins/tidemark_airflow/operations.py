"""The operations of forms with several operations, and the fields of each operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException

from tidemark_airflow.environment.connections import kafka_connections
from tidemark_airflow.form import (
    directory_param,
    dry_run_param,
    flag_param,
    lines_param,
    moment_param,
    names_param,
    number_param,
    text_param,
)

_SIZES = [None, "Minute", "Hour", "Day"]
_SCOPE = ("persistence_ids", "tags", "window_start", "window_end", "all")
_SERIES = ("projections", "persistence_id", "tag")


@dataclass(frozen=True)
class Operation:
    """The names of an operation's fields, except `operation` itself.

    Attributes:
        takes: fields that may be filled in.
        needs: required fields.
        single: required fields that are lists in the form and must have one value.
    """

    takes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    single: tuple[str, ...] = ()


RECONCILE = {
    "check": Operation(_SCOPE),
    "repair": Operation((*_SCOPE, "from_findings", "dry_run")),
    "rebuild": Operation((*_SCOPE, "dry_run")),
    "delete": Operation(("persistence_ids", "tags", "search_all", "dry_run")),
    "propagate-deletes": Operation(
        ("persistence_ids", "tags", "all", "allow_unsearchable", "dry_run")
    ),
    "rebucket": Operation(("to", "table", "recheck", "drop_old", "dry_run")),
    "truncate": Operation(("dry_run",)),
    "settle": Operation(
        ("persistence_ids", "tags", "check", "number", "reason", "dry_run"), needs=("reason",)
    ),
    "tags": Operation(("persistence_ids", "limit")),
}
"""The operations of the DAG `reconcile`."""

CLEANUP = {
    "deleted-events": Operation(("entity_types", "save_to", "dry_run")),
    "before-snapshot": Operation(
        (
            "persistence_ids",
            "entity_types",
            "all",
            "keep",
            "keep_after",
            "events",
            "save_to",
            "dry_run",
        ),
        needs=("keep",),
    ),
    "events-to": Operation(
        ("persistence_ids", "to", "save_to", "dry_run"), needs=("persistence_ids", "to")
    ),
    "all-events": Operation(
        ("persistence_ids", "never_use_again", "save_to", "dry_run"), needs=("persistence_ids",)
    ),
    "all-snapshots": Operation(
        ("persistence_ids", "save_to", "dry_run"), needs=("persistence_ids",)
    ),
    "tagged-events": Operation(("persistence_ids", "dry_run"), needs=("persistence_ids",)),
    "all": Operation(
        ("persistence_ids", "never_use_again", "save_to", "dry_run"), needs=("persistence_ids",)
    ),
    "restore": Operation(
        ("saved_in", "of_run", "persistence_ids", "keep_write_times", "dry_run"),
        needs=("saved_in",),
    ),
}
"""The operations of the DAG `cleanup`."""

MANAGE_PROJECTIONS = {
    "status": Operation(("projections", "exact", "verify", "ranges")),
    "plan": Operation(
        ("projections", "window_start", "window_end", "force", "max_pieces", "ranges"),
        needs=("window_start", "window_end"),
    ),
    "get-offset": Operation((*_SERIES, "slice", "all"), ("projections",), ("projections",)),
    "releases": Operation(("projections",)),
    "pause": Operation(("projections",), needs=("projections",)),
    "resume": Operation(("projections",), needs=("projections",)),
    "set-offset": Operation(
        (*_SERIES, "to", "expected", "apply"),
        ("projections", "persistence_id", "to"),
        ("projections",),
    ),
    "skip": Operation((*_SERIES, "gaps", "before", "apply"), ("projections",), ("projections",)),
    "clear": Operation(("projections", "apply"), ("projections",), ("projections",)),
    "diff": Operation(
        ("projections", "window_start", "window_end", "limit"), needs=("projections",)
    ),
    "promote": Operation(("projections", "version", "apply"), ("projections",), ("projections",)),
    "drop-release": Operation(
        ("projections", "version", "apply"), ("projections", "version"), ("projections",)
    ),
    "take-over": Operation(
        ("projections", "other", "time_window", "apply"),
        ("projections", "other"),
        ("projections",),
    ),
    "hand-over": Operation(
        ("projections", "other", "apply"), ("projections", "other"), ("projections",)
    ),
    "quarantine list": Operation(("projections", "persistence_id", "limit")),
    "quarantine retry": Operation(
        ("projections", "persistence_id", "sequence_nr", "apply"),
        ("projections",),
        ("projections",),
    ),
    "quarantine discard": Operation(
        ("projections", "persistence_id", "sequence_nr", "reason", "apply"),
        ("projections", "reason"),
        ("projections",),
    ),
}
"""The operations of the DAG `manage_projections`."""

MANAGE_REPLICATION = {
    "verify": Operation(("topics", "since", "until", "offsets")),
    "repair": Operation(("topics", "keys", "dry_run")),
    "held": Operation(("topics", "keys")),
    "replay": Operation(("topics", "keys", "skip", "dry_run")),
    "mend": Operation(("records", "dry_run"), needs=("records",)),
}
"""The operations of the DAG `manage_replication`."""

MANAGE_EVENT_GROUPS = {
    "status": Operation(("groups", "stream")),
    "retry": Operation(("groups", "stream", "dry_run"), ("groups",), ("groups",)),
    "cancel": Operation(("groups", "stream", "dry_run"), ("groups",), ("groups",)),
    "settle": Operation(
        ("groups", "settled_as", "stream", "dry_run"), ("groups", "settled_as"), ("groups",)
    ),
    "release": Operation(("tables", "dry_run"), ("tables",), ("tables",)),
    "playback": Operation(
        ("into", "played_group", "first", "last", "stream", "dry_run"), needs=("into",)
    ),
}
"""The operations of the DAG `manage_event_groups`."""

BY_DAG = {
    "reconcile": RECONCILE,
    "cleanup": CLEANUP,
    "manage_projections": MANAGE_PROJECTIONS,
    **{f"manage_replication{suffix}": MANAGE_REPLICATION for suffix in kafka_connections()},
    "manage_event_groups": MANAGE_EVENT_GROUPS,
}
"""The operations of each DAG of `default` with several operations."""


def operations_of(dag_id: str) -> Mapping[str, Operation]:
    """Return the operations of a DAG of any journal; none if it has no choice of them."""
    return BY_DAG.get(dag_id) or BY_DAG.get(dag_id.rpartition(".")[0], {})


def with_owners(
    fields: Mapping[str, Param], operations: Mapping[str, Operation]
) -> dict[str, Param]:
    """Return the form: first the choice of the operation, then fields with their operations."""
    names = list(operations)
    form = {"operation": Param(names[0], type="string", enum=names, title="Operation")}
    for field, param in fields.items():
        takers = [name for name, operation in operations.items() if field in operation.takes]
        prefix = "" if len(takers) == len(operations) else f"For {', '.join(takers)}. "
        param.description = f"{prefix}{param.description or ''}".strip()
        form[field] = param
    return form


RECONCILE_FORM = with_owners(
    {
        "dry_run": dry_run_param(True),
        "persistence_ids": names_param("Persistence ids", "not chosen by persistence id"),
        "tags": names_param("Tags", "not chosen by tag"),
        "window_start": moment_param("First time bucket", "Empty: all of them."),
        "window_end": moment_param("End of the time buckets", "Exclusive. Give both or neither."),
        "all": flag_param("All", "All persistence ids and tags."),
        "from_findings": flag_param(
            "From findings", "Only persistence ids with open findings of validate or check."
        ),
        "to": Param(None, type=["null", "string"], enum=_SIZES, title="To bucket size"),
        "table": text_param("Name of the new table", "Empty: tag_views_ and the size."),
        "drop_old": text_param(
            "Drop this old table", "After the switch. Leave the bucket size empty then."
        ),
        "search_all": flag_param("Search all", "Also search the tags for rows without an event."),
        "recheck": flag_param(
            "Recheck", "Compare all rows, including rows that earlier runs have verified."
        ),
        "allow_unsearchable": flag_param(
            "Allow unsearchable",
            "Also delete more than 5000 numbers, where readers without an offset then fail.",
        ),
        "limit": number_param("Show at most this many tags", 1, description="Empty: 100."),
        "check": text_param("Check", "Only findings of this check."),
        "number": number_param("Number", 0, description="Only the finding with this number."),
        "reason": text_param("Reason", "Why you accept the finding; it is stored."),
    },
    RECONCILE,
)
"""The form of the DAG `reconcile`."""

CLEANUP_FORM = with_owners(
    {
        "dry_run": dry_run_param(True),
        "persistence_ids": names_param("Persistence ids", "not chosen by persistence id"),
        "entity_types": names_param("Entity types", "not chosen by entity type"),
        "all": flag_param("All", "All persistence ids."),
        "keep": number_param(
            "Keep", 1, description="Number of the newest snapshots to keep per persistence id."
        ),
        "keep_after": moment_param("Keep after", "Also keep snapshots after this time."),
        "events": flag_param("Events", "Also delete the events before the oldest kept snapshot."),
        "to": number_param("To", 1, description="The last sequence nr to delete."),
        "never_use_again": flag_param(
            "Never use again", "Also delete the sequence nr, and the persistence id itself."
        ),
        "save_to": directory_param("Save to", "Rows are saved here before they are deleted."),
        "saved_in": directory_param("Saved in", "The directory in `Save to` of an earlier run."),
        "of_run": text_param("Run", "Only rows that the run with this id saved."),
        "keep_write_times": flag_param(
            "Keep write times",
            "Write each row with its old write time. Use it for another keyspace, or after"
            " compaction has removed the delete.",
        ),
    },
    CLEANUP,
)
"""The form of the DAG `cleanup`."""

MANAGE_FORM = with_owners(
    {
        "projections": names_param(
            "Projections", "all of them (status, plan, releases, quarantine list)"
        ),
        "apply": flag_param("Apply", "Execute the plan; without it, only show it."),
        "window_start": moment_param("Window start", "Give both ends."),
        "window_end": moment_param("Window end", "Exclusive."),
        "persistence_id": text_param("Persistence id"),
        "sequence_nr": number_param(
            "Sequence nr", 1, description="Only the event with this sequence nr."
        ),
        "reason": text_param("Reason", "Why the events are discarded; it is stored."),
        "limit": number_param(
            "Most shown",
            1,
            1000,
            description="Events of each projection, empty: 100; rows that differ, empty: 10.",
        ),
        "tag": text_param("Tag", "The tag of the series, if the source has several tags."),
        "gaps": flag_param("Gaps", "Skip all recorded missing numbers of all series."),
        "before": moment_param(
            "Before", "With Gaps: only series that hold a time bucket before this time."
        ),
        "to": number_param("To", 0, description="All numbers up to this number count as consumed."),
        "expected": number_param(
            "Expected", 0, description="Fail unless the offset is this number."
        ),
        "slice": number_param("Slice", 0, 1023, "Only this slice."),
        "all": flag_param("All", "Every offset."),
        "version": number_param("Version", 1, description="The version to drop or promote."),
        "other": text_param(
            "Other projection",
            "Its name in the ProjectionId of akka-projection-r2dbc, without the key; it must be"
            " stopped. For a journal in PostgreSQL.",
        ),
        "time_window": number_param(
            "Time window",
            0,
            description="Seconds: offset-store.time-window of the other projection, or its"
            " delete-after if that is set. Empty: 300.",
        ),
        "max_pieces": number_param("Most time buckets", 1, description="Empty: no limit."),
        "force": flag_param(
            "Force", "Plan a run with Force, which processes pieces again that are done."
        ),
        "exact": flag_param("Exact", "Count the pending events of each slice, with Spark."),
        "verify": flag_param(
            "Verify", "Compare the number of rows of each time bucket with the ledger, with Spark."
        ),
        "ranges": number_param("Ranges", 1, 1024, "Number of slice ranges to show."),
    },
    MANAGE_PROJECTIONS,
)
"""The form of the DAG `manage_projections`."""


MANAGE_REPLICATION_FORM = with_owners(
    {
        "dry_run": dry_run_param(True),
        "topics": names_param("Topics", "all with the prefix of TIDEMARK_KAFKA_TOPIC_PREFIX"),
        "keys": names_param("Keys", "all of them"),
        "since": moment_param("Since", "Only records from this time on, by their timestamps."),
        "until": moment_param("Until", "Only records before this time."),
        "offsets": names_param("Offsets", "all; written as topic/partition:first-last"),
        "skip": names_param("Skip", "none. Offsets of one key to skip permanently"),
        "records": lines_param("Records", "Lines of `held`, with the corrected content."),
    },
    MANAGE_REPLICATION,
)
"""The form of the DAG `manage_replication`."""


MANAGE_EVENT_GROUPS_FORM = with_owners(
    {
        "dry_run": dry_run_param(True),
        "groups": names_param("Groups", "all open groups (status)"),
        "stream": text_param("Stream", "Empty: the stream `default`."),
        "settled_as": Param(
            None,
            type=["null", "string"],
            enum=[None, "rolled-back", "done"],
            title="Settled as",
            description="The state of its rows after your corrections.",
        ),
        "tables": names_param("Table", "none; written as keyspace.table"),
        "into": names_param("Into", "none; written as keyspace=keyspace"),
        "played_group": text_param("Only this group", "Empty: all groups that have ended."),
        "first": number_param("First group", 1, description="Its number in the stream."),
        "last": number_param("Last group", 1, description="Its number in the stream."),
    },
    MANAGE_EVENT_GROUPS,
)
"""The form of the DAG `manage_event_groups`."""


def filled_in(values: Mapping[str, Any], form: ParamsDict) -> dict[str, Any]:
    """Return the fields that a person has filled in: Airflow's own form sends all fields."""
    defaults = {field: form.get_param(field).value for field in form}
    return {
        field: value
        for field, value in values.items()
        if value not in (None, "", []) and value != defaults.get(field)
    }


def refuse_other_fields(
    params: Mapping[str, Any], operations: Mapping[str, Operation], form: ParamsDict
) -> None:
    """Reject values of the form that the chosen operation does not take, and missing ones.

    Raises:
        AirflowFailException: with the titles of the fields in the form.
    """
    name = params["operation"]
    operation = operations[name]
    given = set(filled_in(params, form))
    others = given.difference(operation.takes, {"operation"})
    if others:
        takers = [name for name, other in operations.items() if others <= {*other.takes}]
        remedy = f", or choose the operation {' or '.join(takers)}" if takers else ""
        raise AirflowFailException(
            f"the operation {name} does not take {_titles(form, others)};"
            f" leave that as it was{remedy}"
        )
    if missing := [field for field in operation.needs if field not in given]:
        raise AirflowFailException(
            f"the operation {name} needs {_titles(form, missing)}; fill that in"
        )
    for field in operation.single:
        if len(params[field]) != 1:
            raise AirflowFailException(
                f"the operation {name} takes one value in {_titles(form, [field])},"
                f" not {len(params[field])}; leave one"
            )


def _titles(form: ParamsDict, fields: Iterable[str]) -> str:
    return ", ".join(sorted(f'"{form.get_param(field).schema["title"]}"' for field in fields))
