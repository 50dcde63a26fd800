"""The header `start:` of a definition: what a persistence id begins with. Nothing needs Spark."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from tidemark.headed_files.sql_file import Value, error_in
from tidemark.projection.definition.source import Messages, PersistenceIds, Source


class Start(StrEnum):
    """What comes first of a persistence id that the projection has not met before."""

    FIRST_EVENT = "first-event"
    SNAPSHOT = "snapshot"


def parse(file: Path, value: Value, source: Source, mode: str, *, is_one_row: bool) -> Start:
    """The start that a header names.

    Args:
        file: the definition.
        value: of the header.
        source: of the definition.
        mode: of the definition, for the error.
        is_one_row: whether the mode keeps one row for each persistence id.

    Raises:
        DefinitionError: naming the line and what would be right.
    """
    text = value.text.strip()
    if text not in list(Start):
        what = f"the start {text!r} cannot be used"
        raise error_in(file, what, "write `first-event` or `snapshot`", value.line)
    start = Start(text)
    if start is Start.FIRST_EVENT:
        return start
    if not isinstance(source, Messages | PersistenceIds):
        # A snapshot does not say how many events of a tag are in it; kafka-journal has none.
        what = "start snapshot needs the source messages or persistence-ids"
        raise error_in(file, what, "leave start out, or read messages", value.line)
    if not is_one_row:
        # It stands for events of many time buckets, and for many rows of a log.
        what = f"start snapshot does not fit the mode {mode}"
        remedy = "leave start out, or use a mode with a row per persistence id: upsert or fold"
        raise error_in(file, what, remedy, value.line)
    return start
