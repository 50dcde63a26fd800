"""Converts the answers of status to JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum

from tidemark.replicate.kafka.topics import TopicPartition
from tidemark.window import iso


def as_json(answer: object) -> object:
    """Return an answer as JSON values: times in ISO 8601, enums by their values."""
    value: object = answer
    match answer:
        case TopicPartition():
            value = str(answer)
        case Enum():
            value = answer.value
        case datetime():
            value = iso(answer)
        case Mapping():
            value = {str(key): as_json(part) for key, part in answer.items()}
        case list() | tuple():
            value = [as_json(part) for part in answer]
        case _ if is_dataclass(answer):
            value = {field.name: as_json(getattr(answer, field.name)) for field in fields(answer)}
    return value
