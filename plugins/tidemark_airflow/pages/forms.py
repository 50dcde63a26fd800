"""The forms of Tidemark's DAGs, for links and orders that fill them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.models.serialized_dag import SerializedDagModel
from airflow.serialization.definitions.param import SerializedParam
from fastapi import HTTPException

from tidemark_airflow.next_step import RunAgainLink
from tidemark_airflow.operations import operations_of

if TYPE_CHECKING:
    from airflow.serialization.definitions.dag import SerializedDAG

OPERATION = "operation"
DRY = {"dry_run": True, "apply": False}
"""The fields that choose a dry run, with their values for it."""


@dataclass(frozen=True)
class DagForm:
    """The form of a DAG.

    Attributes:
        dag_id: id of the DAG.
        fields: the fields of the form by name.
        has_schedule: whether time or assets start the DAG, too.
    """

    dag_id: str
    fields: Mapping[str, SerializedParam]
    has_schedule: bool

    def check(self, values: Mapping[str, Any]) -> None:
        """Require that the form has these fields, and that they take these values.

        Raises:
            HTTPException: 400 if not.
        """
        for name, value in values.items():
            if name not in self.fields:
                raise HTTPException(400, "conf has a field that the DAG's form does not have")
            schema = self.fields[name].schema
            if value is not None and SerializedParam(value, **schema).resolve() is None:
                raise HTTPException(400, f'conf has a value that "{name}" does not take')

    def flag(self, values: Mapping[str, Any]) -> str | None:
        """Return the field that chooses a dry run; None if the operation has no dry run."""
        flag = next((name for name in DRY if name in self.fields), None)
        name = values.get(OPERATION, self.default(OPERATION))
        operation = operations_of(self.dag_id).get(name)
        return flag if flag is None or operation is None or flag in operation.takes else None

    def default(self, name: str) -> Any:
        """Return the default value of a field; None if the form does not have the field."""
        return self.fields[name].value if name in self.fields else None


def form_of(dag_id: str) -> DagForm:
    """Return the form of a DAG of Tidemark.

    Raises:
        HTTPException: 404 if the DAG has none of Tidemark's operators.
    """
    dag = SerializedDagModel.get_dag(dag_id)
    if dag is None or not has_buttons(dag):
        raise HTTPException(404, f"{dag_id} is no DAG of Tidemark")
    fields = {name: dag.params.get_param(name) for name in dag.params}
    return DagForm(dag_id, fields, dag.timetable.can_be_scheduled)


def has_buttons(dag: SerializedDAG) -> bool:
    """Return whether a task has the button that opens a page of the DAG."""
    key = RunAgainLink().xcom_key
    return any(link.xcom_key == key for task in dag.tasks for link in task.operator_extra_links)
