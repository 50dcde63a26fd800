"""The hooks of a group: who is told that an event begins, and how it has ended.

A notice is sent at least once, with an id that is the same each time, and recorded when it was
delivered or given up. The end of an event waits for notices that must be acknowledged. All others
are recorded as pending before the end of the event is written, and the end of the group waits for
them: a run after a crash sends what is pending.
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
"""Of the ids of notices."""
Sent = Sequence[Future[str]]
"""Reasons why notices that must be acknowledged were not, each of them empty if it was."""


class HookTeller:
    """Tells the hooks of one group."""

    def __init__(
        self, run: RunContext, stream: Stream, group: StoredGroup, functions: Functions
    ) -> None:
        """Bind; what is stored of notices is read when the first hook is told."""
        self._run, self._stream, self._group, self._functions = run, stream, group, functions
        self._deliveries = Deliveries(run, stream.name)
        # A hook that must acknowledge does not wait for others.
        self._acknowledged = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="hook")
        self._others = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="hook")
        self._sending: list[Future[str]] = []
        self._ended: set[str] = set()
        self._told: set[Notice] = set()

    @cached_property
    def _stored(self) -> dict[Notice, Delivery]:
        """What earlier runs have stored."""
        return {one.notice: one for one in self._deliveries.of(self._group.id)}

    def begins(self, event: Event) -> Sent:
        """Tell that an event begins; return what must be acknowledged before its end."""
        return self._tell(event.name, event.hooks.before, BEGINS, "")

    def ended(self, event: Event, begun: Sent, state: EventState, reason: str) -> str:
        """Tell how an event has ended, after those who must acknowledge have done so.

        Returns:
            why an event that was done has failed: a notice was not acknowledged; or nothing.
        """
        self._ended.add(event.name)
        hooks, missing = event.hooks.after, ""
        if state is EventState.DONE:
            done = [hook if hook.ack and hook.if_ != "failed" else None for hook in hooks]
            missing = _missing(begun) or _missing(self._tell(event.name, done, state, ""))
        if state is EventState.DONE and not missing:
            others = [hook if not hook.ack and hook.if_ != "failed" else None for hook in hooks]
            self._tell(event.name, others, state, "")
        elif event.name != ENDS:
            # These notices cannot fail it once more. Those of the group's end have its state.
            failed = [hook if hook.if_ != "done" else None for hook in hooks]
            self._tell(event.name, failed, EventState.FAILED, missing or reason, waits=False)
        return missing

    def group_ended(self, event: Event, state: str, reason: str) -> None:
        """Tell the hooks of the group that it has not ended as a whole."""
        hooks = [hook if hook.if_ != "done" else None for hook in event.hooks.after]
        self._tell(event.name, hooks, state, reason, waits=False)
        self._wait()

    def finish(self) -> None:
        """Wait until all notices are delivered or given up, also those of a run that has died."""
        events = self._group.definition.events
        if not any(one.hooks.before or one.hooks.after for one in events.values()):
            return
        for notice, one in self._stored.items():
            if one.state != "pending" or notice in self._told:
                continue
            if notice.event in self._ended:
                again = "the event was executed again, and has ended otherwise"
                given_up = replace(one, state="failed", reason=again)
                self._deliveries.record(self._group.id, self._id(notice), given_up)
                continue
            of_event = events[notice.event].hooks
            hook = (of_event.before if notice.told == BEGINS else of_event.after)[notice.number]
            self._sending.append(self._others.submit(self._deliver, hook, notice, one.reason))
        self._wait()

    def _wait(self) -> None:
        while self._sending:
            self._sending.pop().result()

    def close(self) -> None:
        """Wait for what is being sent; what is not sent yet is left to the next run."""
        for pool in (self._acknowledged, self._others):
            pool.shutdown(cancel_futures=True)

    def _tell(
        self,
        event: str,
        hooks: Sequence[Hook | None],
        told: str,
        reason: str,
        *,
        waits: bool = True,
    ) -> Sent:
        """Begin to send notices; return those that must be acknowledged, if the event waits."""
        sent = []
        for number, hook in enumerate(hooks):
            if hook is None:
                continue
            notice = Notice(event, str(told), number)
            self._told.add(notice)
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
        own = self._id(notice)
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
        target = _target(hook)
        tries, (failure, _) = 0, targets.refusal(self._run.settings, hook)
        if not failure:
            tries, failure = _attempted(self._sent(hook, body))
        state: Literal["delivered", "failed"] = "failed" if failure else "delivered"
        delivery = Delivery(notice, state, target, tries, failure)
        self._deliveries.record(self._group.id, own, delivery)
        return f"{target} has not acknowledged: {failure}" if failure else ""

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
            return partial(submit, self._run, self._stream, GroupDefinition(hook.submit))
        airflow = AirflowApi(settings, hook.timeout)
        if hook.dag is not None:
            return partial(airflow.start_run, hook.dag, str(body["id"]), {"event_group": body})
        return partial(airflow.create_asset_event, str(hook.asset), body)


def _missing(sent: Sent) -> str:
    """Wait for acknowledgements; return why the first of them is missing, or nothing."""
    return next(filter(None, [one.result() for one in sent]), "")


def _attempted(send: Callable[[], object]) -> tuple[int, str]:
    """Send a notice, up to three times; return how often, and why it was given up."""
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
