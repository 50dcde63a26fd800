"""The keys that the header of a projection's file may have, and their values.

`make schemas` writes `include/schemas/projection.schema.json` from these models, for editors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from tidemark.cassandra.schema import identifier
from tidemark.errors import InvalidInput
from tidemark.project.definition.model import MAX_VERSION, IfDeleted, Mode, Promote, Release, Start
from tidemark.text import DURATION
from tidemark.user_files.form import BY_SHAPE, DIFFERENT, HeaderModel, OneKey, Text, Texts, refusal
from tidemark.user_files.journals import JournalName
from tidemark.user_sql.row_check import AnyCheck

_WORD = "[A-Za-z_][A-Za-z0-9_]*"
MAX_LOOK_BACK = 10_000
"""Time buckets; to look back further, searching by the gap that a late event leaves is better."""


def _require_identifier(name: str) -> str:
    try:
        identifier(name)
    except InvalidInput as error:
        raise refusal(error.do) from None
    return name


Name = Annotated[
    str,
    AfterValidator(_require_identifier),
    Field(json_schema_extra={"pattern": "^[A-Za-z][A-Za-z0-9_]{0,47}$"}),
]
"""A name that Cassandra accepts without quotes."""
EntityType = Annotated[Text, StringConstraints(pattern=r"^[^|]+$")]
MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2})?Z)?$"
"""A day, or a time in UTC."""


class EventSourceForm(OneKey):
    """Some of the events."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 2})

    entity_types: Annotated[tuple[EntityType, ...], *DIFFERENT] = Field(
        (), description="those of these entity types: a persistence id up to its first |"
    )
    tags: Texts = Field((), description="the tag views of these tags")
    persistence_ids: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1)], ...], *DIFFERENT
    ] = Field((), description="the events of these persistence ids")
    kafka_journal: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,249}$")] = Field(
        "", description="what kafka-journal replicated from this topic"
    )
    read_model: Name = Field(
        "", description="in mode rollup, the rows of this projection's read model"
    )
    journal: JournalName = Field(
        "",
        description="the journal, an entry of journals.yaml; a run on another journal rejects the"
        " projection",
    )

    @model_validator(mode="after")
    def _require_one_key(self) -> Self:
        kinds, stated = self.model_fields_set - {"journal"}, self.model_fields_set
        if (
            not stated
            or len(kinds) > 1
            or (self.journal and (self.kafka_journal or self.read_model))
        ):
            names = ", ".join(name for name in self.fields() if name != "journal")
            raise refusal(
                f"write exactly one of {names}; of events in a journal that is not that of every"
                " run, journal as well"
            )
        return self


class RuleForm(HeaderModel):
    """A rule of a decoder: which payloads it takes."""

    serializer_id: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | SkipJsonSchema[None] = Field(
        None, description="of the events that it takes; without it those of every serializer"
    )
    manifest: str | SkipJsonSchema[None] = Field(
        None, description="the serializer's manifest; '' is that of events without one"
    )


class WholeRule(RuleForm):
    """Payloads that give all fields, or none."""

    kind: Literal["json", "jackson-json", "jackson-cbor", "skip", "fail"]


class OneFieldRule(RuleForm):
    """Payloads that are one field; without a name it is the only one of that type."""

    kind: Literal["string", "bytes"]
    field: Text | SkipJsonSchema[None] = None


class AvroRule(RuleForm):
    """Avro records; the file is relative to the definition's."""

    kind: Literal["avro"]
    schema_: Text = Field(examples=["fared.avsc"])


class ProtobufRule(RuleForm):
    """Protobuf messages; the file is relative to the definition's."""

    kind: Literal["protobuf"]
    descriptors: Text = Field(examples=["acme.desc"])
    message: Text = Field(examples=["acme.Fared"])


class PythonRule(RuleForm):
    """Payloads that a function reads, `module:function`."""

    kind: Literal["python"]
    function: Annotated[str, StringConstraints(pattern=rf"^{_WORD}(\.{_WORD})*:{_WORD}$")] = Field(
        examples=["decoders:decode"]
    )


AnyRule = Annotated[
    Annotated[
        Literal["json", "jackson-json", "jackson-cbor", "string", "bytes", "skip", "fail"],
        Tag("text"),
    ]
    | Annotated[
        Annotated[
            WholeRule | OneFieldRule | AvroRule | ProtobufRule | PythonRule,
            Field(discriminator="kind"),
        ],
        Tag("mapping"),
    ],
    BY_SHAPE,
]


class Retry(HeaderModel):
    """Call the function again before the event is given up."""

    strategy: Literal["retry-and-skip", "retry-and-fail"] = Field(examples=["retry-and-skip"])
    retries: Annotated[int, Field(ge=1, le=9999)] = Field(examples=[3])
    retry_delay: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,6} ?(ms|s|min)$")] = Field(
        examples=["200 ms"]
    )


