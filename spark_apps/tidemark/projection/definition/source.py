"""The header `source:` of a definition: which events a projection reads. Nothing here needs Spark.

How each source is read is in `tidemark.projection.sources`, a module for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NoReturn

from tidemark.headed_files.sql_file import Value, error_in
from tidemark.journal.series import NO_TAG
from tidemark.partitioning import keys
from tidemark.projection.definition import tokens
from tidemark.projection.definition.tokens import UnclosedQuote

NOT_VALIDATED = "not validated"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""What Kafka accepts as the name of a topic."""


@dataclass(frozen=True)
class Messages:
    """Every event of the journal, or of some entity types, numbered by sequence nr."""

    entity_types: tuple[str, ...] | None = None
    waits_for: ClassVar[str] = NOT_VALIDATED
    reads_journal: ClassVar[bool] = True
    reads_tag_views: ClassVar[bool] = False
    series_tags: ClassVar[tuple[str, ...]] = (NO_TAG,)

    def reads(self, persistence_id: str) -> bool:
        """Whether its events are among them."""
        return self.entity_types is None or keys.entity_type(persistence_id) in self.entity_types


@dataclass(frozen=True)
class Tags:
    """The tag views of some tags, numbered by tag pid sequence nr."""

    names: tuple[str, ...]
    waits_for: ClassVar[str] = NOT_VALIDATED
    reads_journal: ClassVar[bool] = True
    reads_tag_views: ClassVar[bool] = True
    entity_types: ClassVar[None] = None

    @property
    def series_tags(self) -> tuple[str, ...]:
        """The tags themselves."""
        return self.names

    def reads(self, persistence_id: str) -> bool:
        """Return whether the persistence id may have events with these tags: any may."""
        return True


@dataclass(frozen=True)
class PersistenceIds:
    """The events of some persistence ids, numbered by sequence nr."""

    ids: tuple[str, ...]
    waits_for: ClassVar[str] = NOT_VALIDATED
    reads_journal: ClassVar[bool] = True
    reads_tag_views: ClassVar[bool] = False
    series_tags: ClassVar[tuple[str, ...]] = (NO_TAG,)
    entity_types: ClassVar[None] = None

    def reads(self, persistence_id: str) -> bool:
        """Whether its events are among them."""
        return persistence_id in self.ids


@dataclass(frozen=True)
class KafkaJournal:
    """The events that kafka-journal replicated from a topic, numbered by seq_nr."""

    topic: str
    waits_for: ClassVar[str] = "younger than the delay"
    reads_journal: ClassVar[bool] = False
    reads_tag_views: ClassVar[bool] = False
    series_tags: ClassVar[tuple[str, ...]] = (NO_TAG,)
    entity_types: ClassVar[None] = None

    def reads(self, persistence_id: str) -> bool:
        """Return whether the persistence id may be in the topic: any may."""
        return True


Source = Messages | Tags | PersistenceIds | KafkaJournal
"""What each source says of itself.

waits_for: why a time bucket of it is not read yet, for people. reads_journal: whether it reads the
journal keyspace, whose time buckets validate passes. reads_tag_views: whether its events are those
of tag views, so that what purge or tag-write did to them matters. series_tags: the tags of its
series, NO_TAG where each persistence id is one. entity_types: of the persistence ids, None for all.
"""


def parse(file: Path, value: Value) -> Source:
    """The source that a header names.

    Raises:
        DefinitionError: naming the line, for a list of persistence ids the column too, and what
            would be right.
    """
    return _Header(file, value).source()


@dataclass(frozen=True)
class _Header:
    file: Path
    value: Value

    def source(self) -> Source:
        kind, *rest = self.value.text.split(maxsplit=1)
        readers: Mapping[str, Callable[[str], Source]] = {
            "messages": self._messages,
            "tags": self._tags,
            "persistence-ids": self._persistence_ids,
            "kafka-journal": self._kafka_journal,
        }
        if kind not in readers:
            self._refuse("one of `messages`, `tags`, `persistence-ids` and `kafka-journal`")
        return readers[kind](rest[0].rstrip() if rest else "")

    def _refuse(self, form: str, offset: int | None = None) -> NoReturn:
        what = f"the source {self.value.text.strip()!r} cannot be used"
        line, column = tokens.place(self.value, offset or 0)
        raise error_in(self.file, what, f"write {form}", line, None if offset is None else column)

    def _messages(self, rest: str) -> Source:
        if not rest:
            return Messages()
        of, *types = rest.split(maxsplit=1)
        names = tuple(part.strip() for part in types[0].split(",")) if types else ()
        is_list = of == "of" and all(names) and "|" not in rest
        if not is_list or not names or len(set(names)) < len(names):
            self._refuse(
                "`messages`, or `messages of` and different entity types (what a persistence id has"
                " before its first |) with commas between them"
            )
        return Messages(names)

    def _tags(self, rest: str) -> Source:
        tags = tuple(part.strip() for part in rest.split(","))
        if not all(tags) or len(set(tags)) < len(tags):
            self._refuse("`tags` and different tags with commas between them")
        return Tags(tags)

    def _persistence_ids(self, rest: str) -> Source:
        form = (
            "`persistence-ids` and different persistence ids with commas between them, in single"
            " quotes if they have blanks, commas or quotes"
        )
        start = len(self.value.text.rstrip()) - len(rest)
        ids: list[str] = []
        try:
            for offset, group in tokens.groups(rest):
                one = group[0].unquoted if len(group) == 1 else ""
                if not one or one in ids:
                    self._refuse(form, start + offset)
                ids.append(one)
        except UnclosedQuote as error:
            self._refuse(form, start + error.offset)
        return PersistenceIds(tuple(ids))

    def _kafka_journal(self, rest: str) -> Source:
        if not _TOPIC.fullmatch(rest):
            self._refuse("`kafka-journal` and the name of a topic")
        return KafkaJournal(rest)
