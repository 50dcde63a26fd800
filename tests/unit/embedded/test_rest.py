from __future__ import annotations

import json

import httpx
import pytest

from embedded.airflow import rest

BUSY = httpx.Response(500, json={"detail": {"reason": "Database error", "statement": "hidden"}})


def client_of(*answers: httpx.Response) -> httpx.Client:
    left = list(answers)
    transport = httpx.MockTransport(lambda _: left.pop(0))
    return httpx.Client(transport=transport, base_url="http://airflow/api/v2/")


def test_busy_database_is_asked_again_for_what_may_be_sent_twice() -> None:
    client = client_of(BUSY, BUSY, httpx.Response(200, json={"state": "failed"}))
    answer = rest.call(client, "PATCH", "dags/validate/dagRuns/one", state="failed")
    assert answer == {"state": "failed"}


def test_a_run_is_triggered_once_by_requests_that_have_its_id() -> None:
    ids: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        ids.append(json.loads(request.content)["dag_run_id"])
        return BUSY if len(ids) == 1 else httpx.Response(200, json={"dag_run_id": ids[-1]})

    transport = httpx.MockTransport(answer)
    client = httpx.Client(transport=transport, base_url="http://airflow/api/v2/")
    started = rest.trigger(client, "validate")
    assert ids == [started, started]
    assert rest.trigger(client, "validate") != started


def test_another_fault_is_told_at_once() -> None:
    client = client_of(httpx.Response(500, text="no"), httpx.Response(200, json={}))
    with pytest.raises(RuntimeError, match=r"^GET dags: 500 no$"):
        rest.call(client, "GET", "dags")
