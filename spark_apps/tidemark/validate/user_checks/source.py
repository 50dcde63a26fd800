"""The source of a user's check, as its header names it. This module needs no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, Tag

from tidemark.user_files.form import BY_SHAPE, OneKey, Text


class SourceKind(StrEnum):
    """The kinds of sources."""

    KEYS = "keys"
    JOURNAL = "journal"
    EVENTS = "events"
    READ_MODEL = "read-model"
    METAJOURNAL = "metajournal"
    QUARANTINE = "quarantine"


class CheckSourceForm(OneKey):
    """A source of one projection."""

    events: Text = Field("", description="the projection whose definition decodes the events")
    read_model: Text = Field("", description="the projection whose live table is read")


AnySource = Annotated[
    Annotated[Literal["keys", "journal", "metajournal", "quarantine"], Tag("text")]
    | Annotated[CheckSourceForm, Tag("mapping")],
    BY_SHAPE,
]


@dataclass(frozen=True)
class CheckSource:
    """The source of one check.

    Attributes:
        kind: the kind of the source.
        projection: the projection of the source; empty for other kinds.
    """

    kind: SourceKind
    projection: str = ""

    @property
    def has_time(self) -> bool:
        """Whether each row has a time bucket, so that a run reads only those that it checks."""
        return self.kind in (SourceKind.KEYS, SourceKind.JOURNAL, SourceKind.EVENTS)

    @property
    def table(self) -> str:
        """The name of the only table of the source in the SELECT; KEYS have several."""
        return self.kind.replace("-", "_")

    def __str__(self) -> str:
        """Return the text for people."""
        return f"{self.kind} {self.projection}".rstrip()


KEYS = CheckSource(SourceKind.KEYS)


def source_of(form: AnySource) -> CheckSource:
    """Return the source that a header names."""
    if isinstance(form, str):
        return CheckSource(SourceKind(form))
    if form.events:
        return CheckSource(SourceKind.EVENTS, form.events)
    return CheckSource(SourceKind.READ_MODEL, form.read_model)
