"""Decodes payloads in Protobuf by a descriptor set.

This is done in Python, because Spark's own reader of Protobuf is a jar that the locked repository
does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from pyspark.sql import types as T

from tidemark.project.decoding import json_text
from tidemark.project.decoding.json_text import (
    Translation,
    UnreadablePayload,
    one_by_one,
    to_json,
    too_much_text,
)

_TIMESTAMP = "google.protobuf.Timestamp"
_SPARK_TYPES: dict[int, T.DataType] = {
    FieldDescriptor.CPPTYPE_INT32: T.IntegerType(),
    FieldDescriptor.CPPTYPE_INT64: T.LongType(),
    FieldDescriptor.CPPTYPE_UINT32: T.LongType(),
    FieldDescriptor.CPPTYPE_UINT64: T.DecimalType(20, 0),
    FieldDescriptor.CPPTYPE_FLOAT: T.FloatType(),
    FieldDescriptor.CPPTYPE_DOUBLE: T.DoubleType(),
    FieldDescriptor.CPPTYPE_BOOL: T.BooleanType(),
    FieldDescriptor.CPPTYPE_ENUM: T.StringType(),
    FieldDescriptor.CPPTYPE_STRING: T.StringType(),
}


class BadDescriptor(Exception):
    """A descriptor set cannot be used; `what` and `do` are for people."""

    def __init__(self, what: str, do: str) -> None:
        super().__init__(what, do)
        self.what, self.do = what, do


@dataclass(frozen=True)
class Protobuf:
    """The `Translator` of `protobuf`.

    Attributes:
        descriptor_set: serialized `FileDescriptorSet` with everything that it imports.
        message: full name of the payloads' message.
        names: fields to read; all others are ignored.
    """

    descriptor_set: bytes
    message: str
    names: frozenset[str]

    def __call__(self, payloads: Sequence[bytes]) -> Iterator[Translation]:
        """Yield a translation for each payload, in the order of the payloads; never fail."""
        kind = message_class(self.descriptor_set, self.message)
        fields = [field for field in kind.DESCRIPTOR.fields if field.name in self.names]

        def decode(payload: bytes) -> str:
            try:
                message = kind.FromString(payload)
            except DecodeError as error:
                raise UnreadablePayload(f"not Protobuf: {error}") from None
            reader = _FieldReader()
            values = {field.name: reader.value(message, field) for field in fields}
            return to_json(values, is_tree=True)

        return one_by_one(decode, payloads)


@lru_cache(maxsize=64)
def message_class(descriptor_set: bytes, message: str) -> type[Message]:
    """Return the class of a message; a process makes each class once.

    Raises:
        BadDescriptor: the bytes are no descriptor set, or the set does not have the message.
    """
    pool = descriptor_pool.DescriptorPool()
    names: list[str] = []
    try:
        for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file:
            pool.Add(file)
            names += [
                f"{file.package}.{message_type.name}" if file.package else message_type.name
                for message_type in file.message_type
            ]
    except (DecodeError, TypeError) as error:
        raise BadDescriptor(
            f"it is no whole descriptor set: {error}",
            "make it with `protoc --include_imports --descriptor_set_out=FILE`",
        ) from None
    try:
        descriptor = pool.FindMessageTypeByName(message)
    except KeyError:
        remedy = f"it has {', '.join(names) or 'none'}"
        raise BadDescriptor(f"it has no message {message}", remedy) from None
    generated_class: type[Message] = message_factory.GetMessageClass(descriptor)
    return generated_class


def spark_types(descriptor: Descriptor) -> dict[str, T.DataType | None]:
    """Return the Spark type of each field; None for messages and maps, checked for each event."""
    return {field.name: _spark_type(field) for field in descriptor.fields}


def _spark_type(field: FieldDescriptor) -> T.DataType | None:
    if field.message_type is not None:
        is_time = field.message_type.full_name == _TIMESTAMP
        spark_type: T.DataType | None = T.TimestampType() if is_time else None
    elif field.type == FieldDescriptor.TYPE_BYTES:
        spark_type = T.BinaryType()
    else:
        spark_type = _SPARK_TYPES[field.cpp_type]
    return T.ArrayType(spark_type) if spark_type is not None and field.is_repeated else spark_type


class _FieldReader:
    """Reads the values of a message, and stops if their JSON text would be too long.

    Two bytes of a payload may be a message, of which the JSON text has all fields.
    """

    def __init__(self) -> None:
        self._remaining_text = json_text.MOST_TEXT

    def value(self, message: Message, field: FieldDescriptor) -> Any:
        """Return a field's value for JSON; None if the field tracks presence and is not set."""
        value = getattr(message, field.name)
        if _is_map(field):
            of_value = field.message_type.fields_by_name["value"]
            return {str(key): self._single(item, of_value) for key, item in value.items()}
        if field.is_repeated:
            return [self._single(item, field) for item in value]
        if field.has_presence and not message.HasField(field.name):
            return None
        return self._single(value, field)

    def _single(self, value: Any, field: FieldDescriptor) -> Any:
        if field.enum_type is not None:
            enum_value = field.enum_type.values_by_number.get(value)
            return value if enum_value is None else enum_value.name
        if field.message_type is None:
            return value
        if field.message_type.full_name == _TIMESTAMP:
            return value.ToJsonString()
        subfields = field.message_type.fields
        self._remaining_text -= _shortest(subfields)
        if self._remaining_text < 0:
            raise too_much_text()
        return {subfield.name: self.value(value, subfield) for subfield in subfields}


def _shortest(fields: Sequence[FieldDescriptor]) -> int:
    """Return the shortest length of a message as JSON text: each name with an empty value."""
    return 2 + sum(len(field.name) + len('"":0,') for field in fields)


def _is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is not None and bool(kind.GetOptions().map_entry)
