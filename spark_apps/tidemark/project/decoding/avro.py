"""Decodes payloads in Avro's binary encoding by a schema, in the JVM with spark-avro."""

from __future__ import annotations

import json
from dataclasses import dataclass

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, SparkSession
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from tidemark.errors import InvalidInput, root_cause
from tidemark.installation import fetch_command
from tidemark.spark import gateway

_MARK = "tidemark_readable"
_LENGTH_LIMITS = ("bytes.maxLength", "string.maxLength", "collectionItems.maxLength")
_MAX_LENGTH = 64 * 2**20
"""More than a Cassandra cell can hold with its default settings."""


class BadSchema(Exception):
    """A schema cannot be used; the text is the reason."""


@dataclass(frozen=True)
class Avro:
    """The schema of a record.

    Attributes:
        text: the schema as JSON.
        fields: the Spark types of the record's fields.
    """

    text: str
    fields: T.StructType

    def read(self, payload: Column) -> Column:
        """Return the record as a struct, whose fields are all null if the payload is unreadable.

        `is_read` distinguishes this struct from that of a record whose fields are all null.
        """
        schema = json.loads(self.text)
        schema["fields"].append({"name": _MARK, "type": "boolean", "default": True})
        options = {"mode": "PERMISSIVE", "avroSchema": json.dumps(schema)}
        return from_avro(payload, self.text, options)


def is_read(record: Column) -> Column:
    """Return whether a payload was readable: only then has Avro filled in the mark's default."""
    return record.getField(_MARK).isNotNull()


def load(spark: SparkSession, text: str) -> Avro:
    """Parse a record's schema for spark-avro.

    Raises:
        BadSchema: the text is no schema, the schema is not a record's, or it has an array whose
            items take no bytes.
        InvalidInput: the session has no spark-avro.
    """
    jvm = gateway.jvm(spark)
    converters = jvm.org.apache.spark.sql.avro.SchemaConverters
    if isinstance(converters, JavaPackage):
        raise InvalidInput(
            "the jar of spark-avro is missing",
            where="TIDEMARK_SPARK_JARS",
            do=f"run `{fetch_command()}`, or add org.apache.spark:spark-avro_2.12:{spark.version}",
        )
    # Avro allocates memory for a string before it reads the string: the length in a malicious
    # payload must not exhaust the JVM. Avro reads these limits once; other machines set their own.
    for limit in _LENGTH_LIMITS:
        name = f"org.apache.avro.limits.{limit}"
        if jvm.java.lang.System.getProperty(name) is None:
            jvm.java.lang.System.setProperty(name, str(_MAX_LENGTH))
    try:
        schema = jvm.org.apache.avro.Schema.Parser().parse(text)
        kind = converters.toSqlType(schema).dataType()
    except Py4JJavaError as error:
        raise BadSchema(root_cause(error)) from None
    if schema.getType().getName() != "record":
        raise BadSchema(f"it is of type {schema.getType().getName()}, not record")
    fields = T.StructType.fromJson(json.loads(kind.json()))
    if _has_empty_items(fields):
        raise BadSchema("the items of an array have no content: few bytes can claim any number")
    return Avro(text, fields)


def _has_empty_items(kind: T.DataType) -> bool:
    match kind:
        case T.ArrayType():
            return _is_empty(kind.elementType) or _has_empty_items(kind.elementType)
        case T.MapType():
            return _has_empty_items(kind.valueType)
        case T.StructType():
            return any(_has_empty_items(field.dataType) for field in kind.fields)
    return False


def _is_empty(kind: T.DataType) -> bool:
    """Return whether values of a type take no bytes in Avro."""
    if isinstance(kind, T.StructType):
        return all(_is_empty(field.dataType) for field in kind.fields)
    return isinstance(kind, T.NullType)
