"""The operations of the forms: their fields are those of the command line, and are checked."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import pytest
from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException

from tidemark.application.cli import Command
from tidemark.command_line import replicate, run_event_groups
from tidemark.project.handover import commands as handover
from tidemark.project.management import commands as management
from tidemark.project.quarantine import commands as quarantine
from tidemark.project.versions import commands as versions
from tidemark.reconcile import commands as reconcile
from tidemark.reconcile.cleanup import commands as cleanup
from tidemark_airflow.operations import (
    CLEANUP,
    MANAGE_EVENT_GROUPS,
    MANAGE_PROJECTIONS,
    MANAGE_REPLICATION,
    RECONCILE,
    Operation,
    filled_in,
    refuse_other_fields,
    with_owners,
)

PROJECTIONS = {
    **management.COMMANDS,
    **versions.COMMANDS,
    **quarantine.COMMANDS,
    **handover.COMMANDS,
}
FIELDS = {
    "persistence_id": "persistence_ids",
    "tag": "tags",
    "everything": "all",
    "slice_number": "slice",
    "projection": "projections",
    "entity_type": "entity_types",
}
"""Fields of the forms whose parameter of a command has another name."""
OF_REPLICATE = {"topic": "topics", "key": "keys", "file": "records"}
"""The same of `replicate`, whose commands have files and keys."""
OF_EVENT_GROUPS = {"group": "groups", "table": "tables"}
"""The same of `run_event_groups`; a playback has the group as an option."""
NOT_IN_FORM = {"save", "values"}
"""A file on the worker that ran the task is of no use to a reader of the UI, and logs are read by
many, who need not see the values of rows."""


def fields_of(command: Command, *, series: bool) -> set[str]:
    parameters = set(inspect.signature(command).parameters) - NOT_IN_FORM
    own = {"persistence_id", "tag"} if series else set()
    named = {name if name in own else FIELDS.get(name, name) for name in parameters}
    return {"dry_run" if name == "apply" and not series else name for name in named}


@pytest.mark.parametrize("name", reconcile.COMMANDS)
def test_form_of_reconcile_has_every_option_of_the_command(name: str) -> None:
    assert {*RECONCILE[name].takes} == fields_of(reconcile.COMMANDS[name], series=False)


@pytest.mark.parametrize("name", MANAGE_REPLICATION)
def test_form_of_manage_replication_has_every_option_of_the_command(name: str) -> None:
    taken = fields_of(getattr(replicate, name), series=False)
    assert {*MANAGE_REPLICATION[name].takes} == {OF_REPLICATE.get(one, one) for one in taken}


@pytest.mark.parametrize("name", MANAGE_EVENT_GROUPS)
def test_form_of_manage_event_groups_has_every_option_of_the_command(name: str) -> None:
    names = {"group": "played_group"} if name == "playback" else OF_EVENT_GROUPS
    taken = fields_of(getattr(run_event_groups, name), series=False)
    assert {*MANAGE_EVENT_GROUPS[name].takes} == {names.get(one, one) for one in taken}


@pytest.mark.parametrize("name", cleanup.COMMANDS)
def test_form_of_cleanup_has_every_option_of_the_command(name: str) -> None:
    assert {*CLEANUP[name].takes} == fields_of(cleanup.COMMANDS[name], series=False)


@pytest.mark.parametrize("name", PROJECTIONS)
def test_form_of_manage_projections_has_every_option_of_the_command(name: str) -> None:
    command = PROJECTIONS[name]
    assert {*MANAGE_PROJECTIONS[name].takes} == fields_of(command, series=True)


def test_each_command_is_an_operation_of_its_form_and_new_needs_no_server() -> None:
    assert set(RECONCILE) == set(reconcile.COMMANDS)
    assert set(CLEANUP) == set(cleanup.COMMANDS)
    assert set(MANAGE_PROJECTIONS) == set(PROJECTIONS)


OPERATIONS = {
    "look": Operation(("names",)),
    "move": Operation(("names", "to"), needs=("names", "to"), single=("names",)),
}


@pytest.fixture
def form() -> ParamsDict:
    names = Param([], type="array", title="Names", description="One a line.")
    to = Param(None, type=["null", "integer"], title="To")
    return ParamsDict(with_owners({"names": names, "to": to}, OPERATIONS))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"operation": "look", "to": 3}, r'look does not take "To"; .* the operation move'),
        ({"operation": "move", "names": ["a"]}, 'move needs "To"; fill that in'),
        ({"operation": "move", "to": 0}, 'move needs "Names"; fill that in'),
        ({"operation": "move", "to": 0, "names": ["a", "b"]}, 'one value in "Names", not 2'),
    ],
)
def test_fields_of_other_operations_and_missing_ones_are_refused(
    form: ParamsDict, given: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(AirflowFailException, match=words):
        refuse_other_fields({"names": [], "to": None, **given}, OPERATIONS, form)


@pytest.mark.parametrize(
    "given",
    [
        {"operation": "look"},
        {"operation": "look", "names": ["a", "b"]},
        {"operation": "move", "names": ["a"], "to": 0},
    ],
)
def test_fields_of_the_operation_are_accepted(form: ParamsDict, given: Mapping[str, Any]) -> None:
    refuse_other_fields({"names": [], "to": None, **given}, OPERATIONS, form)


def test_fields_as_airflow_sends_them_are_filled_in_only_if_they_differ(form: ParamsDict) -> None:
    sent = {"operation": "move", "names": [], "to": 0, "more": "of REST"}
    assert filled_in(sent, form) == {"operation": "move", "to": 0, "more": "of REST"}


def test_form_begins_with_the_operation_and_each_field_says_whose_it_is(form: ParamsDict) -> None:
    assert list(form) == ["operation", "names", "to"]
    assert form.get_param("names").description == "One a line."
    assert form.get_param("to").description == "For move."