class ProjectionHeader(HeaderModel):
    """The header of a projection."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"mode": {"const": Mode.ROLLUP}}},
            "else": {"required": ["event"]},
        }
    )

    name: Name = Field(description="unique among the files", examples=["daily_punctuality"])
    version: Annotated[int, Field(ge=1, le=MAX_VERSION)] = Field(
        description="raised when the result changes its meaning", examples=[1]
    )
    source: Annotated[
        Annotated[Literal["messages"], Tag("text")] | Annotated[EventSourceForm, Tag("mapping")],
        BY_SHAPE,
    ] = Field(description="which events are read", examples=[{"tags": ["EWR", "JFK"]}, "messages"])
    mode: Mode = Field(description="how the result goes into its target", examples=["bucket"])
    target: Text = Field(
        description="keyspace.table; in mode export a directory",
        examples=["flights.daily_punctuality"],
    )
    event: Text = Field(
        "",
        description="the payload's fields as Spark DDL; not in mode rollup",
        examples=["kind STRING, dep_delay INT"],
    )
    formats: dict[str, Text] = Field(
        {},
        description="of TIMESTAMP fields that are numbers or have a pattern of their own:"
        " epoch-seconds, epoch-millis, epoch-micros, or a datetime pattern of Spark",
        examples=[{"departed": "epoch-millis", "booked": "dd.MM.yyyy HH:mm"}],
    )
    with_: dict[Name, Annotated[str, StringConstraints(pattern=rf"^{_WORD}\.{_WORD}$")]] = Field(
        {},
        description="tables of Cassandra that events are joined with, as keyspace.table by the"
        " names that the SELECT gives them",
        examples=[{"airports": "flights.airports"}],
    )
    start: Start = Field(
        Start.FIRST_EVENT, description="what a persistence id begins with", examples=["snapshot"]
    )
    from_: Annotated[str, StringConstraints(pattern=MOMENT)] = Field(
        "",
        description="the first time bucket that is processed; without it the first there is",
        examples=["2026-01-01", "2026-01-01T06:00Z"],
    )
    decoders: Annotated[tuple[AnyRule, ...], Field(min_length=1)] = Field(
        ("json",),
        description="how payloads are read; the first rule that takes an event reads it",
        examples=[
            [{"serializer-id": 1003, "kind": "python", "function": "decoders:decode"}, "json"]
        ],
    )
    on_error: Annotated[
        Annotated[Literal["skip", "fail"], Tag("text")] | Annotated[Retry, Tag("mapping")],
        BY_SHAPE,
    ] = Field(
        "",  # type: ignore[arg-type]  # a stated `fail` differs from none in the fingerprint
        description="what becomes of an event that cannot be processed; without it fail",
        examples=[{"strategy": "retry-and-skip", "retries": 3, "retry-delay": "200 ms"}],
    )
    deleted_before_consumed: IfDeleted = Field(
        IfDeleted.HOLD,
        description="what becomes of a persistence id whose events were deleted before they were"
        " consumed",
        examples=["accept"],
    )
    most_skipped: Annotated[
        str,
        StringConstraints(pattern=r"^([0-9]{1,9}|(100|[0-9]{1,2}(\.[0-9]{1,4})?) ?%)$"),
        BeforeValidator(lambda value: str(value) if isinstance(value, int) else value),
    ] = Field(
        "",
        description="how many events of a time bucket may be skipped before it fails, a number or"
        " a percentage; without it any number",
        examples=["0.1%", 10],
        json_schema_extra={"type": ["string", "integer"]},
    )
    state: Text = Field(
        "",
        description="of mode fold, the state's fields as Spark DDL",
        examples=["balance DECIMAL(9,2), moves INT"],
    )
    accept_sequence_number_reset_after: Annotated[
        str, StringConstraints(pattern=r"^([0-9]{1,9} ?[smhd]|off)$")
    ] = Field(
        "off",
        description="how long after the last event a lower sequence nr begins anew",
        examples=["10 s"],
    )
    look_back: Annotated[int, Field(ge=0, le=MAX_LOOK_BACK)] | SkipJsonSchema[None] = Field(
        None,
        description="of tags: time buckets before each in which late events are looked for",
        examples=[2],
    )
    fresh_within: Annotated[str, StringConstraints(pattern=DURATION)] = Field(
        "",
        description="how old an event may be that is not in the result yet; if it is older, the"
        " application `observe` raises an alarm",
        examples=["2 h"],
    )
    checks: tuple[AnyCheck, ...] = Field(
        (),
        description="what must be true of the result",
        examples=[["departed >= 0", {"not-null": "carrier"}, {"warn": "delay < 600"}]],
    )
    release: Release = Field(
        Release.IN_PLACE, description="where a new version is written", examples=["blue-green"]
    )
    promote: Promote = Field(
        Promote.AUTOMATIC,
        description="whether the run makes a blue-green version that has caught up the live one, or"
        " somebody does with `project.py promote`",
        examples=["manual"],
    )
    key: Annotated[tuple[Name, ...], *DIFFERENT] = Field(
        (), description="the target's primary key", examples=[["time_bucket", "carrier"]]
    )

    @classmethod
    def required(cls, value: Mapping[str, Any]) -> set[str]:
        """Return the keys that a header must have; projections of events need their fields."""
        is_of_events = value.get("mode") != Mode.ROLLUP
        return super().required(value) | ({"event"} if is_of_events else set())
