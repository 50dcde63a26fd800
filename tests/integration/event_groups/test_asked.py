"""Rollbacks that somebody else does in their own time: asked until they are done, or too late."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.event_groups.test_event_groups import FREE, executed, shop, stocked, submit
from tests.integration.event_groups.test_hooks import Listening, served
from tests.integration.event_groups.test_rollback import note_of
from tests.integration.kafka_topic import Topic
from tests.integration.support import Journal
from tidemark import clock

__all__ = ["shop"]
GROUP = """
group: g
rows: [{table: <account>, key: {id: ann}}]
events:
  - name: first
    statement: UPDATE <account> SET total = 1 WHERE id = 'ann'
  - name: theirs
    statement: UPDATE <account> SET note = 'new' WHERE id = 'ann'
    after: [first]
    rollback: {ask: {http: "http://ADDRESS/undo", within: 600}}
"""
FAILS = """
  - name: fail
    statement: SELECT id FROM <account> WHERE id = 'ann'
    expect: none
    after: [theirs]
"""


def text_of(address: str) -> str:
    return GROUP.replace("ADDRESS", address) + FAILS


def states(journal: Journal) -> dict[str, str]:
    return {row["id"]: row["state"] for row in journal.own_rows("event_group")}


def answering(statuses: list[int]) -> tuple[type[Listening], list[dict[str, Any]]]:
    """Return what answers with each status once, and then with the last; and what it was asked."""
    got: list[dict[str, Any]] = []

    class Answers(Listening):
        def do_POST(self) -> None:
            got.append(self.body() | {"key": self.headers["Idempotency-Key"]})
            self.send_response(statuses[min(len(got), len(statuses)) - 1])
            self.end_headers()

    return Answers, got


def test_a_rollback_waits_for_who_is_asked_and_holds_only_what_collides(
    shop: Journal, tmp_path: Path
) -> None:
    answers, got = answering([202, 204])
    behind, free = FREE.replace("NAME", "ann"), FREE.replace("NAME", "carl")
    with served(answers) as address:
        variables = {"EVENT_GROUP_HOSTS": address}
        refused = submit(shop, tmp_path, text_of(address))
        assert "TIDEMARK_EVENT_GROUP_HOSTS" in refused.error_lines[0]
        assert submit(shop, tmp_path, text_of(address), behind, free, **variables).status == 0
        report = shop.run("run_event_groups", **variables).report
        assert "theirs is being taken back by who was asked" in report["lines"][0]
        assert states(shop) == {"g": "rolling-back", "ann": "submitted", "carl": "done"}
        shown = shop.run("run_event_groups", "status", "g").report["lines"]
        assert f"  theirs (update {shop.keyspace}.account): rollback-asked" in shown
        with dying_after(Seam.EVENT_ENDED, 1):
            shop.run("run_event_groups", **variables)
        assert shop.run("run_event_groups", **variables).status == 3
    assert states(shop) == {"g": "rolled-back", "ann": "done", "carl": "done"}
    assert {one["key"] for one in got} == {"default/g/1/theirs"}
    assert (got[0]["group"], got[0]["event"], got[0]["parameters"]) == ("g", "theirs", [{}])
    # Who is asked takes back what is theirs; the rest is restored as always.
    [ann] = [row for row in shop.rows("account") if row["id"] == "ann"]
    assert (str(ann["total"]), ann["note"]) == ("10.50", "free")


def test_who_does_not_take_it_back_in_time_fails_the_rollback(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, got = answering([202])
    with served(answers) as address:
        variables = {"EVENT_GROUP_HOSTS": address}
        assert submit(shop, tmp_path, text_of(address), **variables).status == 0
        assert shop.run("run_event_groups", **variables).status == 3
        later(monkeypatch, 601)
        [line, *_] = shop.run("run_event_groups", **variables).report["lines"]
        assert line.startswith("g: rollback-failed: fail: ")
        assert "has not taken it back within 600 s" in line
        # A retry gives the whole time once more.
        assert shop.run("run_event_groups", "retry", "g", "--apply").status == 0
        shop.run("run_event_groups", **variables)
        assert states(shop) == {"g": "rolling-back"}
    assert len(got) == 3


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now: Callable[[], Any] = clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(seconds=seconds))


def test_an_answer_that_refuses_fails_the_rollback_after_three_attempts(
    shop: Journal, tmp_path: Path
) -> None:
    answers, got = answering([500])
    with served(answers) as address:
        variables = {"EVENT_GROUP_HOSTS": address}
        assert submit(shop, tmp_path, text_of(address), **variables).status == 0
        [line] = shop.run("run_event_groups", **variables).report["lines"]
    assert "theirs is not rolled back: " in line
    assert "has answered 500" in line
    assert len(got) == 3
    assert note_of(shop, "ann") == "new"
    settled = shop.run("run_event_groups", "settle", "g", "--as", "rolled-back", "--apply")
    assert settled.status == 0
    assert executed(shop)["state"] == "nothing-to-do"


class Records:
    """The records of a topic, written now."""

    def __init__(self, kafka: str, topic: Topic) -> None:
        self.name, self._client = topic.name, {"bootstrap.servers": kafka, "log_level": 0}
        self._partitions = topic.partitions

    def append(self, value: bytes, partition: int = 0) -> None:
        producer = Producer(self._client)
        producer.produce(self.name, value, partition=partition)
        assert producer.flush(60) == 0

    def values(self) -> list[bytes]:
        """Return the values of the first partition."""
        consumer = Consumer({**self._client, "group.id": "test", "enable.partition.eof": True})
        consumer.assign([TopicPartition(self.name, 0, 0)])
        found: list[bytes] = []
        while (message := consumer.poll(60)) is not None and message.error() is None:
            found.append(cast(bytes, message.value()))
        assert message is not None
        consumer.close()
        return found


def by_topic(topics: Sequence[Records]) -> str:
    """Return the group; a topic gets the question for its rollback, another one the answer."""
    asked = f"{{kafka: {topics[0].name}, answers: {topics[1].name}, within: 600}}"
    return (GROUP + FAILS).replace('{http: "http://ADDRESS/undo", within: 600}', asked)


def test_a_rollback_is_asked_for_and_answered_by_topics(
    make_journal: Callable[..., Journal], tmp_path: Path, kafka: str
) -> None:
    shop, made = stocked(make_journal), [Topic(kafka, 1), Topic(kafka, 2)]
    made[0].feeds(shop)
    questions, answers = (Records(kafka, topic) for topic in made)
    refused = submit(shop, tmp_path, by_topic([questions, answers]))
    assert "TIDEMARK_EVENT_GROUP_TOPICS" in refused.error_lines[0]
    variables = {"EVENT_GROUP_TOPICS": f"{questions.name},{answers.name}"}
    text = by_topic([questions, answers])
    assert submit(shop, tmp_path, text, **variables).status == 0
    for _ in range(2):
        report = shop.run("run_event_groups", **variables).report
        assert "theirs is being taken back by who was asked" in report["lines"][0]
    first, again = [json.loads(value) for value in questions.values()]
    assert first == again
    assert first["id"].startswith("default/g/1/theirs@")
    assert (first["group"], first["event"], first["parameters"]) == ("g", "theirs", [{}])

    for other in (b"no JSON", b"[" * 200_000, b"[1]", b'{"id": "another", "state": "done"}'):
        answers.append(other)
    failed = {"id": first["id"], "state": "failed", "reason": "no such order"}
    answers.append(json.dumps(failed).encode(), partition=1)
    [line] = shop.run("run_event_groups", **variables).report["lines"]
    assert "theirs is not rolled back: who was asked has failed: no such order" in line

    # What was answered before does not answer the question of a retry.
    assert shop.run("run_event_groups", "retry", "g", "--apply").status == 0
    shop.run("run_event_groups", **variables)
    assert states(shop) == {"g": "rolling-back"}
    last = json.loads(questions.values()[-1])
    assert last["id"] != first["id"]
    answers.append(json.dumps({"id": last["id"], "state": "done"}).encode())
    shop.run("run_event_groups", **variables)
    assert states(shop) == {"g": "rolled-back"}
    assert len(questions.values()) == 3


def test_a_topic_without_an_answer_in_time_fails_the_rollback(
    make_journal: Callable[..., Journal],
    tmp_path: Path,
    kafka: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop, made = stocked(make_journal), [Topic(kafka, 1), Topic(kafka, 1)]
    made[0].feeds(shop)
    questions, answers = (Records(kafka, topic) for topic in made)
    variables = {"EVENT_GROUP_TOPICS": f"{questions.name},{answers.name}"}
    text = by_topic([questions, answers])
    assert submit(shop, tmp_path, text, **variables).status == 0
    shop.run("run_event_groups", **variables)
    later(monkeypatch, 601)
    [line] = shop.run("run_event_groups", **variables).report["lines"]
    assert f"the topic {questions.name} has not taken it back within 600 s" in line
