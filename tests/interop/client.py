"""The Python side of the Pekko client: a JVM with any number of nodes of a Pekko application.

with Client.start(build.PEKKO.command(state), endpoint.environment(), log) as pekko:
    node = pekko.open(plugin_settings("pekko", "Hour", first_time_bucket=yesterday))
    node.persist("a|1", [[event("e-1", "red")]])
    node.current("red").rows
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self, cast
from uuid import UUID

PLUGIN = "pekko.persistence.cassandra"
_GOODBYE_S = 60

Group = Sequence[Mapping[str, Any]]
"""Events of a persist (one event) or a persistAll (several), each made by `event`."""


class PekkoError(Exception):
    """An error that the client or the plugin answered instead of a result."""


class Failure(NamedTuple):
    """The failure of a query: the class of the exception, and its message."""

    type: str
    message: str


class Event(NamedTuple):
    """An event envelope, as a reader gets it."""

    persistence_id: str
    sequence_nr: int
    offset: UUID
    payload: str
    metadata: str | None


class Recovered(NamedTuple):
    """The snapshot and the events that an actor recovered from, and its last sequence nr."""

    snapshot: str
    events: list[str]
    sequence_nr: int


@dataclass(frozen=True)
class Delivered:
    """The events that a query delivered, in its order, and its failure, if it failed."""

    rows: list[Event]
    failure: Failure | None


@dataclass(frozen=True)
class Counted:
    """The result of a query, reduced to its size, its time and a digest in delivery order."""

    events: int
    sha256: str
    seconds: float
    seconds_from_first: float
    failure: Failure | None


def event(payload: str, *tags: str) -> dict[str, Any]:
    """Return an event to persist, whose payload is a string, as Pekko's serializer 20 writes."""
    return {"payload": payload, "tags": list(tags)}


def plugin_settings(
    keyspace: str, bucket_size: str, first_time_bucket: datetime, **settings: str | int
) -> dict[str, str | int]:
    """Return settings of the plugin for a journal keyspace; all others keep their defaults.

    Args:
        keyspace: The keyspace of the journal and of the snapshots, whose table the plugin makes.
        bucket_size: Minute, Hour or Day.
        first_time_bucket: The start of a reader without an offset, an aware datetime.
        settings: Further settings below `pekko.persistence.cassandra`, with `__` for a dot and
            `_` for a dash: `events_by_tag__enabled="off"`.
    """
    first = first_time_bucket.astimezone(UTC)
    by_name = {
        "journal.keyspace": keyspace,
        "snapshot.keyspace": keyspace,
        "snapshot.tables-autocreate": "on",
        "events-by-tag.bucket-size": bucket_size,
        "events-by-tag.first-time-bucket": f"{first:%Y%m%dT%H:%M}",
        **{name.replace("__", ".").replace("_", "-"): value for name, value in settings.items()},
    }
    return {f"{PLUGIN}.{name}": value for name, value in by_name.items()}


class Client:
    """The client's process, which answers one command after another."""

    def __init__(self, process: subprocess.Popen[str], log: IO[str]) -> None:
        """Take over a process that was started with `start`."""
        self._process = process
        self._log = log

    @classmethod
    def start(cls, command: Sequence[str], connection: Mapping[str, str], log: Path) -> Self:
        """Start the process.

        Args:
            command: The result of `Program.command`.
            connection: TIDEMARK_CASSANDRA_HOSTS, _USERNAME and _PASSWORD.
            log: The file of the process's standard error.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        written = log.open("w")
        process = subprocess.Popen(
            command,
            env={**os.environ, **connection},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
            encoding="utf-8",
        )
        return cls(process, written)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process, which closes its nodes when its input ends."""
        given, answers = self._pipes()
        with suppress(BrokenPipeError):
            given.close()
        try:
            self._process.wait(_GOODBYE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        answers.close()
        self._log.close()

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        """Return the process's standard input and output, both of which `start` has opened."""
        return cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)

    def call(self, command: str, **arguments: Any) -> Any:
        """Send one command and return its answer.

        Raises:
            PekkoError: The command failed, or the process has ended.
        """
        given, answers = self._pipes()
        try:
            given.write(json.dumps({"do": command, **arguments}) + "\n")
            given.flush()
            line = answers.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise PekkoError(f"the Pekko client ended: see {self._log.name}")
        answer = json.loads(line)
        if error := answer.get("error"):
            raise PekkoError(f"{command}: {error['type']}: {error['message']}")
        return answer["ok"]

    def open(self, settings: Mapping[str, str | int]) -> Node:
        """Start a node, an actor system with these settings (dotted paths)."""
        return Node(self, self.call("open", config=dict(settings)))


