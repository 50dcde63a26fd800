"""The header of a user's file: its values, each with its place in the file.

A SQL file writes its header as YAML, a Python file as keyword arguments; this module represents
both in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tidemark.errors import DefinitionError
from tidemark.user_files.form import HeaderModel, describe

Place = tuple[int, int]
"""Line and column, both from 1."""
Checked = TypeVar("Checked", bound=HeaderModel)


@dataclass(frozen=True)
class Node:
    """A value as written in the file.

    Attributes:
        value: text, number, list of nodes, or nodes by key.
        place: start of the value.
        keys: start of each key of a mapping.
        padded: the text after as many line ends and blanks as in its file, so that positions in
            Spark's errors are positions in the file.
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
    """The header of a file.

    Attributes:
        root: mapping of the header's keys.
        is_python: whether the header is written as keyword arguments, with `_` for `-`.
    """

    file: Path
    root: Node
    is_python: bool = False

    def node(self, *path: str | int) -> Node:
        """Return the innermost value on a path; skip steps that the file does not have."""
        return self._innermost(path)[0]

    def _innermost(self, path: Sequence[str | int]) -> tuple[Node, str]:
        """Return the innermost value on a path, and the innermost key around the value, or ""."""
        node, name = self.root, ""
        for step in path:
            name = str(step) if step in node.keys else name
            node = node.step(step) or node
        return node, name

    def line_of(self, key: str) -> int:
        """Return the line of a key; if the key is missing, the line of the header."""
        return self.root.keys.get(key, self.root.place)[0]

    def error(self, what: str, do: str, *path: str | int) -> DefinitionError:
        """Return an error at the value on a path, see `node`."""
        return DefinitionError(what, where=self._where(path, self.node(*path).place), do=do)

    def _where(self, path: Sequence[str | int], place: Place) -> str:
        """Return the location of a value for an error message."""
        return f"{self.file}:{place[0]}:{place[1]}"

    def checked(self, form: type[Checked]) -> Checked:
        """Check the header against a form.

        Raises:
            DefinitionError: the header does not fit the form; the message names file, line, column
                and remedy.
        """
        try:
            return form.model_validate(
                self.root.plain(), context={"is_python": self.is_python}, by_alias=True
            )
        except ValidationError as error:
            problems = error.errors(include_url=False)
        problem = min(problems, key=self._rank)
        name = self._innermost(problem["loc"])[1]
        what, do = describe(form, problem, name, is_python=self.is_python)
        where = self._where(problem["loc"], self._place(problem))
        raise DefinitionError(what, where=where, do=do)

    def _rank(self, problem: ErrorDetails) -> tuple[bool, int, Place]:
        """Return the sort key of an error; the lowest is reported.

        Rejected items make a list too short, so that `too_short` comes after all other errors, and
        the inner `too_short` before the outer.
        """
        is_short = problem["type"] == "too_short"
        return is_short, -len(problem["loc"]) if is_short else 0, self._place(problem)

    def _place(self, problem: ErrorDetails) -> Place:
        node = self.node(*problem["loc"])
        return node.keys.get(problem.get("ctx", {}).get("key", ""), node.place)


def error_in(
    file: Path, what: str, do: str, line: int, column: int | None = None
) -> DefinitionError:
    """Return an error at a line and, if known, a column of a file; both count from 1."""
    place = f"{file}:{line}" if column is None else f"{file}:{line}:{column}"
    return DefinitionError(what, where=place, do=do)


def utf8_text(file: Path) -> str:
    """Read a file as UTF-8.

    Raises:
        DefinitionError: the file is not UTF-8.
    """
    try:
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise error_in(file, "the file is not UTF-8", "save it as UTF-8", 1) from None
