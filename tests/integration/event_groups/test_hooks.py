"""Who is told of event groups: at least once, with the same id, and whatever happens."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.faults.dying import dying_after
from tests.faults.killing import kill_after
from tests.faults.seams import Seam
from tests.integration.event_groups.test_data import executed, functions
from tests.integration.event_groups.test_event_groups import cql, shop, state, submit
from tests.integration.support import Journal, wait_until

__all__ = ["functions", "shop"]
GROUP = """
group: {name}
policy: {policy}
hooks:
  before: [{{call: "shop_functions:told"}}]
  after: [{{call: "shop_functions:told"}}]
events:
  - name: write
    statement: UPDATE <account> SET note = 'new' WHERE id = 'ann'
    hooks: {{before: [{{call: "shop_functions:told"}}], after: [{{call: "shop_functions:told"}}]}}
"""
ACKNOWLEDGED = GROUP.replace('told"}', 'told", ack: true}')
FAIL = """
  - name: fail
    statement: SELECT n FROM <posting> WHERE account = 'ann'
    expect: none
    after: [write]
    hooks: {after: [{call: "shop_functions:told"}]}
"""


def told(functions: Path) -> list[str]:
    """Return who was told what, without ids."""
    file = functions / "told.txt"
    return [line.rsplit(" ", 1)[0] for line in file.read_text().splitlines()]


def test_hooks_that_acknowledge_are_told_in_the_order_of_the_events(
    shop: Journal, tmp_path: Path, functions: Path
) -> None:
    text = ACKNOWLEDGED.format(name="g", policy="all-for-one")
    assert executed(shop, tmp_path, functions, text).status == 0
    assert told(functions) == [
        "group-begins begins",
        "write begins",
        "write done",
        "group-ends done",
    ]
    shown = shop.run("run_event_groups", "status", "g").report["lines"]
    assert "  told call shop_functions:told (write done): delivered" in shown


def test_a_hook_before_may_arrive_after_the_hook_after(shop: Journal, tmp_path: Path) -> None:
    arrived: list[str] = []
    has_ended = threading.Event()

    class Slow(Listening):
        def do_POST(self) -> None:
            told = self.body()["told"]
            if told == "begins":
                # As on a slow way: the event ends meanwhile, and the hook after it is called.
                assert has_ended.wait(60)
            arrived.append(told)
            self.send_response(204)
            self.end_headers()
            if told == "done":
                has_ended.set()

    with served(Slow) as address:
        hook = f'[{{http: "http://{address}/told", timeout: 60}}]'
        text = f"""
group: g
events:
  - name: write
    statement: UPDATE <account> SET note = 'new' WHERE id = 'ann'
    hooks: {{before: {hook}, after: {hook}}}
"""
        variables = {"EVENT_GROUP_HOSTS": address}
        assert submit(shop, tmp_path, text, **variables).status == 0
        assert shop.run("run_event_groups", **variables).status == 0
    assert arrived == ["done", "begins"]
    told = {(row["told"], row["state"]) for row in shop.own_rows("hook_delivery")}
    assert told == {("begins", "delivered"), ("done", "delivered")}


@pytest.mark.long
@pytest.mark.parametrize(
    ("policy", "end"), [("all-for-one", "rolled-back"), ("one-for-one", "partly-done")]
)
def test_hooks_are_told_of_a_failure_too(
    shop: Journal, tmp_path: Path, functions: Path, policy: str, end: str
) -> None:
    text = ACKNOWLEDGED.format(name="g", policy=policy) + FAIL
    assert executed(shop, tmp_path, functions, text).status == 3
    assert told(functions)[2:] == ["write done", "fail failed", f"group-ends {end}"]


def test_an_event_fails_if_its_hook_must_acknowledge_and_does_not(
    shop: Journal, tmp_path: Path, functions: Path
) -> None:
    before = state(shop)
    for moment in ("before", "after"):
        text = f"""
