"""The replacement of keyspaces in a playback, and whether it is allowed."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.cassandra.schema import identifier
from tidemark.errors import InvalidInput
from tidemark.settings import Settings

_OPTION = "--into"


def mapping(settings: Settings, texts: Sequence[str]) -> dict[str, str]:
    """Return the replacement of each keyspace.

    Each text is `KEYSPACE=KEYSPACE`, with the keyspace that was written to first.

    Raises:
        InvalidInput: a text is malformed, or a keyspace may not be played into.
    """
    into: dict[str, str] = {}
    for text in texts:
        source, _, target = text.partition("=")
        if not source or not target:
            raise InvalidInput(f"{text!r} names no two keyspaces", where=_OPTION, do="write a=b")
        identifier(source)
        identifier(target)
        if source in into:
            raise InvalidInput(f"{source} is there twice", where=_OPTION, do="leave one out")
        if target in into.values():
            what = f"two keyspaces would go into {target}"
            raise InvalidInput(what, where=_OPTION, do="name one for each")
        into[source] = target
    for target in into.values():
        if why := _refusal(settings, into, target):
            what = f"{target} is {why}, which nothing is played into"
            raise InvalidInput(what, where=_OPTION, do="name a copy of the tables")
    return into


def _refusal(settings: Settings, into: dict[str, str], target: str) -> str:
    """Return whose keyspace the target is; empty if it may be played into."""
    if target in into:
        return "a keyspace that is played from"
    if target == settings.keyspace:
        return "Tidemark's own keyspace"
    journals = (
        settings.journal_keyspace,
        settings.snapshot_keyspace,
        settings.kafka_journal_keyspace,
        settings.pekko_projection_keyspace,
    )
    return "a journal's keyspace" if target in journals else ""
