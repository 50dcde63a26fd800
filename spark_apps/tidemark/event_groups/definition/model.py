"""The form of an event group: the keys that its file may have.

Values stand in the file as texts, and reach Cassandra as JSON, which Cassandra converts to the type
of the column.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag

from tidemark.headed_files.form import DIFFERENT, Form, Text, refusal

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
Names = Annotated[tuple[Name, ...], *DIFFERENT]
MAX_EVENTS = 1000
"""The most events of a group: their states are read and written together."""


def _require_json(value: Any) -> Any:
    """Accept texts, lists and mappings of them; a bare `null` is no value."""
    if isinstance(value, dict):
        return {str(key): _require_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_require_json(item) for item in value]
    if not isinstance(value, str):
        raise refusal("write a text, a list or a mapping")
    return value


Value = Annotated[Any, AfterValidator(_require_json)]


class Policy(StrEnum):
    """What the failure of an event does to the others of its group."""

    ALL_FOR_ONE = "all-for-one"
    ONE_FOR_ONE = "one-for-one"


class Need(Form):
    """A value out of the result of another event."""

    event: Name = Field(description="the select whose result it is", examples=["read"])
    as_: Name = Field(description="the parameter that it becomes", examples=["total"])
    take: Text | None = Field(None, description="the column; without it, that of the name of `as`")


class Compensating(Form):
    """A statement that takes back what an event has done."""

    statement: Text = Field(examples=["DELETE FROM shop.orders WHERE id = :id"])
    values: dict[str, Value] = Field({}, description="further parameters")


class Compensation(Form):
    """The user's own way back: statements in their order, with the parameters of the event."""

    statements: tuple[Compensating, ...] = Field(min_length=1)


Rollback = Annotated[
    Annotated[Literal["restore", "none"], Tag("text")] | Annotated[Compensation, Tag("mapping")],
    Discriminator(lambda value: "text" if isinstance(value, str) else "mapping"),
]


class Event(Form):
    """A statement that is executed once all events that it depends on were."""

    name: Name = Field(examples=["correct-total"])
    statement: Text | None = Field(
        None, description="CQL with named parameters; without one, the event does nothing"
    )
    values: dict[str, Value] = Field({}, description="values of parameters")
    after: Names = Field((), description="events that must have succeeded before")
    needs: tuple[Need, ...] = Field((), description="parameters out of results")
    expect: Literal["one", "some", "none"] | None = Field(
        None, description="how many rows a select must find; else the event fails"
    )
    rollback: Rollback = Field(
        "restore", description="restore what was there, none, or statements of your own"
    )
    timeout: Annotated[int, Field(ge=1, le=3600)] = Field(
        10, description="seconds that one attempt of the statement may take"
    )


class DeclaredRow(Form):
    """A row, or all rows of a partition, that the group may write."""

    table: Text = Field(examples=["shop.orders"])
    key: dict[str, Text] = Field(min_length=1, examples=[{"id": "17"}])


class Group(Form):
    """An event group."""

    group: Name = Field(description="its id, unique in the stream", examples=["correct-order-17"])
    policy: Policy = Field(
        Policy.ALL_FOR_ONE, description="roll all back if one fails, or only leave its dependents"
    )
    rows: tuple[DeclaredRow, ...] = Field(
        (), description="all that it writes; groups without it run alone"
    )
    events: tuple[Event, ...] = Field(min_length=1, max_length=MAX_EVENTS)