group: refused-{moment}
events:
  - name: write
    statement: UPDATE <account> SET note = 'new' WHERE id = 'ann'
    hooks:
      {moment}: [{{call: "shop_functions:refuses", ack: true}}]
      after: [{{call: "shop_functions:told"}}, {{if: failed, call: "shop_functions:told"}}]
"""
        if moment == "after":
            text = text.replace("ack: true}]\n      after: [", "ack: true}, ")
        result = executed(shop, tmp_path, functions, text)
        assert result.status == 3
        [line] = result.report["lines"]
        assert "call shop_functions:refuses has not acknowledged" in line
        assert "ValueError: not today" in line
        assert state(shop) == before
        assert told(functions) == ["write failed", "write failed"]
        (functions / "told.txt").unlink()
    lenient = text.replace("ack: true", "ack: false").replace("refused-after", "lenient")
    assert executed(shop, tmp_path, functions, lenient).status == 0
    rows = [row for row in shop.own_rows("hook_delivery") if row["group_id"] == "lenient"]
    [row] = [row for row in rows if row["state"] == "failed"]
    assert (row["attempts"], len(rows)) == (3, 2)
    assert "not today" in row["reason"]
    assert told(functions) == ["write done"]


@pytest.mark.parametrize(
    "seam", [Seam.HOOK_SENT, Seam.HOOK_TOLD, Seam.EVENT_BEGUN, Seam.STATEMENT_SENT]
)
def test_a_run_that_dies_tells_again_with_the_same_id(
    shop: Journal, tmp_path: Path, functions: Path, seam: Seam
) -> None:
    variables = {"EVENT_GROUP_FUNCTIONS_DIR": str(functions)}
    text = GROUP.format(name="g", policy="all-for-one") + FAIL
    assert submit(shop, tmp_path, text, **variables).status == 0
    deaths = 0
    for calls in (1, 2, 3):
        with dying_after(seam, calls, surely=False) as death:
            shop.run("run_event_groups", **variables)
        deaths += death.has_come
    assert deaths
    assert shop.run("run_event_groups", **variables).status in (0, 3)
    lines = (functions / "told.txt").read_text().splitlines()
    assert {line.rsplit(" ", 1)[0] for line in lines} == {
        *("group-begins begins", "write begins", "write done", "fail failed"),
        "group-ends rolled-back",
    }
    assert len({line.split()[2] for line in lines}) == 5
    # What was sent and not recorded is sent again; so may be what other threads were sending.
    assert len(lines) > 5 or seam is not Seam.HOOK_SENT


def test_a_notice_that_a_machine_with_a_fast_clock_has_noted_is_delivered(
    shop: Journal, tmp_path: Path, functions: Path, shift_clock: Callable[[float], None]
) -> None:
    variables = {"EVENT_GROUP_FUNCTIONS_DIR": str(functions)}
    text = GROUP.format(name="g", policy="all-for-one")
    assert submit(shop, tmp_path, text, **variables).status == 0
    shift_clock(10)
    with dying_after(Seam.HOOK_TOLD, 1):
        shop.run("run_event_groups", **variables)
    shift_clock(0)
    assert shop.run("run_event_groups", **variables).status == 0
    assert {row["state"] for row in shop.own_rows("hook_delivery")} == {"delivered"}


class Listening(BaseHTTPRequestHandler):
    """A server's answers to requests, of which it says nothing."""

    def body(self) -> Any:
        """Return the request's body, decoded."""
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def served(answers: type[Listening]) -> Iterator[str]:
    """Yield the address of a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Return an address, and what it was sent; it answers 503 to the first request."""
    got: list[dict[str, Any]] = []

    class Receives(Listening):
        def do_POST(self) -> None:
            got.append(self.body() | {"key": self.headers["Idempotency-Key"]})
            self.send_response(503 if len(got) == 1 else 204)
            self.end_headers()

    with served(Receives) as address:
        yield address, got


