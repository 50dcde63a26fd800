"""Data Docs inside Airflow: the button of a task that opens them, and their path in its server.

Every process of Airflow loads this file, so code that only the server needs is in
`pages.data_docs`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from tidemark_airflow.environment.installation import home
from tidemark_airflow.next_step import below_airflow

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey
    from starlette.types import Receive, Scope, Send

PREFIX = "/tidemark/data-docs"
"""Their path, below that of Airflow itself."""


class DataDocsLink(BaseOperatorLink):
    """The button `Data Docs`, which a task has after its end, whatever its state."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page of this run, or the start page if the run has none.

        The link is a path, to which the browser adds its address of Airflow.
        """
        report = getattr(operator, "report", None) or {"details": {}}
        page = report["details"].get("data_docs", "index.html")
        return f"{below_airflow(PREFIX)}/{quote(page)}"


def directory() -> Path:
    """Return the directory of Data Docs: TIDEMARK_DATA_DOCS_DIR, or else below `home`."""
    configured = os.environ.get("TIDEMARK_DATA_DOCS_DIR")
    return Path(configured) if configured else home() / ".tidemark" / "data_docs"


async def serve(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve Data Docs: an ASGI application, which is loaded at the first request."""
    # This import takes half a second, and at the top it would do so in every task.
    from tidemark_airflow.pages.data_docs import app

    await app(scope, receive, send)
