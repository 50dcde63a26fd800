"""A Python file of the user's with a decorator that states what a SQL file's header does.

It is read and not run: whoever only wants to know which projections there are must not need what
they import, nor do what they do. So the decorator's arguments are literals.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidemark.headed_files.sql_file import Headed, Header, Value, error_in, utf8_text

DECORATOR = "projection"
MODULE = "tidemark.projection"
_FORM = f"write `@{DECORATOR}(name=..., version=1, ...)` above one function"
_QUOTE = re.compile(r"""[rRuU]?('{3}|"{3}|'|")""")


@dataclass(frozen=True)
class PythonFile(Headed):
    """A Python file, taken apart.

    Attributes:
        function: the name of the decorated function.
        line: that of its decorator.
        parameters: how many arguments it must be called with.
    """

    function: str
    line: int
    parameters: int


class _Arguments(Header):
    """A header as the arguments of the decorator."""

    noun = "argument"

    def spelled(self, key: str) -> str:
        return key.replace("-", "_")

    def line_for(self, key: str, example: str) -> str:
        value = example if example.isdigit() else repr(example)
        return f"add an argument such as `{self.spelled(key)}={value}`"


def is_definition(file: Path) -> bool:
    """Whether a Python file names the decorator's module; others are modules of the user's."""
    return MODULE.encode() in file.read_bytes()


def read_python_file(
    file: Path, examples: Mapping[str, str], defaults: Mapping[str, str]
) -> PythonFile:
    """Read the decorator of a file's one decorated function.

    Args:
        file: what to read.
        examples: the keys that it must state, each with what it may look like. In Python `_`
            stands for `-`.
        defaults: the keys that it may state, each with the value it has when it is left out.

    Raises:
        DefinitionError: naming the file, the line and what would be right.
    """
    text = utf8_text(file)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        what = f"not Python: {getattr(error, 'msg', error)}"
        raise error_in(file, what, "correct it", line) from None
    found = [
        (function, decorator)
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
        for decorator in function.decorator_list
        if _is_ours(decorator)
    ]
    if len(found) != 1:
        line = found[1][1].lineno if found else 1
        what = "there is more than one projection" if found else "there is no projection"
        raise error_in(file, what, f"{_FORM} of this file", line)
    function, decorator = found[0]
    if not isinstance(decorator, ast.Call) or decorator.args:
        raise error_in(file, "the arguments have no names", _FORM, decorator.lineno)
    arguments = _Arguments(file, examples, defaults)
    for keyword in decorator.keywords:
        arguments.add((keyword.arg or "**").replace("_", "-"), _value(file, text, keyword))
    return PythonFile(
        file,
        text,
        arguments.complete(decorator.lineno),
        {
            (keyword.arg or "").replace("_", "-"): range(keyword.lineno, last + 1)
            for keyword in decorator.keywords
            if (last := _last_line(text, keyword)) is not None
        },
        function.name,
        decorator.lineno,
        len(function.args.posonlyargs) + len(function.args.args) - len(function.args.defaults),
    )


def _last_line(text: str, keyword: ast.keyword) -> int | None:
    """The last line of an argument; None if its lines have more than it."""
    last = keyword.end_lineno or keyword.lineno
    lines = [line.encode() for line in text.splitlines()]
    before = lines[keyword.lineno - 1][: keyword.col_offset]
    behind = lines[last - 1][keyword.end_col_offset :]
    return last if not before.strip() and behind.strip() in (b"", b",") else None


def _is_ours(decorator: ast.expr) -> bool:
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    called = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
    return called == DECORATOR


def _value(file: Path, text: str, keyword: ast.keyword) -> Value:
    node = keyword.value
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | str):
        what = f"the argument {keyword.arg} is not a literal"
        remedy = "write a text or a number; the file is read before it is run"
        raise error_in(file, what, remedy, node.lineno)
    if isinstance(value, int):
        return Value(str(value), node.lineno)
    line = text.splitlines()[node.lineno - 1].encode()
    quote = _QUOTE.match(line[node.col_offset :].decode())
    column = len(line[: node.col_offset].decode()) + (quote.end() if quote else 0)
    return Value(" " * column + value, node.lineno)
