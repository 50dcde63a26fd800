"""Where the operator's page is in Airflow: its path, and its entry in the navigation.

Every process of Airflow loads this file, so code that only the server needs is in `app`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

PREFIX = "/tidemark/state"
"""The path of the page, below that of Airflow itself."""
VIEW: dict[str, Any] = {
    "name": "Tidemark",
    # Airflow's page resolves it against the path of Airflow, and shows the page in a frame.
    "href": f"{PREFIX.removeprefix('/')}/",
    "url_route": "tidemark",
    "destination": "nav",
    "nav_top_level": True,
}
"""The entry in Airflow's navigation."""


async def serve(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the page and its API: an ASGI application, which is loaded at the first request."""
    # The application replaces it in the scope; orders call Airflow's own API.
    scope["airflow"] = scope["app"]
    if find_spec("tidemark") is None:
        await _without_library(scope, receive, send)
        return
    from tidemark_airflow.pages.state.app import app

    await app(scope, receive, send)


async def _without_library(scope: Scope, receive: Receive, send: Send) -> None:
    from starlette.responses import JSONResponse

    problem = {
        "what": "the Python of Airflow's API server does not have the package tidemark",
        "where": PREFIX,
        "do": "install tidemark-airflow[page] there",
    }
    answer = JSONResponse(problem, status_code=503, media_type="application/problem+json")
    await answer(scope, receive, send)
