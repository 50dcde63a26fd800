"""Suites of Great Expectations, as stored by its file context. This module needs no Spark.

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
"""The folder of suites below the directory of checks, the root of the context's project."""


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
        file: the file of the suite.
        expectations: in the order of the file.
        is_blocking: whether an expectation that is not met blocks.
    """

    file: Path
    expectations: tuple[Expectation, ...]
    is_blocking: bool

    @property
    def text(self) -> str:
        """The expectations as one line for people."""
        return "; ".join(map(str, self.expectations))

    def error(self, index: int, what: str, do: str) -> DefinitionError:
        """Return an error of the expectation at an index."""
        return _error(self.file, index, what, do)


def read_suite(directory: Path, name: str) -> Suite:
    """Read a suite of the context in a directory of checks.

    Raises:
        DefinitionError: there is no such suite, or it has expectations that cannot be judged.
    """
    file = directory / SUITES / f"{name}.json"
    try:
        suite = _StoredSuite.model_validate_json(file.read_bytes())
    except OSError as error:
        do = f"save one with great_expectations; there are {_names(directory)}"
        raise DefinitionError(
            f"the suite {name} cannot be read: {error.strerror}", where=str(file), do=do
        ) from None
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"]))
        text = f"this is no suite: {f'{field}: ' if field else ''}{problem['msg']}"
        raise DefinitionError(
            text, where=str(file), do="save it with great_expectations, with an expectation"
        ) from None
    blocking = {expectation.severity == "critical" for expectation in suite.expectations}
    if len(blocking) > 1:
        raise DefinitionError(
            "some expectations are critical and others are not",
            where=str(file),
            do="make two suites of it: a check blocks, or it warns",
        )
    expectations = tuple(
        _read(file, index, expectation) for index, expectation in enumerate(suite.expectations)
    )
    return Suite(file, expectations, blocking.pop())


def _read(file: Path, index: int, stored: _StoredExpectation) -> Expectation:
    kind = catalogue.expectation_types().get(stored.type)
    if kind is None:
        do = _nearest(stored.type, catalogue.expectation_types())
        raise _error(file, index, f"unknown expectation {stored.type}", do)
    kwargs = {name: value for name, value in stored.kwargs.items() if value is not None}
    for name in kwargs:
        if name not in kind.kwargs:
            raise _error(file, index, f"{kind.name} has no {name}", _nearest(name, kind.kwargs))
    for name in kind.required:
        if name not in kwargs:
            raise _error(file, index, f"{kind.name} needs {name}", f"give it {name}")
    if refusal := kind.refusal(kwargs):
        name, reason = refusal
        text = f"{name} cannot be used: {reason}" if name else f"{kind.name}: {reason}"
        raise _error(file, index, text, f"its arguments are {', '.join(kind.kwargs)}")
    return Expectation(kind, kwargs)


def _error(file: Path, index: int, what: str, do: str) -> DefinitionError:
    return DefinitionError(what, where=f"{file}: expectation {index + 1}", do=do)


def _names(directory: Path) -> str:
    names = sorted(file.stem for file in (directory / SUITES).glob("*.json"))
    return ", ".join(names) or "none yet"


def _nearest(name: str, candidates: Iterable[str]) -> str:
    names = list(candidates)
    matches = difflib.get_close_matches(name, names, 1)
    return f"write {matches[0]}" if matches else f"known are {', '.join(names)}"
