"""The reference page of the Python API, from the docstrings of the documented names.

The source is parsed and not imported, so that no Airflow and no Spark is started.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.reference.markdown import plain

NAMES: Mapping[str, Sequence[str]] = {
    "tidemark.projection": ("projection",),
    "tidemark.projection.testing": ("run_projection", "failed_checks", "unreadable_events"),
    "tidemark.event_groups.builder": (
        *(
            "EventGroup",
            "EventHandle",
            "ParameterHandle",
            "Jar",
            "row",
            "from_function",
            "from_url",
        ),
    ),
    "tidemark_airflow.replication.wait": ("WaitUntilReplicated",),
}
"""The public names, by their module."""
_HEAD = """# Python API

The names that projections, tests, event groups and DAGs of yours may import. All others may change
without notice.
"""
_SECTION = re.compile(r"^(Args|Returns|Raises|Attributes|Yields):$")
Definition = ast.FunctionDef | ast.ClassDef


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for module, names in NAMES.items():
        parts.append(f"## `{module}`")
        for name in names:
            parts += _describe(_definition(module, name))
    return "\n\n".join(parts) + "\n"


def _definition(module: str, name: str) -> Definition:
    """Return the definition of a name, also if the module only imports it."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"no module {module}")
    for node in ast.parse(Path(spec.origin).read_text()).body:
        if isinstance(node, Definition) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and name in (alias.name for alias in node.names):
            return _definition(str(node.module), name)
    raise ValueError(f"{module} has no {name}")


def _describe(node: Definition) -> Iterator[str]:
    yield f"### `{node.name}`"
    if isinstance(node, ast.FunctionDef):
        yield from _function(node)
        return
    methods = [child for child in node.body if isinstance(child, ast.FunctionDef)]
    fields = [ast.unparse(child) for child in node.body if isinstance(child, ast.AnnAssign)]
    made = next((method for method in methods if method.name == "__init__"), None)
    if made is not None:
        yield _signature(node.name, made)
    elif fields:
        yield f"```python\n{node.name}({', '.join(fields)})\n```"
    yield from _prose(ast.get_docstring(node))
    if made is not None:
        yield from _prose(ast.get_docstring(made))
    for method in methods:
        if not method.name.startswith("_") and ast.get_docstring(method):
            yield f"#### `{node.name}.{method.name}`"
            yield from _function(method)


def _function(node: ast.FunctionDef) -> Iterator[str]:
    yield _signature(node.name, node)
    yield from _prose(ast.get_docstring(node))


def _signature(name: str, node: ast.FunctionDef) -> str:
    result = f" -> {ast.unparse(node.returns)}" if node.returns and name == node.name else ""
    arguments = re.sub(r"^self(, )?", "", ast.unparse(node.args))
    line = f"{name}({arguments}){result}"
    if len(line) > 88:
        line = f"{name}(\n    " + ",\n    ".join(_split(arguments)) + f",\n){result}"
    return f"```python\n{line}\n```"


def _split(arguments: str) -> list[str]:
    """Return the arguments one by one; commas in brackets do not separate any."""
    parts, depth = [""], 0
    for sign in arguments:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _prose(docstring: str | None) -> Iterator[str]:
    """Return a docstring in Google's style as Markdown: its sections become lists."""
    title, lines = "", list[str]()
    for line in [*inspect.cleandoc(docstring or "").splitlines(), "Args:"]:
        section = _SECTION.match(line)
        if section is None:
            lines.append(line)
            continue
        yield from _part(title, lines)
        title, lines = section[1], []


def _part(title: str, lines: list[str]) -> Iterator[str]:
    text = "\n".join(lines).strip("\n")
    if not text.strip():
        return
    if not title:
        for paragraph in text.split("\n\n"):
            yield plain(paragraph)
        return
    if title in ("Returns", "Yields"):
        yield f"**{title}** {plain(inspect.cleandoc(text))}"
        return
    items = re.split(r"\n(?=\S)", inspect.cleandoc(text))
    yield f"**{title}**"
    yield "\n".join(_item(item) for item in items)


def _item(item: str) -> str:
    name, _, meaning = item.partition(":")
    return f"- `{name}`: {plain(meaning)}"
