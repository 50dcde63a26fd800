"""What a header may say: pydantic models, whose errors become one line with a remedy."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Annotated, Any, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""A text that is not empty; blanks around it do not count."""
_REFUSED = "refused"
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


def refusal(do: str, what: str = "", key: str = "") -> PydanticCustomError:
    """Return an error of a validator.

    Args:
        do: what would be right.
        what: what is wrong; by default that the value cannot be used.
        key: the key that is at fault, if it is not the whole value.
    """
    # Braces of the user's would be taken for places to fill, and so stand only in the context.
    return PydanticCustomError(_REFUSED, "refused", {"what": what, "do": do, "key": key})


class Form(BaseModel):
    """A mapping with known keys, which have `-` where the attributes have `_`."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.rstrip("_").replace("_", "-"),
    )

    @classmethod
    def fields(cls) -> dict[str, FieldInfo]:
        """Return what is known of each key."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    @model_validator(mode="before")
    @classmethod
    def _require_known_keys(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict):
            return value
        is_python = bool(info.context and info.context["is_python"])
        fields = cls.fields()
        for key in value:
            if key not in fields:
                near = difflib.get_close_matches(key, fields, 1)
                names = [_spelled(name, is_python) for name in near or fields]
                do = f"write {names[0]}" if near else f"known are {', '.join(names)}"
                raise refusal(do, f"unknown key {_spelled(key, is_python)}", key)
        for key, field in fields.items():
            if field.is_required() and key not in value:
                example = (field.examples or ["..."])[0]
                do = f"add `{written(key, example, is_python=is_python)}`"
                raise refusal(do, f"{_spelled(key, is_python)} is missing")
        return value


class OneKey(Form):
    """A mapping with exactly one of its keys, which says what the value is."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    @model_validator(mode="after")
    def _require_one_key(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise refusal(f"write exactly one of {', '.join(self.fields())}")
        return self


BY_SHAPE = Discriminator(lambda value: "text" if isinstance(value, str | int) else "mapping")
"""Tells a short form, tagged `text`, from a long one, tagged `mapping`."""


@dataclass(frozen=True)
class WholeNumber:
    """A whole number between two, both inclusive; in YAML it is read from its decimal digits."""

    first: int
    last: int

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return what pydantic validates by."""
        limits = core_schema.int_schema(ge=self.first, le=self.last)
        return core_schema.no_info_before_validator_function(self._number, limits)

    def _number(self, value: Any) -> int:
        is_number = not isinstance(value, bool) and re.fullmatch(
            r"-?\d{1,10}", str(value), re.ASCII
        )
        if is_number and self.first <= int(value) <= self.last:
            return int(value)
        raise refusal(f"write a whole number from {self.first} to {self.last}")


@dataclass(frozen=True)
class Matching:
    """A text of a certain form.

    Attributes:
        pattern: a regular expression for all of it.
        do: what would be right, for people.
    """

    pattern: str
    do: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return what pydantic validates by."""
        return core_schema.no_info_after_validator_function(
            self.read,
            core_schema.str_schema(),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return what editors validate by."""
        return handler(schema) | {"pattern": f"^({self.pattern})$"}

    def read(self, value: str) -> Any:
        """Return the value that a text stands for."""
        if not re.fullmatch(self.pattern, value):
            raise refusal(self.do)
        return value


class Duration(Matching):
    """A number and one of some units such as `10 s`, as seconds; `off`, if it may be, as None."""

    def __init__(self, *units: str, may_be_off: bool = False) -> None:
        """Bind."""
        off = "|off" if may_be_off else ""
        such_as = " or ".join(f"`10 {unit}`" for unit in units)
        do = f"write a time such as {such_as}{', or `off`' if off else ''}"
        super().__init__(f"[0-9]{{1,9}} ?({'|'.join(units)}){off}", do)

    def read(self, value: str) -> float | None:
        """Return the seconds."""
        match = re.fullmatch(r"([0-9]+) ?(\D+)", super().read(value))
        return int(match[1]) * _SECONDS[match[2]] if match else None


def _require_one(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise refusal("name at least one")
    return values


def _require_different(values: tuple[str, ...]) -> tuple[str, ...]:
    twice = [value for number, value in enumerate(values) if value in values[:number]]
    if twice:
        raise refusal("name each of them once", f"{twice[0]} is there twice")
    return values


# pydantic's own limit of a length would be reported beside what is wrong with the items.
NOT_EMPTY = (AfterValidator(_require_one), Field(json_schema_extra={"minItems": 1}))
"""What makes a tuple one that is not empty."""
DIFFERENT = (
    AfterValidator(_require_one),
    AfterValidator(_require_different),
    Field(json_schema_extra={"minItems": 1, "uniqueItems": True}),
)
"""What makes a tuple of texts one that is not empty and has nothing twice."""


def written(key: str, value: Any, *, is_python: bool = False) -> str:
    """Return a key and its value as a user writes them, in one line."""
    if is_python:
        return f"{_spelled(key, is_python)}={_with_underscores(value)!r}"
    text = yaml.safe_dump(
        {key: value}, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000
    )
    return text.strip()[1:-1]


def describe(
    form: type[Form], error: ErrorDetails, name: str, *, is_python: bool
) -> tuple[str, str]:
    """Return what is wrong and what would be right.

    Args:
        form: what the header was checked against.
        error: the first of pydantic's errors.
        name: the innermost key around it; empty if it is in none.
        is_python: whether the header is in a Python file.
    """
    details = error.get("ctx", {})
    what = details.get("what") or _fault(_spelled(name, is_python) or "the header", error)
    if error["type"] == _REFUSED:
        return what, details["do"]
    expected = details.get("expected") or details.get("expected_tags") or ""
    known = re.findall(r"'([^']*)'", expected)
    key = str(error["loc"][0]) if error["loc"] else ""
    examples = form.fields()[key].examples if key in form.fields() else None
    such_as = [
        f"such as `{written(key, example, is_python=is_python)}`"
        for example in (examples or [])[:1]
        if error["type"] not in ("enum", "union_tag_invalid")
    ]
    return what, f"write {' or '.join([*[', '.join(known)][: len(known)], *such_as])}"


def _fault(name: str, error: ErrorDetails) -> str:
    if error["type"].startswith("union_tag"):
        details = error["ctx"]
        key = details["discriminator"].strip("'")
        return f"unknown {key} {details['tag']!r}" if "tag" in details else f"{key} is missing"
    if error["input"] in ("", [], {}):
        return f"{name} is empty"
    return f"{name} cannot be {error['input']!r:.80}"


def _spelled(key: str, is_python: bool) -> str:
    return key.replace("-", "_") if is_python else key


def _with_underscores(value: Any) -> Any:
    if isinstance(value, dict):
        return {_spelled(key, True): _with_underscores(each) for key, each in value.items()}
    return [_with_underscores(each) for each in value] if isinstance(value, list) else value
