"""The expectations of a check, as its header lists them.

They are Great Expectations' own, by their names and arguments. Nothing here needs Spark.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, Tag

from tidemark.continuity.judgement import catalogue
from tidemark.continuity.judgement.catalogue import Expectation, ExpectationType
from tidemark.errors import DefinitionError
from tidemark.headed_files.form import Form, Text, refusal
from tidemark.headed_files.header import Header, Node, Place, error_in


def _require_one(value: dict[str, Any]) -> dict[str, Any]:
    if len(value) != 1:
        raise refusal("write one expectation in each item: `- name: {argument: ...}`")
    return value


OneExpectation = Annotated[
    dict[Text, dict[Text, Any]],
    AfterValidator(_require_one),
    Field(json_schema_extra={"minProperties": 1, "maxProperties": 1}),
]
ExpectationList = Annotated[tuple[OneExpectation, ...], Field(min_length=1)]


class WarningExpectations(Form):
    """Expectations that only warn."""

    warn: ExpectationList = Field(
        description="the expectations that only warn",
        examples=[[{"expect_column_max_to_be_between": {"column": "events", "max_value": 9}}]],
    )


AnyExpectations = Annotated[
    Annotated[ExpectationList, Tag("list")] | Annotated[WarningExpectations, Tag("mapping")],
    Discriminator(
        lambda value: "mapping" if isinstance(value, dict | WarningExpectations) else "list"
    ),
]


@dataclass(frozen=True)
class PlacedExpectation:
    """An expectation and where its file has it.

    Attributes:
        expectation: the expectation.
        place: where its name starts.
        kwargs: where each of its arguments starts.
    """

    expectation: Expectation
    place: Place
    kwargs: Mapping[str, Place]


@dataclass(frozen=True)
class Expectations:
    """The expectations of one check.

    Attributes:
        each: in their order.
        is_blocking: whether one that is not met stops what comes after.
    """

    each: tuple[PlacedExpectation, ...]
    is_blocking: bool

    @property
    def text(self) -> str:
        """For people, in one line."""
        return "; ".join(str(placed.expectation) for placed in self.each)


def read_expectations(header: Header, form: object) -> Expectations:
    """Return the expectations of a header, whose key `expectations` fits the form.

    Raises:
        DefinitionError: Great Expectations has no such expectation, or not with these arguments.
    """
    is_blocking = not isinstance(form, WarningExpectations)
    listed = header.node("expectations", *(() if is_blocking else ("warn",)))
    items = listed.value if isinstance(listed.value, list) else []
    return Expectations(tuple(_read(header.file, item) for item in items), is_blocking)


def _read(file: Path, item: Node) -> PlacedExpectation:
    [(name, node)] = _entries(item)
    place = item.keys[name]
    kind = catalogue.known().get(name)
    if kind is None:
        what = f"unknown expectation {name}"
        raise error_in(file, what, _nearest(name, catalogue.known()), *place)
    for key in node.keys:
        if key not in kind.kwargs:
            what = f"{name} has no {key}"
            raise error_in(file, what, _nearest(key, kind.kwargs), *node.keys[key])
    for key in kind.required:
        if key not in node.keys:
            raise error_in(file, f"{name} needs {key}", f"add `{key}: ...`", *place)
    kwargs = {key: _value(value) for key, value in _entries(node)}
    if refused := kind.refusal(kwargs):
        raise _refused(file, kind, node, place, refused)
    return PlacedExpectation(Expectation(kind, kwargs), place, node.keys)


def _refused(
    file: Path, kind: ExpectationType, node: Node, place: Place, refused: tuple[str, str]
) -> DefinitionError:
    name, why = refused
    do = f"its arguments are {', '.join(kind.kwargs)}"
    if not name:
        return error_in(file, f"{kind.name}: {why}", do, *place)
    return error_in(file, f"{name} cannot be used: {why}", do, *node.keys[name])


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    return f"write {near[0]}" if near else f"known are {', '.join(names)}"


def _entries(node: Node) -> list[tuple[str, Node]]:
    return list(node.value.items()) if isinstance(node.value, dict) else []


def _value(node: Node) -> Any:
    """Return a value: a number, true, false or null is what it is in JSON, unless in quotes."""
    if isinstance(node.value, dict):
        return {key: _value(value) for key, value in node.value.items()}
    if isinstance(node.value, list):
        return [_value(item) for item in node.value]
    if node.is_quoted:
        return node.value
    try:
        return json.loads(str(node.value), parse_constant=_no_number)
    except ValueError:
        return node.value


def _no_number(text: str) -> Any:
    """Refuse NaN and Infinity, which nothing can be compared to."""
    raise ValueError(text)
