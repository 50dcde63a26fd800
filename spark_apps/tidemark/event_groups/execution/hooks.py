"""The hooks of a group: who is told that an event begins, and how it has ended.

A notice is sent at least once, with an id that is the same each time, and recorded when it was
delivered or given up. All notices of an event are out before its end is written, so that a run
after a crash sends what was not recorded.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Literal

from tidemark import clock
from tidemark.context import RunContext
from tidemark.errors import TidemarkError
from tidemark.event_groups.definition.file import Definition
from tidemark.event_groups.definition.model import Event, Hook
from tidemark.event_groups.execution.failure import EventFailed, attempts
from tidemark.event_groups.outside import http, targets, topics
from tidemark.event_groups.outside.airflow import Airflow
from tidemark.event_groups.outside.processes import Functions
from tidemark.event_groups.stream.deliveries import BEGINS, Deliveries, Delivery, Notice
from tidemark.event_groups.stream.states import EventState, StoredGroup
from tidemark.event_groups.stream.store import Stream
from tidemark.event_groups.stream.submission import submit

_PARALLEL = 4
_NAMESPACE = uuid.UUID("1c2f3a52-5f0e-4f0c-9a0c-2f8f6b1f7f60")
"""Of the ids of notices."""
Sent = Sequence[Future[str]]
"""Reasons why notices that must be acknowledged were not; or nothing."""


class HookTeller:
    """Tells the hooks of one group."""

    def __init__(
        self, run: RunContext, stream: Stream, group: StoredGroup, functions: Functions
    ) -> None:
        """Bind; what was delivered before is read when the first hook is told."""
        self._run, self._stream, self._group, self._functions = run, stream, group, functions
        self._deliveries = Deliveries(run, stream.name)
        self._known: set[Notice] | None = None
        self._pool = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="hook")

    def begins(self, event: Event) -> Sent:
        """Begin to tell that an event begins; nobody waits for it before `ended`."""
        return self._told(event.name, event.hooks.before, BEGINS, "")

    def ended(self, event: Event, begun: Sent, state: EventState, reason: str) -> str:
        """Tell how an event has ended.

        Returns:
            why a notice was not acknowledged that must be; or nothing.
        """
        hooks = [hook if hook.if_ in (None, str(state)) else None for hook in event.hooks.after]
        sent = [*begun, *self._told(event.name, hooks, str(state), reason)]
        return next(filter(None, [one.result() for one in sent]), "")

    def group_ended(self, event: Event, state: str, reason: str) -> None:
        """Tell the hooks of the group that it has not ended as a whole."""
        hooks = [hook if hook.if_ != "done" else None for hook in event.hooks.after]
        for one in self._told(event.name, hooks, state, reason):
            one.result()

    def close(self) -> None:
        """Wait for what is being told."""
        self._pool.shutdown()

    def _told(
        self, event: str, hooks: Sequence[Hook | None], told: str, reason: str
    ) -> list[Future[str]]:
        if not hooks:
            return []
        if self._known is None:
            found = self._deliveries.of(self._group.id)
            self._known = {one.notice for one in found if one.state == "delivered"}
        sent = []
        for number, hook in enumerate(hooks):
            notice = Notice(event, told, number)
            if hook is not None and notice not in self._known:
                sent.append(self._pool.submit(self._deliver, hook, notice, reason))
        return sent

    def _deliver(self, hook: Hook, notice: Notice, reason: str) -> str:
        name = f"{self._stream.name}/{self._group.id}/{self._group.sequence}"
        own = uuid.uuid5(_NAMESPACE, f"{name}/{notice.event}/{notice.told}/{notice.number}")
        body = {
            "id": str(own),
            "stream": self._stream.name,
            "group": self._group.id,
            "sequence": self._group.sequence,
            "event": notice.event,
            "told": notice.told,
            "reason": reason,
            "sent_at": clock.now().isoformat(),
        }
        target = f"{hook.target} {_named(hook)}"
        tries, (failure, _) = 0, targets.refusal(self._run.settings, hook)
        if not failure:
            tries, failure = _attempted(self._sent(hook, body))
        state: Literal["delivered", "failed"] = "failed" if failure else "delivered"
        delivery = Delivery(notice, state, target, tries, failure)
        self._deliveries.record(self._group.id, own, delivery)
        return f"{target} has not acknowledged: {failure}" if failure and hook.ack else ""

    def _sent(self, hook: Hook, body: dict[str, object]) -> Callable[[], object]:
        settings, text = self._run.settings, json.dumps(body)
        if hook.http is not None:
            hosts = settings.event_group_host_names
            own = {"Idempotency-Key": str(body["id"])}
            return partial(http.post, hook.http, text, hosts, hook.timeout, own)
        if hook.kafka is not None:
            key = self._group.id
            return partial(topics.append, settings, hook.kafka, key, text, hook.timeout)
        if hook.call is not None:
            return partial(self._functions.call, hook.call, text, hook.timeout)
        if hook.submit is not None:
            return partial(submit, self._run, self._stream, Definition(hook.submit))
        airflow = Airflow(settings, hook.timeout)
        if hook.dag is not None:
            return partial(airflow.start_run, hook.dag, str(body["id"]), {"event_group": body})
        return partial(airflow.create_asset_event, str(hook.asset), body)


def _attempted(send: Callable[[], object]) -> tuple[int, str]:
    """Send a notice, up to three times; return how often, and why it was given up."""
    failure = ""
    for number in attempts():
        try:
            send()
        except (EventFailed, TidemarkError) as error:
            failure = str(error)
        else:
            return number, ""
    return number, failure


def _named(hook: Hook) -> str:
    return hook.submit.group if hook.submit is not None else str(getattr(hook, hook.target))
