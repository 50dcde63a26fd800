"""The DAG files: they load anywhere, without side effects, and have the DAGs they should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command_lines import command_line
from tidemark_airflow import timetables

ROOT = Path(__file__).resolve().parents[2]
POOLS = {"project": "tidemark_pekko_projections", "observe": "default_pool"}
"""The pools of DAGs that do not use the pool of the journal: `observe` waits for no application."""
WINDOWED = ["backfill", "chain", "project", "purge", "tag_write", "validate", "weekly_check"]
APPLICATION_TASKS = {"backfill": "part.chain", "weekly_check": "validate"}
"""The task of an application, if its name is not that of its DAG."""
STEPS = ["project", "tag_write", "validate"]
BY_THEMSELVES = [
    *(
        "cleanup",
        "event_groups",
        "manage_event_groups",
        "manage_projections",
        "manage_replication",
        "reconcile",
    ),
    *("replicate", "submit_event_groups", "observe"),
]
DAG_IDS = sorted([*WINDOWED, *BY_THEMSELVES])
OF_CARTS = ("manage_replication_kafka_carts", "replicate_kafka_carts")
"""The further DAGs of a further connection of Kafka."""

VARIABLES = {
    "TIDEMARK_KAFKA_CONNECTIONS": "kafka_carts",
    "TIDEMARK_REPLICATE_MINUTES": "10",
    "TIDEMARK_EVENT_GROUPS_MINUTES": "15",
}
# Run in a process of its own, where pytest's imports do not hide those of the parsing.
_PARSE = """
import json, socket, sys

def refuse(*arguments):
    raise AssertionError(f"parsing opened a connection: {arguments[1:]}")

socket.socket.connect = socket.socket.connect_ex = refuse
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

def form_of(dag):
    return [(name, dag.params.get_param(name)) for name in dag.params]

