"""Which keyspaces take the place of others, and whether they may."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.cassandra.schema import identifier
from tidemark.errors import InvalidInput
from tidemark.settings import Settings

_OPTION = "--into"


def mapping(settings: Settings, texts: Sequence[str]) -> dict[str, str]:
    """Return the keyspaces that take the place of others, by those.

    Args:
        settings: say which keyspaces are Tidemark's and the journals'.
        texts: each `KEYSPACE=KEYSPACE`, the one that was written to first.

    Raises:
        InvalidInput: a text is none, or a keyspace may not be played into.
    """
    found: dict[str, str] = {}
    for text in texts:
        source, _, target = text.partition("=")
        if not source or not target:
            raise InvalidInput(f"{text!r} names no two keyspaces", where=_OPTION, do="write a=b")
        identifier(source)
        identifier(target)
        if source in found:
            raise InvalidInput(f"{source} is there twice", where=_OPTION, do="leave one out")
        if target in found.values():
            what = f"two keyspaces would go into {target}"
            raise InvalidInput(what, where=_OPTION, do="name one for each")
        found[source] = target
    for target in found.values():
        if why := _refusal(settings, found, target):
            what = f"{target} is {why}, which nothing is played into"
            raise InvalidInput(what, where=_OPTION, do="name a copy of the tables")
    return found


def _refusal(settings: Settings, into: dict[str, str], target: str) -> str:
    """Return whose keyspace it is; empty if one may play into it."""
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
