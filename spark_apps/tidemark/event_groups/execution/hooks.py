"""Sends the hooks of a group: notices of the beginning and of the end of each event.

A notice is sent at least once, with the same id each time, and recorded when it is delivered or
given up. The end of an event waits for notices that must be acknowledged. All others are recorded
as pending before the end of the event is written, and the end of the group waits for them: a run
after a crash sends pending notices.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from typing import Literal

from tidemark import clock
from tidemark.context import RunContext
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.group_hooks import ENDS
from tidemark.event_groups.definition.model import Event, Hook
from tidemark.event_groups.external import http, targets, topics
from tidemark.event_groups.external.airflow import AirflowApi
from tidemark.event_groups.external.processes import Functions
from tidemark.event_groups.failure import attempts, error_text
from tidemark.event_groups.stream.deliveries import BEGINS, Deliveries, Delivery, Notice
from tidemark.event_groups.stream.states import EventState, StoredGroup
from tidemark.event_groups.stream.store import Stream
from tidemark.event_groups.stream.submission import submit

_PARALLEL = 8
_NAMESPACE = uuid.UUID("1c2f3a52-5f0e-4f0c-9a0c-2f8f6b1f7f60")
"""The namespace of the ids of notices."""
Sent = Sequence[Future[str]]
"""Why notices that must be acknowledged were not; an empty text for each that was."""


class HookTeller:
    """Sends the notices of one group's hooks."""

    def __init__(
        self, run: RunContext, stream: Stream, group: StoredGroup, functions: Functions
    ) -> None:
        """Bind; stored notices are read when the first hook is sent."""
        self._run, self._stream, self._group, self._functions = run, stream, group, functions
        self._deliveries = Deliveries(run, stream.name)
        # A notice that must be acknowledged does not wait for others.
        self._acknowledged = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="hook")
        self._others = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="hook")
        self._sending: list[Future[str]] = []
        self._ended: set[str] = set()
        self._started: set[Notice] = set()

    @cached_property
    def _stored(self) -> dict[Notice, Delivery]:
        """Return the notices that earlier runs have stored."""
        return {delivery.notice: delivery for delivery in self._deliveries.of(self._group.id)}

    def begins(self, event: Event) -> Sent:
        """Send notices of an event's beginning; return those to be acknowledged before its end."""
        return self._notify(event.name, event.hooks.before, BEGINS, "")

    def ended(self, event: Event, begin_notices: Sent, state: EventState, reason: str) -> str:
        """Send notices of an event's end, once those that must be acknowledged have been.

        Returns:
            why an event that was done has failed (a notice was not acknowledged), or nothing.
        """
        self._ended.add(event.name)
        hooks, missing = event.hooks.after, ""
        if state is EventState.DONE:
            done = [hook if hook.ack and hook.if_ != "failed" else None for hook in hooks]
            missing = _missing(begin_notices) or _missing(self._notify(event.name, done, state, ""))
        if state is EventState.DONE and not missing:
            others = [hook if not hook.ack and hook.if_ != "failed" else None for hook in hooks]
            self._notify(event.name, others, state, "")
        elif event.name != ENDS:
            # These notices cannot fail the event again. The end of the group has its own notices.
            failed = [hook if hook.if_ != "done" else None for hook in hooks]
            self._notify(event.name, failed, EventState.FAILED, missing or reason, waits=False)
        return missing

    def group_ended(self, event: Event, state: str, reason: str) -> None:
        """Send notices that the group has not succeeded."""
        hooks = [hook if hook.if_ != "done" else None for hook in event.hooks.after]
        self._notify(event.name, hooks, state, reason, waits=False)
        self._wait()

    def finish(self) -> None:
        """Wait until all notices are delivered or given up, also those of a run that has died."""
        events = self._group.definition.events
        if not any(event.hooks.before or event.hooks.after for event in events.values()):
            return
        for notice, delivery in self._stored.items():
            if delivery.state != "pending" or notice in self._started:
                continue
            if notice.event in self._ended:
                reason = "the event was executed again, and has ended otherwise"
                given_up = replace(delivery, state="failed", reason=reason)
                self._deliveries.record(self._group.id, self._id(notice), given_up)
                continue
            hooks = events[notice.event].hooks
            hook = (hooks.before if notice.told == BEGINS else hooks.after)[notice.number]
            self._sending.append(self._others.submit(self._deliver, hook, notice, delivery.reason))
        self._wait()

    def _wait(self) -> None:
        while self._sending:
            self._sending.pop().result()

    def close(self) -> None:
        """Wait for notices that are being sent; the next run sends the others."""
        for pool in (self._acknowledged, self._others):
            pool.shutdown(cancel_futures=True)

    def _notify(
        self,
        event: str,
        hooks: Sequence[Hook | None],
        moment: str,
        reason: str,
        *,
        waits: bool = True,
    ) -> Sent:
        """Start sending notices; return those to be acknowledged, if the event waits for them."""
        sent = []
        for number, hook in enumerate(hooks):
            if hook is None:
                continue
            notice = Notice(event, str(moment), number)
            self._started.add(notice)
            if notice in self._stored and self._stored[notice].state == "delivered":
                continue
            if hook.ack and waits:
                sent.append(self._acknowledged.submit(self._deliver, hook, notice, reason))
                continue
            pending = Delivery(notice, "pending", _target(hook), 0, reason)
            self._deliveries.record(self._group.id, self._id(notice), pending)
            self._sending.append(self._others.submit(self._deliver, hook, notice, reason))
        return sent

    def _id(self, notice: Notice) -> uuid.UUID:
        name = f"{self._stream.name}/{self._group.id}/{self._group.sequence}"
        return uuid.uuid5(_NAMESPACE, f"{name}/{notice.event}/{notice.told}/{notice.number}")

    def _deliver(self, hook: Hook, notice: Notice, reason: str) -> str:
        """Send a notice; return why it was given up, or nothing."""
        notice_id = self._id(notice)
        body = {
            "id": str(notice_id),
            "stream": self._stream.name,
            "group": self._group.id,
            "sequence": self._group.sequence,
            "event": notice.event,
            "told": notice.told,
            "reason": reason,
            "sent_at": clock.now().isoformat(),
        }
        target = _target(hook)
        tries, (failure, _) = 0, targets.refusal(self._run.settings, hook)
        if not failure:
            tries, failure = _attempted(self._sender(hook, body))
        state: Literal["delivered", "failed"] = "failed" if failure else "delivered"
        delivery = Delivery(notice, state, target, tries, failure)
        self._deliveries.record(self._group.id, notice_id, delivery)
        return f"{target} has not acknowledged: {failure}" if failure else ""

    def _sender(self, hook: Hook, body: dict[str, object]) -> Callable[[], object]:
        settings, text = self._run.settings, json.dumps(body)
        if hook.http is not None:
            hosts = settings.event_group_host_names
            headers = {"Idempotency-Key": str(body["id"])}
            return partial(http.post, hook.http, text, hosts, hook.timeout, headers)
        if hook.kafka is not None:
            key = self._group.id
            return partial(topics.append, settings, hook.kafka, key, text, hook.timeout)
        if hook.call is not None:
            return partial(self._functions.call, hook.call, text, hook.timeout)
        if hook.submit is not None:
            return partial(submit, self._run, self._stream, GroupDefinition(hook.submit))
        airflow = AirflowApi(settings, hook.timeout)
        if hook.dag is not None:
            return partial(airflow.start_run, hook.dag, str(body["id"]), {"event_group": body})
        return partial(airflow.create_asset_event, str(hook.asset), body)


def _missing(sent: Sent) -> str:
    """Wait for acknowledgements; return why the first missing one is missing, or nothing."""
    return next(filter(None, [future.result() for future in sent]), "")


def _attempted(send: Callable[[], object]) -> tuple[int, str]:
    """Send a notice in up to three attempts; return how many, and why it was given up."""
    failure = ""
    for number in attempts():
        try:
            send()
        except Exception as error:
            failure = error_text(error)
        else:
            return number, ""
    return number, failure


def _target(hook: Hook) -> str:
    name = hook.submit.group if hook.submit is not None else getattr(hook, hook.target)
    return f"{hook.target} {name}"