bag = DagBag(sys.argv[1])
heavy = ("pyspark", "cassandra", "great_expectations", "pandas", "tidemark")
server = ("tidemark_airflow.pages", "airflow.api_fastapi.core_api.security")
loaded = [name for name in heavy + server if name in sys.modules]
facts = {
    "import_errors": bag.import_errors,
    "loaded": loaded,
    "params": {
        dag_id: {name: [one.value, one.schema["type"]] for name, one in form_of(dag)}
        for dag_id, dag in bag.dags.items()
    },
    "operations": {
        dag_id: {
            "application": task._file.stem,
            "options": task.params_as_options,
            "operands": [*task.params_as_arguments, *task.params_as_files],
            "dry_by_default": task.dry_by_default,
            "operations": {
                name: [operation.takes, operation.needs]
                for name, operation in task.operations.items()
            },
        }
        for dag_id, dag in bag.dags.items()
        for task in dag.tasks
        if getattr(task, "operations", None)
    },
    "dags": {dag_id: DagSerialization.to_dict(dag)["dag"] for dag_id, dag in bag.dags.items()},
}
print("\\nFACTS " + json.dumps(facts))
"""


@pytest.fixture(scope="session")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what a second, empty Airflow home finds in dags/."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path_factory.mktemp("second_home")),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        **VARIABLES,
    }
    done = subprocess.run(
        [sys.executable, "-c", _PARSE, str(ROOT / "dags")],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    [line] = [line for line in done.stdout.splitlines() if line.startswith("FACTS ")]
    facts: dict[str, Any] = json.loads(line.removeprefix("FACTS "))
    return facts


def tasks_of(parsed: dict[str, Any], dag_id: str) -> dict[str, Any]:
    return {task["__var"]["task_id"]: task["__var"] for task in parsed["dags"][dag_id]["tasks"]}


def test_every_dag_loads_without_errors(parsed: dict[str, Any]) -> None:
    assert parsed["import_errors"] == {}
    assert sorted(parsed["dags"]) == sorted([*DAG_IDS, *OF_CARTS])


def test_each_connection_of_kafka_has_its_own_dags(parsed: dict[str, Any]) -> None:
    for dag_id in OF_CARTS:
        task_id = dag_id.removesuffix("_kafka_carts")
        assert [*tasks_of(parsed, dag_id)] == [task_id]
        assert parsed["params"][dag_id] == parsed["params"][task_id]


def test_parsing_loads_neither_spark_nor_cassandra_nor_the_library_nor_the_server(
    parsed: dict[str, Any],
) -> None:
    assert parsed["loaded"] == []


def test_assets_chain_the_dags(parsed: dict[str, Any]) -> None:
    chain = {}
    for dag_id, dag in parsed["dags"].items():
        arrows = dag["dag_dependencies"]
        # An asset has an arrow from each task that updates it.
        starts = sorted({arrow["label"] for arrow in arrows if arrow["target"] == dag_id})
        gives = sorted({arrow["label"] for arrow in arrows if arrow["source"] == dag_id})
        chain[dag_id] = (starts, gives)
    assert chain == {
        **dict.fromkeys(
            ("backfill", "chain"),
            ([], ["read_models", "read_models_of_projections", "tag_views", "validated"]),
        ),
        "weekly_check": ([], []),
        "tag_write": ([], ["tag_views"]),
        "validate": (["tag_views"], ["validated"]),
        "project": (
            ["replicated", "validated"],
            ["read_models", "read_models_of_projections"],
        ),
        "purge": (["read_models"], []),
        "manage_projections": ([], []),
        "manage_replication": ([], []),
        "manage_event_groups": ([], []),
        "reconcile": ([], []),
        "cleanup": ([], []),
        "replicate": ([], ["replicated"]),
        **dict.fromkeys(OF_CARTS, ([], [])),
        "event_groups": ([], []),
        "submit_event_groups": ([], []),
        "observe": ([], []),
    }


def test_what_goes_on_where_it_was_left_starts_every_few_minutes(parsed: dict[str, Any]) -> None:
    timed = {dag_id: dag["timetable"]["__var"] for dag_id, dag in parsed["dags"].items()}
    assert timed["replicate"]["expression"] == "*/10 * * * *"
    assert timed["event_groups"]["expression"] == "*/15 * * * *"
    assert timed["submit_event_groups"] == {}
    assert timed["observe"]["expression"] == "*/5 * * * *"


def test_observe_asks_for_the_dags_that_time_or_an_asset_starts(
    parsed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    by_hand = ("NullTimetable", "DateBucketTimetable")
    assert sorted(timetables.scheduled_dags()) == sorted(
        dag_id
        for dag_id, dag in parsed["dags"].items()
        if not dag["timetable"]["__type"].endswith(by_hand) and dag_id != "observe"
    )
    monkeypatch.setenv("TIDEMARK_CADENCE", "off")
    monkeypatch.setenv("TIDEMARK_REPLICATE_MINUTES", "0")
    monkeypatch.setenv("TIDEMARK_EVENT_GROUPS_MINUTES", "0")
    assert timetables.scheduled_dags() == ["validate", "project", "purge"]
    monkeypatch.setenv("TIDEMARK_CADENCE", "daily")
    monkeypatch.setenv("TIDEMARK_CHAIN", timetables.ONE_DAG)
    assert timetables.scheduled_dags() == ["chain", "project", "purge", "weekly_check"]
    monkeypatch.setenv("TIDEMARK_WEEKLY_CHECK", "off")
    assert timetables.scheduled_dags() == ["chain", "project", "purge"]


@pytest.mark.parametrize(
    "dag_id",
    ["cleanup", "manage_event_groups", "manage_projections", "manage_replication", "reconcile"],
)
def test_each_operation_has_options_of_its_command_and_needs_those_that_are_required(
    parsed: dict[str, Any], dag_id: str
) -> None:
    form = parsed["operations"][dag_id]
    application = command_line(form["application"])
    option_of = {field: option for option, field in form["options"].items()}
    option_of["dry_run"] = "--apply" if form["dry_by_default"] else "--dry-run"
    for name, (takes, needs) in form["operations"].items():
        command = application
        for word in name.split():
            command = command.commands[word]
        options = {option for parameter in command.params for option in parameter.opts}
        operands = {*takes} & {*form["operands"]}
        arguments = {
            parameter.opts[0]
            for parameter in command.params
            if parameter.param_type_name == "argument"
        }
        assert {option_of[field] for field in {*takes} - operands} <= options, name
        assert len(operands) == len(arguments), name
        needed = {option_of.get(field) for field in needs}
        needed |= {*arguments} if operands & {*needs} else set()
        required = {parameter.opts[0] for parameter in command.params if parameter.required}
        assert required <= needed, name


@pytest.mark.parametrize("dag_id", WINDOWED)
def test_window_is_resolved_before_the_application_starts(
    parsed: dict[str, Any], dag_id: str
) -> None:
    tasks = tasks_of(parsed, dag_id)
    if dag_id == "purge":
        after = {
            "resolve_window": ["plan", "purge"],
            "plan": ["approve"],
            "approve": ["purge"],
            "purge": [],
        }
    elif dag_id == "project":
        after = {
            "resolve_window": ["project"],
            "list_projections": ["project"],
            "project": ["update_after_all"],
            "update_after_all": [],
        }
    elif dag_id == "weekly_check":
        after = {"resolve_window": ["validate"], "validate": [], "reconcile": []}
    elif dag_id in ("backfill", "chain"):
        prefix = "part." if dag_id == "backfill" else ""
        steps = [f"{prefix}{step}" for step in STEPS]
        after = {
            "resolve_window": ["chain"],
            f"{prefix}chain": steps,
            **{step: [f"{step}_after_failure"] for step in steps},
            **{f"{step}_after_failure": [] for step in steps},
        }
        if dag_id == "backfill":
            after |= {
                "resolve_window": ["parts", "preview"],
                "preview": ["parts"],
                "parts": ["part.chain"],
            }
    else:
        after = {
            "resolve_window": [dag_id],
            dag_id: ["update_after_failure"],
            "update_after_failure": [],
        }
    assert {name: task.get("downstream_task_ids", []) for name, task in tasks.items()} == after


def test_each_step_of_the_chain_ends_by_itself_and_updates_its_own_assets(
    parsed: dict[str, Any],
) -> None:
    """A run's state is that of its last tasks, so no step may come after another."""
    tasks = tasks_of(parsed, "chain")
    for step in STEPS:
        after = tasks[f"{step}_after_failure"]
        assert tasks[step]["trigger_rule"] == "all_done"
        assert after["outlets"] == tasks[step]["outlets"]
        assert (after["trigger_rule"], after["is_teardown"]) == ("all_failed", True)
    assert tasks["chain"].get("outlets", []) == []


