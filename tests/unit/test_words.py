"""Texts for users are in plain English: without the words of tests/words.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs_commands import ROOT
from tests.reference import checks, commands, python_api, tables
from tests.words import hits, prose

DOCS = {page.name: page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
GENERATED = {
    "--help": commands.page,
    "comments of tables": tables.page,
    "checks": checks.page,
    "docstrings of the Python API": python_api.page,
}
FORMS = [*ROOT.glob("dags/*.py"), *ROOT.glob("plugins/tidemark_airflow/**/*.py")]
TEMPLATES = sorted((ROOT / "include" / "data_docs").glob("*.html"))


def avoided(text: str) -> list[str]:
    return [f"{word!r} in {around!r}: use {instead}" for word, around, instead in hits(text)]


@pytest.mark.parametrize("name", sorted(DOCS))
def test_page(name: str) -> None:
    assert avoided(prose(DOCS[name].read_text())) == []


@pytest.mark.parametrize("name", GENERATED)
def test_text_in_code(name: str) -> None:
    assert avoided(prose(GENERATED[name]())) == []


@pytest.mark.parametrize("file", FORMS, ids=lambda file: str(file.relative_to(ROOT)))
def test_form(file: Path) -> None:
    assert avoided(prose("\n".join(_texts(file)))) == []


def _texts(file: Path) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings, and what Airflow shows of a DAG."""
    tree = ast.parse(file.read_text())
    docstrings = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    if file.parent.name == "dags":
        yield ast.get_docstring(tree) or ""
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and node not in docstrings else None
        if isinstance(text, str) and " " in text:
            yield text


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda file: file.name)
def test_template_of_data_docs(template: Path) -> None:
    text = re.sub(r"\{[%{#].*?[%}#]\}|<[^>]*>", " ", template.read_text(), flags=re.DOTALL)
    assert avoided(text) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("the number that progress tells", "tells"),
        ("what is left of their lifetime goes on", "goes"),
        ("An event behind the frontier", "behind"),
        ("one that fails, and the newest one.", "one that"),
        ("A run is\nrefused", "is refused"),
        ("It is done as a whole.", "as a whole"),
        ("Looks at everything", "Looks"),
    ],
)
def test_avoided_words_are_found(text: str, word: str) -> None:
    assert word in [found for found, _, _ in hits(text)]


@pytest.mark.parametrize(
    "text", ["the whole partition", "one of the rows", "the look-back of readers", "one row"]
)
def test_other_words_are_not(text: str) -> None:
    assert list(hits(text)) == []


def test_code_and_targets_of_links_are_no_prose() -> None:
    text = prose("`replicate.py mend` [a check](x.md#what-goes)\n```\nit stands\n```\nis repaired")
    assert list(hits(text)) == []
