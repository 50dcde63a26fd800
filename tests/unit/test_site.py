"""The site of the documentation: complete, linked, and without anything of another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs_commands import PAGES, ROOT
from tests.reference import checks, commands, python_api, tables


def build(directory: Path) -> subprocess.CompletedProcess[str]:
    """Build the site as `make docs` does."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ".:spark_apps:plugins"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    built = build(directory)
    assert built.returncode == 0, built.stderr
    return directory


def test_every_page_is_in_the_site(site: Path) -> None:
    shown = {page.stem for page in site.glob("*.html")}
    assert {page.stem for page in PAGES if page.parent.name == "docs"} - shown == set()
    assert {"index", "commands", "tables", "checks", "python", "settings"} - shown == set()


def test_nothing_comes_from_another_host(site: Path) -> None:
    loaded = re.compile(
        r"<(?:script|img|link|iframe)\b[^>]*(?:src|href)=\"?(?:https?:)?//[^\s>]*"
        r"|@import\s*[^;]*//[^;]*|url\((?:https?:)?//[^)]*"
    )
    files = [file for suffix in ("html", "css") for file in site.rglob(f"*.{suffix}")]
    found = {match for file in files for match in loaded.findall(file.read_text())}
    assert found == set()


def test_no_list_is_shown_as_running_text(site: Path) -> None:
    """On the site a list needs an empty line before it; on GitHub it does not."""
    paragraphs = {
        (page.name, paragraph[:80])
        for page in site.glob("*.html")
        for paragraph in re.findall(
            r"<(?:p|li)>((?:(?!</p>|</li>|<pre).)*)", page.read_text(), re.S
        )
        if re.search(r"\n\s*(?:[-*]|\d+\.) ", paragraph)
    }
    assert paragraphs == set()


def test_every_table_of_the_schema_has_its_columns() -> None:
    page = tables.page()
    for file in tables.SCHEMA.glob("*.cql"):
        for name, columns in re.findall(
            r"^CREATE TABLE IF NOT EXISTS \S+?\.(\w+) \((.*?)\n\)", file.read_text(), re.M | re.S
        ):
            section = re.split(r"\n##", page.partition(f"### `{name}`\n")[2])[0]
            for line in columns.strip().splitlines():
                column = line.split()[0]
                assert column == "PRIMARY" or f"| `{column}` |" in section, (name, column)


def test_columns_show_their_part_of_the_key() -> None:
    section = tables.page().partition("### `piece`\n")[2].partition("###")[0]
    parts = dict(re.findall(r"^\| `(\w+)` \| `[^`]*` \| ([^|]*?) \|$", section, re.M))
    assert parts["bucket_size"] == "partition key"
    assert parts["time_bucket"] == "clustering"
    assert parts["revision"] == "static"
    assert parts["state"] == ""


def test_every_option_of_every_application_is_listed() -> None:
    page = commands.page()
    assert len(commands.APPLICATIONS) > 8
    for heading in (
        "## `tag_write.py`",
        "### `reconcile.py settle`",
        "#### `project.py quarantine list`",
    ):
        assert f"\n{heading}\n" in page
    section = page.partition("\n## `validate.py`\n")[2].partition("\n## ")[0]
    for cell in ("`--scope` | `new or all` | `new` |", "`--slices` | `FIRST-LAST` | all |"):
        assert cell in section
    assert "spark_apps/validate.py --slices 0-127" in section


def test_every_check_has_its_rule_and_what_it_does() -> None:
    page = checks.page()
    for check in checks.CHECKS:
        assert re.search(rf"^\| `{check.name}` \| .+ \| {check.severity.value} \|", page, re.M)


def test_public_names_have_signatures_and_texts() -> None:
    page = python_api.page()
    for names in python_api.NAMES.values():
        for name in names:
            assert re.search(
                rf"^### `{name}`\n\n```python\n{name}\(.*?\n```\n\n\S", page, re.M | re.S
            )
    assert "- `bucket_size`: " in page