@pytest.mark.parametrize("dag_id", ["tag_write", "validate"])
def test_assets_of_an_application_are_also_updated_after_its_failure(
    parsed: dict[str, Any], dag_id: str
) -> None:
    tasks = tasks_of(parsed, dag_id)
    assert tasks["update_after_failure"]["outlets"] == tasks[dag_id]["outlets"]
    assert tasks["update_after_failure"]["trigger_rule"] == "all_failed"
    assert tasks["update_after_failure"]["is_teardown"] is True


def test_assets_of_projections_are_updated_once_when_all_tasks_have_ended(
    parsed: dict[str, Any],
) -> None:
    tasks = tasks_of(parsed, "project")
    assert tasks["update_after_all"]["trigger_rule"] == "all_done"
    assert tasks["update_after_all"]["is_teardown"] is True
    assert "outlets" not in tasks["project"]["partial_kwargs"]


@pytest.mark.parametrize("dag_id", DAG_IDS)
def test_each_application_runs_once_at_a_time_and_in_a_pool_of_its_journal(
    parsed: dict[str, Any], dag_id: str
) -> None:
    dag = parsed["dags"][dag_id]
    assert dag["max_active_runs"] == 1
    assert dag["catchup"] is False
    assert dag["is_paused_upon_creation"] is True
    application = tasks_of(parsed, dag_id)[APPLICATION_TASKS.get(dag_id, dag_id)]
    if dag_id == "project":
        application = application["partial_kwargs"]
    assert application.get("pool", "default_pool") == POOLS.get(dag_id, "tidemark_pekko")
    not_repeated = ("backfill", "chain", "observe")
    assert application.get("retries", 0) == (0 if dag_id in not_repeated else 1)
    assert application["owner"] == "tidemark"
    assert dag["description"]
    assert "tidemark" in dag["tags"]


