"""Requests to addresses that group files name, only to hosts that the settings allow."""

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
    """The address has not answered in time."""


def refusal(url: str, hosts: Collection[str]) -> str:
    """Return why requests to an address are not allowed; empty if they are."""
    shown = one_line(harmless(url))
    try:
        parts, port, httpx_url = urlsplit(url), urlsplit(url).port, httpx.URL(url)
    except (ValueError, httpx.InvalidURL) as error:
        return f"{shown} is not an address: {one_line(harmless(str(error)))}"
    is_complete = parts.scheme in ("http", "https") and parts.hostname and not parts.username
    # The host that is compared must be the host that gets the request.
    if not is_complete or httpx_url.host.lower() != parts.hostname:
        return f"{shown} is not an address of the form https://host/path"
    host = parts.hostname if port is None else f"{parts.hostname}:{port}"
    return "" if host in hosts else f"the host {host} is not allowed"


ACCEPTED = 202
"""The status of an answer which tells that the work is in progress."""


def post(
    url: str, body: str, hosts: Collection[str], timeout: float, headers: dict[str, str]
) -> httpx.Response:
    """Post JSON, follow no redirect, and return a good answer.

    Raises:
        EventFailed: the address is not allowed, or the status of its answer is not 2xx; see also
            `answered`.
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
        sent: further arguments of the request, as httpx names them.

    Raises:
        TimedOut: there is no answer within `timeout` seconds.
        EventFailed: there is no answer, or it is too large.
    """
    shown = one_line(harmless(url))
    try:
        # Unlike `asyncio.run`, closing the loop does not wait for the look-up of a name.
        with closing(asyncio.new_event_loop()) as loop:
            return loop.run_until_complete(_answered(method, url, timeout, sent))
    except TimeoutError:
        raise TimedOut(f"{shown} has not answered within {timeout:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
        reason = one_line(str(error)) or type(error).__name__
        raise EventFailed(f"{shown} has not answered: {reason}") from None


async def _answered(method: str, url: str, timeout: float, sent: dict[str, Any]) -> httpx.Response:
    # The timeouts of httpx limit only single reads and writes.
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
    # Other headers describe the body as it was sent, but its content is decoded now.
    headers = {name: answer.headers[name] for name in ("Content-Type",) if name in answer.headers}
    return httpx.Response(answer.status_code, headers=headers, content=bytes(body))
