"""The model of an event group: the keys that its file may have.

Values are texts or nulls in the file. They are sent as JSON, and Cassandra converts them to the
type of the column.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from packaging.utils import canonicalize_name
from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from tidemark.user_files.form import EACH_ONCE, HeaderModel, OneKey, Text, refusal
from tidemark.user_files.yaml_text import WrittenNull

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
Names = Annotated[tuple[Name, ...], EACH_ONCE]
Function = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")
]
"""A Python function: `module:function`."""
Seconds = Annotated[int, Field(ge=1, le=3600)]
MAX_EVENTS = 1000
"""The maximum number of events in a group: their states are read and written together."""


def _require_json(value: Any) -> Any:
    """Accept texts, nulls, and lists and mappings of them."""
    if value is None or isinstance(value, WrittenNull):
        return None
    if isinstance(value, dict):
        return {str(key): _require_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_require_json(item) for item in value]
    if not isinstance(value, str):
        raise refusal("write a text, null, a list or a mapping")
    return value


Value = Annotated[Any, AfterValidator(_require_json)]


class FailurePolicy(StrEnum):
    """What happens to the other events of a group when one fails."""

    ALL_FOR_ONE = "all-for-one"
    ONE_FOR_ONE = "one-for-one"


class Need(HeaderModel):
    """The source of a parameter: the result of another event, or something outside the group."""

    event: Name | None = Field(None, description="the select whose result it is")
    as_: Name = Field(description="the parameter that it becomes", examples=["total"])
    take: Text | None = Field(None, description="the column; without it, that of the name of `as`")
    sql: Text | None = Field(
        None, description="an expression over the columns of the result, such as `sum(total)`"
    )
    call: Function | None = Field(
        None, description="a Python function that makes the value, of the rows if it has an event"
    )
    url: Text | None = Field(None, description="what answers a POST with the value, as JSON")
    timeout: Seconds = Field(10, description="seconds that it may take")


class Compensating(HeaderModel):
    """A statement that undoes an event."""

    statement: Text = Field(examples=["DELETE FROM shop.orders WHERE id = :id"])
    values: dict[str, Value] = Field({}, description="further parameters")


class AskedAddress(HeaderModel):
    """An external service that undoes an event, and may answer later."""

    http: Text | None = Field(
        None, description="an address, which gets a POST until it has taken it back"
    )
    kafka: Text | None = Field(
        None, description="a topic, which gets a record until it is answered"
    )
    answers: Text | None = Field(None, description="the topic of the answers to `kafka`")
    within: Annotated[int, Field(ge=1, le=30 * 86400)] = Field(
        3600, description="seconds after which the rollback has failed"
    )
    timeout: Seconds = Field(10, description="seconds that one answer may take")

    @model_validator(mode="after")
    def _require_one_way(self) -> Self:
        if len(self.model_fields_set & {"http", "kafka"}) != 1:
            raise refusal("write exactly one of http, kafka")
        if (self.kafka is None) is not (self.answers is None):
            raise refusal("write `answers` with `kafka`, and without it not")
        return self


class Compensation(OneKey):
    """The user's own undo: statements in order, a function, or an external service."""

    statements: tuple[Compensating, ...] = Field(
        (), min_length=1, description="with the parameters of the event"
    )
    call: Function | None = Field(None, description="a Python function, which is told the event")
    ask: AskedAddress | None = Field(None, description="who answers now that it is done, or later")


Rollback = Annotated[
    Annotated[Literal["restore", "none"], Tag("text")] | Annotated[Compensation, Tag("mapping")],
    Discriminator(lambda value: "text" if isinstance(value, str) else "mapping"),
]