def test_form_has_typed_fields_with_safe_defaults(parsed: dict[str, Any]) -> None:
    moment = [None, ["null", "string"]]
    common = {"window_start": moment, "window_end": moment}
    usual = {**common, "dry_run": [False, "boolean"], "force": [False, "boolean"]}
    forms = {dag_id: parsed["params"][dag_id] for dag_id in DAG_IDS}
    assert forms == {
        "chain": {**usual, "projections": [[], ["null", "array"]]},
        "backfill": {
            **usual,
            "projections": [[], ["null", "array"]],
            "days_at_a_time": [None, ["null", "integer"]],
        },
        "weekly_check": common,
        "tag_write": {**usual, "strategy": [None, ["null", "string"]]},
        "validate": {
            **usual,
            "scope": [None, ["null", "string"]],
            "layers": [[], ["null", "array"]],
            "persistence_ids": [[], ["null", "array"]],
            "slices": [None, ["null", "string"]],
        },
        "project": {
            **usual,
            "strict": [False, "boolean"],
            "accept_purged": [False, "boolean"],
            "accept_purged_ids": [[], ["null", "array"]],
            "projections": [[], ["null", "array"]],
            "slices": [None, ["null", "string"]],
            "max_pieces": [None, ["null", "integer"]],
        },
        "purge": {
            **common,
            "dry_run": [True, "boolean"],
            "retention_days": [None, ["null", "integer"]],
            "below_retention": [False, "boolean"],
            "give_up": [[], ["null", "array"]],
            "policies": [[], ["null", "array"]],
            "save_to": [None, ["null", "string"]],
            "approval_above": [None, ["null", "integer"]],
        },
        "manage_projections": {
            **common,
            "operation": ["status", "string"],
            "projections": [[], ["null", "array"]],
            "persistence_id": [None, ["null", "string"]],
            "sequence_nr": [None, ["null", "integer"]],
            "reason": [None, ["null", "string"]],
            "limit": [None, ["null", "integer"]],
            "tag": [None, ["null", "string"]],
            "slice": [None, ["null", "integer"]],
            "to": [None, ["null", "integer"]],
            "expected": [None, ["null", "integer"]],
            "version": [None, ["null", "integer"]],
            "other": [None, ["null", "string"]],
            "time_window": [None, ["null", "integer"]],
            "max_pieces": [None, ["null", "integer"]],
            "ranges": [None, ["null", "integer"]],
            "gaps": [False, "boolean"],
            "before": [None, ["null", "string"]],
            "all": [False, "boolean"],
            "exact": [False, "boolean"],
            "verify": [False, "boolean"],
            "force": [False, "boolean"],
            "apply": [False, "boolean"],
        },
        "cleanup": {
            "operation": ["deleted-events", "string"],
            "persistence_ids": [[], ["null", "array"]],
            "entity_types": [[], ["null", "array"]],
            "all": [False, "boolean"],
            "keep": [None, ["null", "integer"]],
            "keep_after": [None, ["null", "string"]],
            "events": [False, "boolean"],
            "to": [None, ["null", "integer"]],
            "never_use_again": [False, "boolean"],
            "save_to": [None, ["null", "string"]],
            "saved_in": [None, ["null", "string"]],
            "of_run": [None, ["null", "string"]],
            "keep_write_times": [False, "boolean"],
            "dry_run": [True, "boolean"],
        },
        "reconcile": {
            **common,
            "operation": ["check", "string"],
            "persistence_ids": [[], ["null", "array"]],
            "tags": [[], ["null", "array"]],
            "all": [False, "boolean"],
            "from_findings": [False, "boolean"],
            "to": [None, ["null", "string"]],
            "table": [None, ["null", "string"]],
            "drop_old": [None, ["null", "string"]],
            "search_all": [False, "boolean"],
            "recheck": [False, "boolean"],
            "allow_unsearchable": [False, "boolean"],
            "limit": [None, ["null", "integer"]],
            "check": [None, ["null", "string"]],
            "number": [None, ["null", "integer"]],
            "reason": [None, ["null", "string"]],
            "dry_run": [True, "boolean"],
        },
        "replicate": {"topics": [[], ["null", "array"]], "dry_run": [False, "boolean"]},
        "manage_replication": {
            "operation": ["verify", "string"],
            "dry_run": [True, "boolean"],
            "topics": [[], ["null", "array"]],
            "keys": [[], ["null", "array"]],
            "since": [None, ["null", "string"]],
            "until": [None, ["null", "string"]],
            "offsets": [[], ["null", "array"]],
            "skip": [[], ["null", "array"]],
            "records": [None, ["null", "string"]],
        },
        "manage_event_groups": {
            "operation": ["status", "string"],
            "dry_run": [True, "boolean"],
            "groups": [[], ["null", "array"]],
            "stream": [None, ["null", "string"]],
            "settled_as": [None, ["null", "string"]],
            "tables": [[], ["null", "array"]],
            "into": [[], ["null", "array"]],
            "played_group": [None, ["null", "string"]],
            "first": [None, ["null", "integer"]],
            "last": [None, ["null", "integer"]],
        },
        "event_groups": {"stream": [None, ["null", "string"]], "dry_run": [False, "boolean"]},
        "submit_event_groups": {
            "group": [None, ["null", "string"]],
            "topic": [None, ["null", "string"]],
            "stream": [None, ["null", "string"]],
            "execute": [False, "boolean"],
            "dry_run": [False, "boolean"],
            "values": [False, "boolean"],
        },
        "observe": {},
    }


@pytest.mark.parametrize("dag_id", DAG_IDS)
def test_dag_file_is_wiring_only(dag_id: str) -> None:
    lines = (ROOT / "dags" / f"{dag_id}.py").read_text().splitlines()
    assert len(lines) < 60