def test_an_address_and_a_topic_are_told(
    shop: Journal,
    tmp_path: Path,
    functions: Path,
    kafka: str,
    receiver: tuple[str, list[dict[str, Any]]],
) -> None:
    address, got = receiver
    topic = f"notices-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka})
    narrow = NewTopic(f"{topic}-narrow", 1, config={"max.message.bytes": "100"})
    for made in admin.create_topics([NewTopic(topic, 1), narrow]).values():
        made.result(60)
    text = f"""
group: g
events:
  - name: write
    statement: UPDATE <account> SET note = 'new' WHERE id = 'ann'
    hooks:
      after:
        - {{http: "http://{address}/hook", ack: true}}
        - {{kafka: {topic}, ack: true, timeout: 30}}
        - {{kafka: {topic}-not}}
        - {{kafka: {topic}-narrow, timeout: 30}}
"""
    allowed = ",".join([topic, f"{topic}-not", f"{topic}-narrow"])
    variables = {"EVENT_GROUP_HOSTS": address, "KAFKA_BOOTSTRAP_SERVERS": kafka}
    assert "EVENT_GROUP_TOPICS" in submit(shop, tmp_path, text, **variables).error_lines[0]
    variables["EVENT_GROUP_TOPICS"] = allowed
    result = executed(shop, tmp_path, functions, text, **variables)
    assert result.status == 0, result.report["lines"]
    rows = [row for row in shop.own_rows("hook_delivery") if row["state"] == "failed"]
    missing, refused = sorted(row["reason"] for row in rows)
    assert missing == f"Kafka has no topic {topic}-not"
    assert f"the topic {topic}-narrow has not taken it: " in refused
    assert [one["told"] for one in got] == ["done", "done"]
    assert {one["id"] for one in got} == {one["key"] for one in got}
    assert len({one["id"] for one in got}) == 1
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    record = consumer.poll(30)
    consumer.close()
    assert record is not None
    assert (record.key(), json.loads(record.value() or "")["event"]) == (b"g", "write")


@pytest.fixture
def airflow() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """Return the address of what answers as Airflow does, and what it was told."""
    got: list[tuple[str, Any]] = []

    class Answers(Listening):
        def do_GET(self) -> None:
            self._answer({"assets": [{"id": 6, "uri": "x://ab/"}, {"id": 7, "uri": "x://a/"}]})

        def do_POST(self) -> None:
            got.append((self.path.removeprefix("/api/v2/"), self.body()))
            self._answer({})

        def _answer(self, body: dict[str, Any]) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

    with served(Answers) as address:
        yield f"http://{address}", got


def test_a_dag_and_an_asset_get_the_notice(
    shop: Journal,
    tmp_path: Path,
    functions: Path,
    airflow: tuple[str, list[tuple[str, Any]]],
) -> None:
    address, got = airflow
    text = """
group: g
events:
  - name: write
    statement: UPDATE <account> SET note = 'new' WHERE id = 'ann'
    hooks: {before: [{dag: "page/somebody", ack: true}], after: [{asset: "x://a", ack: true}]}
"""
    variables = {
        "AIRFLOW_URL": address,
        "EVENT_GROUP_DAGS": "another, page/somebody",
        "EVENT_GROUP_ASSETS": "x://a/",
    }
    result = executed(shop, tmp_path, functions, text, **variables)
    assert result.status == 0, result.report["lines"]
    told = dict(got)
    run = told["dags/page%2Fsomebody/dagRuns"]
    notice = run["conf"]["event_group"]
    assert (notice["event"], notice["told"]) == ("write", "begins")
    assert run["dag_run_id"] == notice["id"]
    event = told["assets/events"]
    assert event["asset_id"] == 7
    assert (event["extra"]["event"], event["extra"]["told"]) == ("write", "done")


