"""The path of the figures for Prometheus in Airflow's server.

Every process of Airflow loads this file, so code that only the server needs is in `pages.metrics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

PREFIX = "/tidemark/metrics"
"""Their path, below that of Airflow itself; requests have a slash at its end."""


async def serve(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the figures: an ASGI application, which is loaded at the first request."""
    from tidemark_airflow.pages.metrics import app

    await app(scope, receive, send)
