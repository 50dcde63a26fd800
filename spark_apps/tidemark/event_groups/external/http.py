"""Requests to addresses that group files name, only to hosts that the settings name."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import httpx

from tidemark.event_groups.failure import EventFailed
from tidemark.text import harmless, one_line

_MAX_ANSWER = 1024 * 1024


class TimedOut(EventFailed):
    """An address that has not answered in time."""


def refusal(url: str, hosts: Collection[str]) -> str:
    """Return why an address may not be asked; empty if it may."""
    shown = one_line(harmless(url))
    try:
        parts, port, read = urlsplit(url), urlsplit(url).port, httpx.URL(url)
    except (ValueError, httpx.InvalidURL) as error:
        return f"{shown} is not an address: {one_line(harmless(str(error)))}"
    is_complete = parts.scheme in ("http", "https") and parts.hostname and not parts.username
    # The host that is compared must be the host that is asked.
    if not is_complete or read.host.lower() != parts.hostname:
        return f"{shown} is not an address of the form https://host/path"
    host = parts.hostname if port is None else f"{parts.hostname}:{port}"
    return "" if host in hosts else f"the host {host} is not allowed"


ACCEPTED = 202
"""The status of an answer that says: it is under way."""


def post(
    url: str, body: str, hosts: Collection[str], timeout: float, headers: dict[str, str]
) -> httpx.Response:
    """Post JSON, follow no redirect, and return a good answer.

    Raises:
        EventFailed: the address is not allowed, or answers with another status than 2xx;
            and as `answered`.
    """
    if why := refusal(url, hosts):
        raise EventFailed(why)
    content = {"Content-Type": "application/json"}
    answer = answered("POST", url, timeout, content=body, headers=content | headers)
    if not answer.is_success:
        raise EventFailed(f"{url} has answered {answer.status_code}")
    return answer


def answered(method: str, url: str, timeout: float, **sent: Any) -> httpx.Response:
    """Send a request, follow no redirect, and return the answer, whatever its status.

    Args:
        method: of the request.
        url: its address.
        timeout: seconds until the last byte of the answer.
        sent: more of the request, as httpx names it.

    Raises:
        TimedOut: there is no answer within `timeout` seconds.
        EventFailed: there is no answer, or it is too large.
    """
    shown = one_line(harmless(url))
    try:
        # Unlike `asyncio.run`, its end does not wait for the look-up of a name.
        with closing(asyncio.new_event_loop()) as loop:
            return loop.run_until_complete(_answered(method, url, timeout, sent))
    except TimeoutError:
        raise TimedOut(f"{shown} has not answered within {timeout:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
        reason = one_line(str(error)) or type(error).__name__
        raise EventFailed(f"{shown} has not answered: {reason}") from None


async def _answered(method: str, url: str, timeout: float, sent: dict[str, Any]) -> httpx.Response:
    # The timeouts of httpx are those of single reads and writes.
    async with (
        asyncio.timeout(timeout),
        httpx.AsyncClient(timeout=None) as client,  # noqa: S113  the line above is the timeout
        client.stream(method, url, **sent) as answer,
    ):
        body = bytearray()
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > _MAX_ANSWER:
                raise EventFailed(f"{url} has answered with more than {_MAX_ANSWER:,} bytes")
    # They describe the body as it was sent, and its content is decoded now.
    kind = {name: answer.headers[name] for name in ("Content-Type",) if name in answer.headers}
    return httpx.Response(answer.status_code, headers=kind, content=bytes(body))
