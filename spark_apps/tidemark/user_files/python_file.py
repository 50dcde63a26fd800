"""Reads a user's Python file, whose decorator has the values of the header as arguments.

The file is parsed and not run, so that listing projections needs none of their imports and has
none of their side effects. The decorator's arguments must therefore be literals.
"""

from __future__ import annotations

import ast
import io
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tidemark.errors import DefinitionError
from tidemark.user_files.header import Header, Node, Place, error_in, utf8_text

DECORATOR = "projection"
MODULE = "tidemark.project"
_FORM = f"write `@{DECORATOR}(name=..., version=1, ...)` above one function"
_QUOTED = re.compile(r"""[rRuU]?('{3}|"{3}|'|")(.*)\1""", re.DOTALL)


@dataclass(frozen=True)
class PythonFile:
    """The parts of a Python file.

    Attributes:
        header: arguments of the decorator.
        code: text of the file without the decorator.
        function: name of the decorated function.
        line: line of the decorator.
        parameters: number of required arguments of the function.
    """

    header: Header
    code: str
    function: str
    line: int
    parameters: int


def is_definition(file: Path) -> bool:
    """Tell whether a Python file imports the decorator; other files are the user's modules.

    A test may lie in the same directory as its definition, under a name that pytest finds.
    """
    return not file.name.startswith("test_") and MODULE.encode() in file.read_bytes()


def read_python_file(file: Path) -> PythonFile:
    """Read the decorator of the only decorated function of a file.

    Raises:
        DefinitionError: the file is no such definition.
    """
    text = utf8_text(file)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        what = f"not Python: {getattr(error, 'msg', error)}"
        raise error_in(file, what, "correct it", line) from None
    definitions = [
        (function, decorator)
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
        for decorator in function.decorator_list
        if _is_ours(decorator)
    ]
    if len(definitions) != 1:
        line = definitions[1][1].lineno if definitions else 1
        what = "there is more than one projection" if definitions else "there is no projection"
        raise error_in(file, what, f"{_FORM} of this file", line)
    function, decorator = definitions[0]
    if not isinstance(decorator, ast.Call) or decorator.args:
        raise error_in(file, "the arguments have no names", _FORM, decorator.lineno)
    lines = _lines(text)
    arguments = [(keyword.arg, keyword, keyword.value) for keyword in decorator.keywords]
    return PythonFile(
        Header(file, _Literals(file, text).mapping(decorator, arguments), is_python=True),
        "".join([*lines[: decorator.lineno - 1], *lines[decorator.end_lineno :]]),
        function.name,
        decorator.lineno,
        len(function.args.posonlyargs) + len(function.args.args) - len(function.args.defaults),
    )


def _lines(text: str) -> list[str]:
    """Return the lines as Python counts them; `splitlines` splits at more characters."""
    return io.StringIO(text, newline="").readlines()


def _is_ours(decorator: ast.expr) -> bool:
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    called = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
    return called == DECORATOR


def _key(name: str) -> str:
    """Return the header's key of an argument; a Python keyword is written with a trailing `_`."""
    if keyword.iskeyword(name.removesuffix("_")):
        name = name.removesuffix("_")
    return name.replace("_", "-")


class _Literals:
    """A converter from Python's syntax tree to nodes."""

    def __init__(self, file: Path, text: str) -> None:
        self._file, self._text = file, text
        self._lines = _lines(text)

    def mapping(
        self, node: ast.expr, items: Iterable[tuple[str | None, ast.expr | ast.keyword, ast.expr]]
    ) -> Node:
        """Return a mapping by name, with the places of the names and of their values."""
        values: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        for name, where, value in items:
            if name is None:
                raise self._error(where, "a name is not a literal")
            key = _key(name)
            if key in values:
                what, do = f"{name} is given twice", f"keep one, line {keys[key][0]}"
                raise error_in(self._file, what, do, *self._place(where))
            values[key], keys[key] = self._node(value), self._place(where)
        return Node(values, self._place(node), keys)

    def _node(self, node: ast.expr) -> Node:
        if isinstance(node, ast.Dict):
            names = [getattr(key, "value", None) for key in node.keys]
            return self.mapping(
                node,
                [
                    (name if isinstance(name, str) else None, key or value, value)
                    for name, key, value in zip(names, node.keys, node.values, strict=True)
                ],
            )
        if isinstance(node, ast.List | ast.Tuple):
            return Node([self._node(item) for item in node.elts], self._place(node))
        try:
            value = ast.literal_eval(node)
        except (ValueError, TypeError):
            value = None
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise self._error(node, "an argument is not a literal")
        return Node(value, self._place(node), padded=self._padded(node, str(value)))

    def _padded(self, node: ast.expr, value: str) -> str:
        """Return the text padded to its place; with escapes in it, to the start of its literal."""
        line, column = self._place(node)
        quoted = _QUOTED.fullmatch(ast.get_source_segment(self._text, node) or "")
        if quoted and quoted[2].split() == value.split():
            return "\n" * (line - 1) + " " * (column - 1 + quoted.start(2)) + quoted[2]
        return "\n" * (line - 1) + " " * (column - 1) + value

    def _place(self, node: ast.expr | ast.keyword) -> Place:
        prefix = self._lines[node.lineno - 1].encode()[: node.col_offset]
        return node.lineno, len(prefix.decode()) + 1

    def _error(self, node: ast.expr | ast.keyword, what: str) -> DefinitionError:
        remedy = "write texts, numbers, lists and dicts; the file is read before it is run"
        return error_in(self._file, what, remedy, *self._place(node))
