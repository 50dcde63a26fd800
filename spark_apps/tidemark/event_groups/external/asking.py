"""Asks an external service to undo an event, again and again until it has.

Over HTTP, the answer's status tells whether it has. A Kafka topic gets the question as a record,
and another topic the answer: JSON with the question's `id`, and `state`, `done` or `failed`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidemark import clock
from tidemark.errors import KafkaUnavailable
from tidemark.event_groups.definition.model import AskedAddress
from tidemark.event_groups.external import http, topics
from tidemark.event_groups.external.records import batches
from tidemark.event_groups.failure import EventFailed, attempts
from tidemark.replicate.kafka.topics import Topics
from tidemark.settings import Settings

_APART = timedelta(hours=1)
"""The maximum difference between this machine's clock and the clock that stamps records."""


@dataclass(frozen=True)
class Question:
    """A question, which stays the same until it is answered.

    Attributes:
        asked: the service.
        key: identifies the event to undo.
        body: what the service must know.
        at: when it was first asked, in UTC without a zone.
    """

    asked: AskedAddress
    key: str
    body: Mapping[str, object]
    at: datetime

    @property
    def id(self) -> str:
        """Return an id that differs for each retry of the rollback."""
        return f"{self.key}@{self.at.isoformat(timespec='milliseconds')}Z"


def is_done(settings: Settings, question: Question) -> bool:
    """Ask, and tell whether the event is undone; otherwise the service must be asked again.

    Raises:
        EventFailed: the service has failed, cannot be asked, or has not undone it in time.
    """
    ask = _by_http if question.asked.http is not None else _by_topic
    if ask(settings, question):
        return True
    elapsed = clock.now() - question.at.replace(tzinfo=UTC)
    if elapsed.total_seconds() < question.asked.within:
        return False
    service = question.asked.http or f"the topic {question.asked.kafka}"
    raise EventFailed(f"{service} has not taken it back within {question.asked.within:,} s")


def _by_http(settings: Settings, question: Question) -> bool:
    reason = ""
    for _ in attempts():
        try:
            answer = http.post(
                str(question.asked.http),
                json.dumps(question.body),
                settings.event_group_host_names,
                question.asked.timeout,
                {"Idempotency-Key": question.key},
            )
        except EventFailed as failure:
            reason = str(failure)
        else:
            return answer.status_code != http.ACCEPTED
    raise EventFailed(reason)


def _by_topic(settings: Settings, question: Question) -> bool:
    reason, body = "", json.dumps({"id": question.id, **question.body})
    for _ in attempts():
        try:
            answer = next(_answers(settings, question), None)
            if answer is None:
                topic = str(question.asked.kafka)
                topics.append(settings, topic, question.key, body, question.asked.timeout)
        except (EventFailed, KafkaUnavailable) as failure:
            reason = str(failure)
            continue
        if answer is not None and answer["state"] == "failed":
            raise EventFailed(f"who was asked has failed: {answer.get('reason') or 'no reason'}")
        return answer is not None
    raise EventFailed(reason)


def _answers(settings: Settings, question: Question) -> Iterator[Mapping[str, object]]:
    """Yield the answers to a question, and skip all other records."""
    kafka = Topics(settings)
    partitions = kafka.partitions_of(str(question.asked.answers))
    ends = kafka.offsets(partitions)
    firsts = kafka.offsets_at(partitions, question.at.replace(tzinfo=UTC) - _APART)
    spans = {p: (max(firsts[p], ends[p].first), ends[p].end) for p in partitions}
    for batch in batches(settings, spans):
        for record in batch.records:
            try:
                answer = json.loads(record.value or b"")
            except (ValueError, RecursionError):
                continue
            is_answer = isinstance(answer, dict) and answer.get("id") == question.id
            if is_answer and answer.get("state") in ("done", "failed"):
                yield answer
