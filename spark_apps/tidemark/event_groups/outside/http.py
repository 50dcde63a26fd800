"""Requests to addresses that group files name, only to hosts that the settings name."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

import httpx

from tidemark.event_groups.execution.failure import EventFailed
from tidemark.text import one_line

_MAX_ANSWER = 1024 * 1024


def refusal(url: str, hosts: Collection[str]) -> str:
    """Return why an address may not be asked; empty if it may."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return f"{url} is no address"
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        return f"{url} is no address of the form https://host/path"
    host = parts.hostname if port is None else f"{parts.hostname}:{port}"
    return "" if host in hosts else f"the host {host} is not allowed"


def post(
    url: str, body: str, hosts: Collection[str], timeout: float, headers: dict[str, str]
) -> str:
    """Post JSON, follow no redirect, and return the body of a good answer.

    Raises:
        EventFailed: the address is not allowed, does not answer within `timeout` seconds, or
            answers with another status than 2xx.
    """
    if why := refusal(url, hosts):
        raise EventFailed(why)
    content = {"Content-Type": "application/json"}
    try:
        answer = httpx.post(url, content=body, headers=content | headers, timeout=timeout)
    except httpx.HTTPError as error:
        reason = one_line(str(error)) or type(error).__name__
        raise EventFailed(f"{url} has not answered: {reason}") from None
    if not answer.is_success:
        raise EventFailed(f"{url} has answered {answer.status_code}")
    if len(answer.content) > _MAX_ANSWER:
        raise EventFailed(f"{url} has answered with more than {_MAX_ANSWER:,} bytes")
    return answer.text
