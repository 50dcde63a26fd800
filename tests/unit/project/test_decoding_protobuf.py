"""Protobuf messages with every kind of field."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tests.unit.project import decoder_payloads as sample
from tidemark.errors import DefinitionError
from tidemark.project.decoding.protobuf import Protobuf, message_class, spark_types
from tidemark.project.transformation import transform

FIELDS = (
    "stops ARRAY<INT>, seats MAP<STRING, BIGINT>, class STRING, at TIMESTAMP,"
    " leg STRUCT<carrier: STRING, miles: BIGINT>, legs ARRAY<STRUCT<carrier: STRING>>"
)
DECODER = "{kind: protobuf, descriptors: trip.desc, message: acme.Trip}"
TEXT = (
    '{"stops":[1,300],"seats":{"x":2},"class":"FIRST","at":"2013-01-01T05:15:00.000250Z",'
    '"leg":{"carrier":"UA","miles":null},"legs":[{"carrier":"","miles":5}]}'
)


def descriptor_set(*, with_imports: bool = True) -> bytes:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="trip.proto", package="acme", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Class")
    kind.value.add(name="NONE", number=0)
    kind.value.add(name="FIRST", number=1)
    leg = file.message_type.add(name="Leg")
    leg.field.add(name="carrier", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    miles = leg.field.add(
        name="miles", number=2, type=field.TYPE_UINT32, label=field.LABEL_OPTIONAL
    )
    leg.oneof_decl.add(name="_miles")
    miles.proto3_optional, miles.oneof_index = True, 0
    trip = file.message_type.add(name="Trip")
    entry = trip.nested_type.add(name="SeatsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    for name, number, type_, label, type_name in (
        ("stops", 1, field.TYPE_INT32, field.LABEL_REPEATED, None),
        ("seats", 2, field.TYPE_MESSAGE, field.LABEL_REPEATED, ".acme.Trip.SeatsEntry"),
        ("class", 3, field.TYPE_ENUM, field.LABEL_OPTIONAL, ".acme.Class"),
        ("at", 4, field.TYPE_MESSAGE, field.LABEL_OPTIONAL, ".google.protobuf.Timestamp"),
        ("leg", 5, field.TYPE_MESSAGE, field.LABEL_OPTIONAL, ".acme.Leg"),
        ("legs", 6, field.TYPE_MESSAGE, field.LABEL_REPEATED, ".acme.Leg"),
    ):
        trip.field.add(name=name, number=number, type=type_, label=label, type_name=type_name)
    times = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    files = [times, file] if with_imports else [file]
    serialized: bytes = descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
    return serialized


# Written by hand from the wire format: stops 1 and 300, packed; seats x: 2; class 1;
# at 1357017300 s and 250000 ns; leg UA; legs: one of 5 miles.
TRIP = bytes.fromhex(
    "0a0301ac02" "12050a01781002" "1801" "220a08d4e189870510" "90a10f" "2a040a025541" "32021005"
)  # fmt: skip


def test_every_kind_of_field_has_its_form_in_json() -> None:
    names = frozenset(["stops", "seats", "class", "at", "leg", "legs"])
    assert list(Protobuf(descriptor_set(), "acme.Trip", names)([TRIP])) == [(TEXT, None)]
    unset = '{"stops":[],"seats":{},"class":"NONE","at":null,"leg":null,"legs":[]}'
    assert list(Protobuf(descriptor_set(), "acme.Trip", names)([b""])) == [(unset, None)]
    # The number of a value that the enumeration did not have yet.
    newer = Protobuf(descriptor_set(), "acme.Trip", frozenset(["class"]))([b"\x18\x07"])
    assert list(newer) == [('{"class":7}', None)]


def test_the_spark_types_of_the_fields() -> None:
    assert spark_types(message_class(descriptor_set(), "acme.Trip").DESCRIPTOR) == {
        "stops": T.ArrayType(T.IntegerType()),
        "seats": None,
        "class": T.StringType(),
        "at": T.TimestampType(),
        "leg": None,
        "legs": None,
    }


def test_spark_reads_every_kind_of_field(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "trip.desc").write_bytes(descriptor_set())
    checked = sample.check(spark, tmp_path, DECODER, FIELDS)
    events = sample.event_rows(spark, [("a|1", 1, "uuid", 0, 0, [], 1, "", TRIP)])
    decoded = transform.decode(events, checked.event, checked.decoders)
    (event,) = transform.readable(decoded).select(*checked.event.names).collect()
    moment = datetime(2013, 1, 1, 5, 15, microsecond=250, tzinfo=UTC)
    assert event.asDict(recursive=True) == {
        "stops": [1, 300],
        "seats": {"x": 2},
        "class": "FIRST",
        # Python gets local time.
        "at": moment.astimezone().replace(tzinfo=None),
        "leg": {"carrier": "UA", "miles": None},
        "legs": [{"carrier": ""}],
    }


def test_a_descriptor_set_without_its_imports_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "trip.desc").write_bytes(descriptor_set(with_imports=False))
    with pytest.raises(DefinitionError) as refused:
        sample.check(spark, tmp_path, DECODER, FIELDS)
    assert str(refused.value) == (
        "trip.desc cannot be used: it is no whole descriptor set: Couldn't build proto file into"
        " descriptor pool: Depends on file 'google/protobuf/timestamp.proto', but it has not been"
        " loaded"
        f" ({tmp_path / 'fares.sql'}:8:12);"
        " make it with `protoc --include_imports --descriptor_set_out=FILE`"
    )