class Library(HeaderModel):
    """A Python library to load, for this group and all later ones."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}\w)?$")] = (
        Field(examples=["shop-rules"])
    )
    version: Annotated[str, StringConstraints(pattern=r"^\d[\w.!+]{0,62}$")] = Field(
        examples=["1.2.0"]
    )

    @property
    def key(self) -> str:
        """Return the name that identifies the library."""
        return canonicalize_name(self.name)


class JarLibrary(HeaderModel):
    """A JAR whose functions Spark calls, for this group and all later ones."""

    jar: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*:[A-Za-z0-9][\w.-]*$")] = (
        Field(description="`group:artifact`", examples=["org.example:geo"])
    )
    version: Annotated[str, StringConstraints(pattern=r"^\d[\w.-]{0,62}$")] = Field(
        examples=["1.2.0"]
    )
    functions: dict[
        Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")],
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*$")],
    ] = Field(
        min_length=1,
        description="the class of each function, by the name that `sql` has for it",
        examples=[{"distance": "org.example.Distance"}],
    )

    @property
    def name(self) -> str:
        """Return the Maven coordinate."""
        return self.jar

    @property
    def key(self) -> str:
        """Return the name that identifies the library."""
        return self.jar


def _kind_of_library(value: object) -> str:
    is_jar = "jar" in value if isinstance(value, dict) else isinstance(value, JarLibrary)
    return "java" if is_jar else "python"


AnyLibrary = Annotated[
    Annotated[Library, Tag("python")] | Annotated[JarLibrary, Tag("java")],
    Discriminator(_kind_of_library),
]


class Hook(HeaderModel):
    """A notification that an event begins or has ended, to exactly one target."""

    http: Text | None = Field(None, description="an address, which gets a POST in JSON")
    kafka: Text | None = Field(None, description="a topic of Kafka, which gets a record in JSON")
    dag: Text | None = Field(None, description="a DAG of Airflow, of which a run is started")
    asset: Text | None = Field(None, description="the URI of an asset of Airflow: an event of it")
    call: Function | None = Field(None, description="a Python function")
    submit: Group | None = Field(None, description="another group, appended to the stream")
    if_: Literal["done", "failed"] | None = Field(
        None, description="tell only of this end; without it, of any"
    )
    ack: bool = Field(False, description="the event fails if this is not acknowledged")
    timeout: Seconds = Field(10, description="seconds that one attempt may take")

    @property
    def target(self) -> str:
        """Return the key of the target, such as `http`."""
        return next(name for name in TARGETS if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _require_one_target(self) -> Self:
        if len(self.model_fields_set & {*TARGETS}) != 1:
            raise refusal(f"write exactly one of {', '.join(TARGETS)}")
        return self


TARGETS = ("http", "kafka", "dag", "asset", "call", "submit")


class Hooks(HeaderModel):
    """The notifications of an event."""

    before: tuple[Hook, ...] = Field((), description="told that it begins")
    after: tuple[Hook, ...] = Field((), description="told how it has ended")


class GroupHooks(Hooks):
    """The notifications of a group, and the helpers that run while it is executed."""

    helpers: tuple[Function, ...] = Field(
        (), description="Python functions that run until the group has ended"
    )


class Event(HeaderModel):
    """A step of a group, which is executed after all events that it depends on."""

    name: Name = Field(examples=["correct-total"])
    statement: Text | None = Field(
        None, description="CQL with named parameters; without one, the event does nothing"
    )
    library: AnyLibrary | None = Field(None, description="what it loads, instead of a statement")
    values: dict[str, Value] = Field({}, description="values of parameters")
    after: Names = Field((), description="events that must have succeeded before")
    each: Name | None = Field(
        None, description="the select in `after` for each of whose rows the statement is sent"
    )
    many: bool = Field(
        False, description="whether a select may find any number of rows, which Spark reads then"
    )
    needs: tuple[Need, ...] = Field((), description="parameters out of results")
    expect: Literal["one", "some", "none"] | None = Field(
        None, description="how many rows a select must find; else the event fails"
    )
    rollback: Rollback = Field(
        "restore", description="restore what was there, none, or statements of your own"
    )
    timeout: Seconds = Field(10, description="seconds that one attempt of the statement may take")
    hooks: Hooks = Field(default_factory=lambda: Hooks(), description="who is told")

    @property
    def asked(self) -> AskedAddress | None:
        """Return the external service that undoes the event."""
        return self.rollback.ask if isinstance(self.rollback, Compensation) else None

    @property
    def row_needs(self) -> list[Need]:
        """Return the needs whose values differ for each row of `each`."""
        return [need for need in self.needs if self.each is not None and need.event == self.each]


class DeclaredRow(HeaderModel):
    """A row, or all rows of a partition, that the group may write or read."""

    table: Text = Field(examples=["shop.orders"])
    key: dict[str, Text] = Field(min_length=1, examples=[{"id": "17"}])


class Group(HeaderModel):
    """An event group."""

    group: Name = Field(description="its id, unique in the stream", examples=["correct-order-17"])
    policy: FailurePolicy = Field(
        FailurePolicy.ALL_FOR_ONE,
        description="roll all back if one fails, or only leave its dependents",
    )
    rows: tuple[DeclaredRow, ...] = Field(
        (), description="all that it writes; groups without it run alone"
    )
    reads: tuple[DeclaredRow, ...] = Field(
        (), description="further rows that it only reads; a select of others makes it run alone"
    )
    hooks: GroupHooks = Field(
        default_factory=lambda: GroupHooks(), description="who is told of the group as a whole"
    )
    events: tuple[Event, ...] = Field(min_length=1, max_length=MAX_EVENTS)


Hook.model_rebuild()
