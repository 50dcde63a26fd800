"""A header: the values that stand above a file's body, each with its place in the file.

It is written as YAML in a SQL file and as keyword arguments in a Python file; from here on both are
the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tidemark.errors import DefinitionError
from tidemark.headed_files.form import Form, describe

Place = tuple[int, int]
"""Line and column, both from 1."""
Checked = TypeVar("Checked", bound=Form)


@dataclass(frozen=True)
class Node:
    """One value as it is written.

    Attributes:
        value: a text, a number, or nodes in order or by key.
        place: where it starts.
        keys: where each key of a mapping starts.
        padded: a text with as many line ends and blanks before it as it has in its file, so that a
            place that Spark names is the place in the file.
    """

    value: str | int | list[Node] | dict[str, Node]
    place: Place
    keys: Mapping[str, Place] = field(default_factory=dict)
    padded: str = ""

    def plain(self) -> Any:
        """Return the value alone, as text, number, list or dict."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def step(self, step: str | int) -> Node | None:
        """Return the value below a key or at a position; None if there is none."""
        if isinstance(self.value, dict):
            return self.value.get(str(step))
        if isinstance(self.value, list) and isinstance(step, int) and step < len(self.value):
            return self.value[step]
        return None


@dataclass(frozen=True)
class Header:
    """The header of one file.

    Attributes:
        file: the file.
        root: its mapping.
        is_python: whether it is written as keyword arguments, with `_` for `-`.
    """

    file: Path
    root: Node
    is_python: bool = False

    def node(self, *path: str | int) -> Node:
        """Return the innermost value on a path; steps that the file does not have are left out."""
        return self._found(path)[0]

    def _found(self, path: Sequence[str | int]) -> tuple[Node, str]:
        """Return that value and the innermost key around it, which is empty if there is none."""
        node, name = self.root, ""
        for step in path:
            name = str(step) if step in node.keys else name
            node = node.step(step) or node
        return node, name

    def line_of(self, key: str) -> int:
        """Return the line of a key, or that of the header for a key that is left out."""
        return self.root.keys.get(key, self.root.place)[0]

    def error(self, what: str, do: str, *path: str | int) -> DefinitionError:
        """Return an error at the value on a path, see `node`."""
        return error_in(self.file, what, do, *self.node(*path).place)

    def checked(self, form: type[Checked]) -> Checked:
        """Check the header against a form.

        Raises:
            DefinitionError: naming file, line, column and what would be right.
        """
        try:
            return form.model_validate(
                self.root.plain(), context={"is_python": self.is_python}, by_alias=True
            )
        except ValidationError as error:
            problems = error.errors(include_url=False)
        # Items that are refused leave a list too short, which is not what is wrong.
        problem = min(problems, key=lambda each: (each["type"] == "too_short", self._place(each)))
        name = self._found(problem["loc"])[1]
        what, do = describe(form, problem, name, is_python=self.is_python)
        raise error_in(self.file, what, do, *self._place(problem))

    def _place(self, problem: ErrorDetails) -> Place:
        node = self.node(*problem["loc"])
        return node.keys.get(problem.get("ctx", {}).get("key", ""), node.place)


def error_in(
    file: Path, what: str, do: str, line: int, column: int | None = None
) -> DefinitionError:
    """Return an error at a line, and column if it is known, of a file; both count from 1."""
    place = f"{file}:{line}" if column is None else f"{file}:{line}:{column}"
    return DefinitionError(what, where=place, do=do)


def utf8_text(file: Path) -> str:
    """Read a file.

    Raises:
        DefinitionError: it is not UTF-8.
    """
    try:
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise error_in(file, "the file is not UTF-8", "save it as UTF-8", 1) from None
