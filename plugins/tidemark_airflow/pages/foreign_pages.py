"""Prevents pages of other origins from acting in Airflow in the name of a logged-in user."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk.configuration import conf
from starlette.datastructures import Headers
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_AUTH_MANAGER = "/auth/"
"""Identity providers post the result of a login to this path; the auth manager checks it."""


class ForeignPageCheck:
    """Rejects requests by pages of other origins, with status 403, unless they only read.

    A browser sends the origin of the page in the headers `Sec-Fetch-Site` and `Origin`. Programs
    send neither and are not affected. Airflow's cookie is not sufficient: a browser also sends it
    for pages on other ports of the same host.

    Args:
        app: the application for all other requests.
        own: origins whose pages may act, such as `https://airflow.example.com`.
    """

    def __init__(self, app: ASGIApp, own: Collection[str]) -> None:
        self._app = app
        self._own = own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request or pass it on."""
        if scope["type"] == "http" and self._is_rejected(scope):
            answer = {"detail": "a page of another origin may not change anything in Airflow"}
            await JSONResponse(answer, status_code=403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_rejected(self, scope: Scope) -> bool:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if scope["method"] in _READING or path.startswith(_AUTH_MANAGER):
            return False
        headers = Headers(scope=scope)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin in self._own:
            return False
        if site is not None:
            return site not in ("same-origin", "none")
        # Older browsers, and all browsers over plain HTTP from another machine.
        return origin is not None and urlsplit(origin).netloc != headers.get("host")


def foreign_page_check() -> dict[str, Any]:
    """Return the check for the API server.

    Pages may act if their origin is that of `[api] base_url` or is in
    `[api] access_control_allow_origins`.
    """
    base = urlsplit(conf.get("api", "base_url", fallback=""))
    allowed = conf.getlist("api", "access_control_allow_origins", fallback=[])
    own = frozenset({f"{base.scheme}://{base.netloc}", *allowed})
    return {"name": "foreign pages", "middleware": ForeignPageCheck, "kwargs": {"own": own}}
