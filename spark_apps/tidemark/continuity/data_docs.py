"""The look of Data Docs: GX's own pages with templates that need no network.

The stock pages load their styles, scripts and logo from six public hosts: without a connection
the start page is empty, and with one each view of a page is visible to those hosts. GX takes
another view class by configuration; the classes here find include/data_docs before the stock
templates.
"""

from __future__ import annotations

from typing import Any

from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
)
from great_expectations.render import RenderedDocumentContent
from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
from great_expectations.render.view.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, FileSystemLoader

from tidemark.settings import REPOSITORY

TEMPLATES = REPOSITORY / "include" / "data_docs"
VIEW = {"module_name": __name__, "class_name": "PageView"}
RENDERER = {"module_name": __name__, "class_name": "RunRenderer"}


class PageView(DefaultJinjaPageView):
    """The view of every kind of page: start page, suite and validation result."""

    def __init__(self, **settings: Any) -> None:
        """Put Tidemark's templates first; `settings` are those of GX."""
        super().__init__(**settings)
        stock = self.env.loader
        self.env.loader = ChoiceLoader([FileSystemLoader(TEMPLATES), *([stock] if stock else [])])


class RunRenderer(ValidationResultsPageRenderer):
    """The page of a run, with the data asset's name: GX looks for it in an outdated place."""

    def render(
        self, validation_results: ExpectationSuiteValidationResult, suite_parameters: Any = None
    ) -> RenderedDocumentContent:
        """Set the name of the data asset and render the page."""
        meta: dict[str, Any] = validation_results.meta  # type: ignore[assignment]
        meta.setdefault("batch_spec", {})["data_asset_name"] = validation_results.asset_name
        rendered: RenderedDocumentContent = super().render(validation_results, suite_parameters)
        return rendered
