"""Suites of Great Expectations, as a file context of it keeps them. Nothing here needs Spark.

Only the files of suites are read: the configuration of a context can name code to be executed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from tidemark.errors import DefinitionError
from tidemark.validate.data_docs import catalogue
from tidemark.validate.data_docs.catalogue import Expectation

SUITES = Path("gx", "expectations")
"""Where suites are below the directory of checks, which is the root of the context's project."""


@dataclass(frozen=True)
class _StoredExpectation:
    type: str
    kwargs: dict[str, Any]
    severity: Literal["critical", "warning", "info"] = "critical"


class _StoredSuite(BaseModel):
    expectations: tuple[_StoredExpectation, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Suite:
    """The expectations of one check.

    Attributes:
        file: where they are.
        each: in their order.
        is_blocking: whether one that is not met stops what comes after.
    """

    file: Path
    each: tuple[Expectation, ...]
    is_blocking: bool

    @property
    def text(self) -> str:
        """For people, in one line."""
        return "; ".join(map(str, self.each))

    def error(self, place: int, what: str, do: str) -> DefinitionError:
        """Return an error of the expectation at a place, from 0."""
        return _error(self.file, place, what, do)


def read_suite(directory: Path, name: str) -> Suite:
    """Read a suite of the context in a directory of checks.

    Raises:
        DefinitionError: there is no such suite, or it has expectations that cannot be judged.
    """
    file = directory / SUITES / f"{name}.json"
    try:
        stored = _StoredSuite.model_validate_json(file.read_bytes())
    except OSError as error:
        do = f"save one with great_expectations; there are {_names(directory)}"
        raise DefinitionError(
            f"the suite {name} cannot be read: {error.strerror}", where=str(file), do=do
        ) from None
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        what = f"this is no suite: {f'{place}: ' if place else ''}{problem['msg']}"
        raise DefinitionError(
            what, where=str(file), do="save it with great_expectations, with an expectation"
        ) from None
    blocking = {expectation.severity == "critical" for expectation in stored.expectations}
    if len(blocking) > 1:
        raise DefinitionError(
            "some expectations are critical and others are not",
            where=str(file),
            do="make two suites of it: a check blocks, or it warns",
        )
    each = tuple(
        _read(file, place, expectation) for place, expectation in enumerate(stored.expectations)
    )
    return Suite(file, each, blocking.pop())


def _read(file: Path, place: int, stored: _StoredExpectation) -> Expectation:
    kind = catalogue.expectation_types().get(stored.type)
    if kind is None:
        do = _nearest(stored.type, catalogue.expectation_types())
        raise _error(file, place, f"unknown expectation {stored.type}", do)
    kwargs = {name: value for name, value in stored.kwargs.items() if value is not None}
    for name in kwargs:
        if name not in kind.kwargs:
            raise _error(file, place, f"{kind.name} has no {name}", _nearest(name, kind.kwargs))
    for name in kind.required:
        if name not in kwargs:
            raise _error(file, place, f"{kind.name} needs {name}", f"give it {name}")
    if refused := kind.refusal(kwargs):
        name, why = refused
        what = f"{name} cannot be used: {why}" if name else f"{kind.name}: {why}"
        raise _error(file, place, what, f"its arguments are {', '.join(kind.kwargs)}")
    return Expectation(kind, kwargs)


def _error(file: Path, place: int, what: str, do: str) -> DefinitionError:
    return DefinitionError(what, where=f"{file}: expectation {place + 1}", do=do)


def _names(directory: Path) -> str:
    names = sorted(file.stem for file in (directory / SUITES).glob("*.json"))
    return ", ".join(names) or "none yet"


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    return f"write {near[0]}" if near else f"known are {', '.join(names)}"
