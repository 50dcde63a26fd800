"""Small steps over Airflow's REST API; every wait polls a condition until a deadline."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx

T = TypeVar("T")
OVER = frozenset({"success", "failed"})
POLL_S = 0.5
_REPEATABLE = frozenset({"GET", "PATCH", "PUT", "DELETE"})
_PATIENCE_S = 60


def wait_until(what: str, deadline_s: float, probe: Callable[[], T | None]) -> T:
    """Return the probe's first answer that is not None.

    Raises:
        TimeoutError: there is no answer within `deadline_s` seconds; the text names `what`.
    """
    until = time.monotonic() + deadline_s
    while True:
        answer = probe()
        if answer is not None:
            return answer
        if time.monotonic() > until:
            raise TimeoutError(f"after {deadline_s} s still waiting for {what}")
        time.sleep(POLL_S)


def call(client: httpx.Client, method: str, path: str, **body: Any) -> Any:
    """Return the decoded answer of one request.

    When another process has written into SQLite between a request's reading and its writing,
    SQLite refuses at once, however long it may wait, and Airflow answers "Database error" (500).
    Nothing was changed then, and the request is sent again, if it is one that may be.

    Raises:
        RuntimeError: the answer is an error; the text holds its body.
        TimeoutError: the database is still busy.
    """
    is_repeatable = method in _REPEATABLE or "dag_run_id" in body

    def probe() -> httpx.Response | None:
        answer = client.request(method, path.lstrip("/"), json=body or None)
        return None if is_repeatable and _is_busy(answer) else answer

    answer = wait_until(f"an answer to {method} {path}", _PATIENCE_S, probe)
    if answer.is_error:
        raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
    return answer.json() if answer.content else None


def _is_busy(answer: httpx.Response) -> bool:
    is_fault = answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR
    return is_fault and '"Database error"' in answer.text


def unpause(client: httpx.Client, dag_id: str, *, paused: bool = False) -> None:
    """Start the schedule of a DAG, or pause it."""
    call(client, "PATCH", f"dags/{dag_id}", is_paused=paused)


def trigger(
    client: httpx.Client,
    dag_id: str,
    *,
    logical_date: str | None = None,
    conf: dict[str, Any] | None = None,
    **fields: str,
) -> str:
    """Trigger a run and return its id; `fields` go into the body as they are."""
    # With an id of its own the request may be sent again: a run never starts twice.
    body = {
        "dag_run_id": f"manual__{datetime.now(UTC).isoformat()}_{secrets.token_hex(4)}",
        "logical_date": logical_date,
        "conf": conf or {},
        **fields,
    }
    return str(call(client, "POST", f"dags/{dag_id}/dagRuns", **body)["dag_run_id"])


def runs(client: httpx.Client, dag_id: str) -> list[dict[str, Any]]:
    """Return every run of a DAG, in the order in which they were started."""
    path = f"dags/{dag_id}/dagRuns?limit=100&order_by=start_date"
    dag_runs: list[dict[str, Any]] = call(client, "GET", path)["dag_runs"]
    return dag_runs


def wait_for_run(
    client: httpx.Client, dag_id: str, run_id: str, deadline_s: float
) -> dict[str, Any]:
    """Return the run once it has ended, as success or failed."""

    def probe() -> dict[str, Any] | None:
        run: dict[str, Any] = call(client, "GET", f"dags/{dag_id}/dagRuns/{run_id}")
        return run if run["state"] in OVER else None

    return wait_until(f"{dag_id} {run_id} to be over", deadline_s, probe)


def wait_for_runs(
    client: httpx.Client, dag_id: str, run_type: str, count: int, deadline_s: float
) -> list[dict[str, Any]]:
    """`count` runs of a type once all of them are over, in the order in which they were started."""

    def probe() -> list[dict[str, Any]] | None:
        of_type = [run for run in runs(client, dag_id) if run["run_type"] == run_type]
        over = [run for run in of_type if run["state"] in OVER]
        return of_type if len(of_type) == len(over) >= count else None

    return wait_until(f"{count} {run_type} runs of {dag_id} to be over", deadline_s, probe)


def task_state(
    client: httpx.Client, dag_id: str, run_id: str, task_id: str, map_index: int = -1
) -> str | None:
    """Return the state of a task in a run; -1 is that of a task that is not mapped."""
    path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
    state: str | None = call(client, "GET", path if map_index < 0 else f"{path}/{map_index}")[
        "state"
    ]
    return state


def task_states(client: httpx.Client, dag_id: str, run_id: str, task_id: str) -> list[str | None]:
    """Return the state of a task in a run; of one that is mapped, that of each instance."""
    found = call(client, "GET", f"dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=1000")
    return [one["state"] for one in found["task_instances"] if one["task_id"] == task_id]


def task_log(
    client: httpx.Client,
    dag_id: str,
    run_id: str,
    task_id: str,
    attempt: int = 1,
    map_index: int = -1,
) -> str:
    """Return the log of one attempt of a task, one event a line, errors with their text."""
    path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{attempt}"
    events = call(client, "GET", f"{path}?full_content=true&map_index={map_index}")["content"]
    return "\n".join(
        " ".join([str(event.get("event", "")), *_error_texts(event)]) for event in events
    )


def _error_texts(event: dict[str, Any]) -> list[str]:
    return [str(error.get("exc_value", "")) for error in event.get("error_detail") or []]


def xcom(
    client: httpx.Client,
    dag_id: str,
    run_id: str,
    task_id: str,
    key: str = "return_value",
    map_index: int = -1,
) -> Any:
    """Return the decoded value of an XCom."""
    path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
    return call(client, "GET", f"{path}?deserialize=true&map_index={map_index}")["value"]


def backfill(
    client: httpx.Client,
    dag_id: str,
    first: str,
    last: str,
    *,
    backwards: bool = False,
    reprocess: str = "none",
    conf: dict[str, Any] | None = None,
) -> int:
    """Create a backfill of the buckets from `first` to `last` (both inclusive), one at a time.

    On SQLite Airflow answers 503 when another process writes at that moment, to be tried again, and
    perhaps 500 (apache/airflow#68699). A backfill that is left then is in the way. The DAG is
    paused meanwhile: a run that Airflow takes back must not have begun, since the end of its tasks
    would count as that of the next one's, which has the same name.
    """
    body = {
        "dag_id": dag_id,
        "from_date": first,
        "to_date": last,
        "run_backwards": backwards,
        "reprocess_behavior": reprocess,
        "max_active_runs": 1,
        "dag_run_conf": conf or {},
    }

    was_locked = False

    def probe() -> int | None:
        nonlocal was_locked
        answer = client.post("backfills", json=body)
        if answer.is_server_error and "database is locked" in answer.text.lower():
            was_locked = True
            return None
        if answer.status_code == httpx.codes.CONFLICT and was_locked:
            for left in call(client, "GET", f"backfills?dag_id={dag_id}")["backfills"]:
                close_backfill(client, left["id"])
            return None
        if answer.is_error:
            raise RuntimeError(f"POST backfills: {answer.status_code} {answer.text}")
        return int(answer.json()["id"])

    unpause(client, dag_id, paused=True)
    try:
        return wait_until(f"a backfill of {dag_id} to be accepted", 60, probe)
    finally:
        unpause(client, dag_id)


def close_backfill(client: httpx.Client, backfill_id: int) -> None:
    """End a backfill whose runs are over, so that the DAG takes another.

    The scheduler does it too, but only every 30 seconds. What is not over is cancelled.
    """
    if call(client, "GET", f"backfills/{backfill_id}")["completed_at"] is None:
        call(client, "PUT", f"backfills/{backfill_id}/cancel")