SUBMITS = """
group: outer
hooks:
  after:
    - if: done
      submit:
        group: after-done
        events:
          - {name: write, statement: "UPDATE <account> SET note = 'done' WHERE id = 'ann'"}
    - if: failed
      submit:
        group: after-failed
        events:
          - {name: write, statement: "UPDATE <account> SET note = 'failed' WHERE id = 'ann'"}
events:
  - name: check
    statement: SELECT n FROM <posting> WHERE account = 'ann'
    expect: CHECK
"""


@pytest.mark.parametrize(("check", "note"), [("some", "done"), ("none", "failed")])
def test_a_hook_submits_another_group(
    shop: Journal, tmp_path: Path, functions: Path, check: str, note: str
) -> None:
    executed(shop, tmp_path, functions, SUBMITS.replace("CHECK", check))
    [row] = cql(shop, "SELECT note FROM {account} WHERE id = 'ann'")
    assert row["note"] == note
    groups = {row["id"]: row["state"] for row in shop.own_rows("event_group")}
    assert groups.keys() == {"outer", f"after-{note}"}
    assert groups[f"after-{note}"] == "done"
    submitted = [row for row in shop.own_rows("audit") if row["operation"] == "submit event group"]
    assert {row["subject"] for row in submitted} == groups.keys()


def test_a_group_in_a_hook_is_checked_whole(shop: Journal, tmp_path: Path) -> None:
    for wrong, says in (
        ("SET note = 'done' WHERE", "SET nothing = 'done' WHERE"),
        ("after-done\n", "after-done\n        rows: [{table: x, key: {id: 1}}]\n"),
    ):
        result = submit(shop, tmp_path, SUBMITS.replace("CHECK", "some").replace(wrong, says))
        assert result.status == 2
        assert ".yaml:" in result.error_lines[0]


HELPED = """
group: helped
hooks: {helpers: ["shop_functions:helps"]}
events:
  - name: write
    statement: UPDATE <account> SET note = :note WHERE id = 'ann'
    needs: [{as: note, call: "shop_functions:waits_for_the_helper", timeout: 60}]
"""


def helpers(functions: Path) -> list[int]:
    return [int(pid) for pid in (functions / "helper.txt").read_text().split()]


def test_a_helper_lives_until_its_group_has_ended(
    shop: Journal, tmp_path: Path, functions: Path
) -> None:
    assert executed(shop, tmp_path, functions, HELPED).status == 0
    assert not any(map(_lives, helpers(functions)))


@pytest.mark.long
def test_a_helper_ends_with_a_run_that_is_killed(
    shop: Journal, tmp_path: Path, functions: Path
) -> None:
    variables = {"EVENT_GROUP_FUNCTIONS_DIR": str(functions)}
    assert submit(shop, tmp_path, HELPED, **variables).status == 0
    kill_after(shop, Seam.EVENT_BEGUN, "run_event_groups", **variables)
    pids = helpers(functions)
    wait_until("the helper's end", lambda: not any(map(_lives, pids)))
    (functions / "helper.txt").unlink()
    assert shop.run("run_event_groups", **variables).status == 0
    [row] = cql(shop, "SELECT note FROM {account} WHERE id = 'ann'")
    assert row["note"] == "helped"


def test_a_helper_that_fails_fails_the_next_event(
    shop: Journal, tmp_path: Path, functions: Path
) -> None:
    text = """
group: unhelped
hooks: {helpers: ["shop_functions:refuses"]}
events:
  - {name: first, statement: "UPDATE <account> SET note = :n WHERE id = 'ann'",
     needs: [{as: n, call: "shop_functions:noted"}]}
  - {name: second, statement: "UPDATE <account> SET note = 'x' WHERE id = 'bob'", after: [first]}
"""
    before = state(shop)
    [line] = executed(shop, tmp_path, functions, text).report["lines"]
    assert "the helper shop_functions:refuses: ValueError: not today" in line
    assert state(shop) == before


def _lives(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