@dataclass(frozen=True)
class Node:
    """A node, whose actors start and recover with the first command to them."""

    client: Client
    number: int

    def call(self, command: str, **arguments: Any) -> Any:
        """Send a command to this node; `timeout_s` among the arguments is 60 by default."""
        return self.client.call(command, node=self.number, **arguments)

    def close(self) -> None:
        """End the actor system; actors write nothing afterwards."""
        self.call("close")

    def persist(self, persistence_id: str, groups: Iterable[Group]) -> int:
        """Persist groups of events, one group after the other; return the last sequence nr."""
        number: int = self.call("persist", id=persistence_id, groups=[list(g) for g in groups])
        return number

    def persist_and_stop(self, persistence_id: str, groups: Iterable[Group]) -> None:
        """Send all groups and stop the actor at once, before its writes are answered."""
        self.call("persist", id=persistence_id, groups=[list(g) for g in groups], stop_at_once=True)

    def batch(self, prefix: str, ids: int, events: int, tags: Sequence[str], **more: int) -> float:
        """Let `ids` actors write `events` events each, all with `tags`; return the seconds.

        Args:
            prefix: The start of the ids prefix0, prefix1 and so on.
            ids: The number of ids.
            events: The number of events of each id.
            tags: The tags of every event.
            more: payload_size (100 characters), group (1: persist, more: persistAll), parallelism
                (50 ids at a time), timeout_s (60).
        """
        answer = self.call("batch", prefix=prefix, ids=ids, events=events, tags=list(tags), **more)
        return float(answer["seconds"])

    def snapshot(self, persistence_id: str) -> int:
        """Save a snapshot; return its sequence nr."""
        number: int = self.call("snapshot", id=persistence_id)
        return number

    def delete_messages(self, persistence_id: str, to: int) -> None:
        """Let the actor delete its events up to a sequence nr."""
        self.call("delete_messages", id=persistence_id, to=to)

    def recover(self, persistence_id: str) -> int:
        """Start the actor unless it runs; return its last sequence nr once it has recovered."""
        number: int = self.call("recover", id=persistence_id)
        return number

    def recovered_from(self, persistence_id: str) -> Recovered:
        """Start the actor unless it runs; return what it recovered from."""
        answer = self.call("recovered_from", id=persistence_id)
        return Recovered(answer["snapshot"], answer["events"], answer["sequence_nr"])

    def crash(self, persistence_id: str) -> None:
        """Let the actor throw, and its supervisor restart it."""
        self.call("crash", id=persistence_id)

    def stop(self, *persistence_ids: str) -> None:
        """Stop these actors, or all, and wait until they have gone."""
        self.call("stop", ids=list(persistence_ids) or None)

    def current(self, tag: str, offset: UUID | None = None) -> Delivered:
        """Read `currentEventsByTag` to its end, after an offset (exclusive) or from the first."""
        return _delivered(self.call("current", tag=tag, offset=_text(offset)))

    def count(self, tag: str, offset: UUID | None = None, timeout_s: int = 60) -> Counted:
        """Read as `current` does, but keep only the count, the time and a digest in order."""
        answer = self.call(
            "current", tag=tag, offset=_text(offset), count_only=True, timeout_s=timeout_s
        )
        return Counted(**{**answer, "failure": _failure(answer)})

    def live(self, tag: str, offset: UUID | None = None) -> LiveQuery:
        """Start `eventsByTag`, which does not end by itself."""
        return LiveQuery(self, self.call("live_start", tag=tag, offset=_text(offset)))

    def reconcile(self, operation: str, **arguments: Any) -> list[str]:
        """Run an operation of the plugin's Reconciliation, and return the texts that it lists.

        Operations: truncate, all_tags, tags (id), delete (ids, tag), rebuild (ids, all by
        default, one after another), rebuild_all_persistence_ids.
        """
        findings: list[str] = self.timed("reconciliation", operation, **arguments)["found"]
        return findings

    def clean_up(self, operation: str, persistence_id: str, **arguments: Any) -> None:
        """Run an operation of the plugin's Cleanup, without its dry run.

        Operations: delete_all, delete_all_events (never_use_again), delete_events_to (to),
        delete_all_tagged_events, delete_all_snapshots, delete_before_snapshot (keep),
        cleanup_before_snapshot (keep).
        """
        self.timed("cleanup", operation, id=persistence_id, **arguments)

    def timed(self, tool: str, operation: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer of an operation of `reconciliation` or `cleanup`: found and seconds."""
        answer: dict[str, Any] = self.call(tool, operation=operation, **arguments)
        return answer


@dataclass(frozen=True)
class LiveQuery:
    """A running `eventsByTag`."""

    node: Node
    number: int

    def delivered(self) -> Delivered:
        """Return everything that the query has delivered so far."""
        return _delivered(self.node.call("live_poll", stream=self.number))

    def stop(self) -> Delivered:
        """End the query, and return everything that it has delivered."""
        return _delivered(self.node.call("live_stop", stream=self.number))


def _text(offset: UUID | None) -> str | None:
    return None if offset is None else str(offset)


def _failure(answer: Mapping[str, Any]) -> Failure | None:
    failure = answer["failure"]
    return None if failure is None else Failure(failure["type"], failure["message"])


def _delivered(answer: Mapping[str, Any]) -> Delivered:
    rows = [
        Event(persistence_id, sequence_nr, UUID(offset), payload, metadata)
        for persistence_id, sequence_nr, offset, payload, metadata in answer["rows"]
    ]
    return Delivered(rows, _failure(answer))
