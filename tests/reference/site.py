"""The hooks of mkdocs.yml: pages that are not in docs/, and the links to them."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tests.docs_commands import ROOT
from tests.reference import checks, commands, python_api, tables

COPIED = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "figures.md": "benchmarks/README.md",
}
"""Pages of the site that are files outside of docs/."""
GENERATED = {
    "commands.md": commands.page,
    "tables.md": tables.page,
    "checks.md": checks.page,
    "python.md": python_api.page,
}
"""Pages of the site that are made of code."""
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for uri, name in COPIED.items():
        text = (ROOT / name).read_text()
        files.append(File.generated(config, uri, content=_linked(text, posixpath.dirname(name))))
    for uri, page in GENERATED.items():
        files.append(File.generated(config, uri, content=page()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    uri = page.file.src_uri
    return markdown if uri in COPIED or uri in GENERATED else _linked(markdown, "docs")


def _linked(markdown: str, folder: str) -> str:
    """Return a page of a folder of the repository with its links as the site has them."""
    pages = {name: uri for uri, name in COPIED.items()}

    def link(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found["target"]))
        uri = pages.get(path) or re.sub(r"^docs/", "", path)
        if path not in pages and not path.startswith("docs/"):
            return found["text"]  # A file of the repository, which is not part of the site.
        return f"{found['image']}[{found['text']}]({uri}{found['anchor'] or ''})"

    return _LINK.sub(link, markdown)
