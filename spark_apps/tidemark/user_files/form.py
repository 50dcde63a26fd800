"""Pydantic models for headers, and their errors as one line with a remedy."""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Mapping
from typing import Annotated, Any, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""A text that is not empty after its surrounding blanks are stripped."""
BY_SHAPE = Discriminator(lambda value: "text" if isinstance(value, str | int) else "mapping")
"""The discriminator between a short form, tagged `text`, and a long form, tagged `mapping`."""
_REFUSED = "refused"
_REMEDIES = {
    "enum": "write {expected}",
    "literal_error": "write {expected}",
    "union_tag_invalid": "write a kind such as {expected_tags}",
    "union_tag_not_found": "name its kind",
    "int_parsing": "write a whole number",
    "int_type": "write a whole number",
    "bool_parsing": "write true or false",
    "date_from_datetime_parsing": "write a day such as 2024-01-31",
    "greater_than_equal": "write at least {ge}",
    "less_than_equal": "write at most {le}",
    "string_type": "write a text",
    "string_too_short": "write a text",
    "string_pattern_mismatch": "write it in the right form",
    "tuple_type": "write a list",
    "dict_type": "write a mapping",
    "too_short": "name at least one",
    "model_type": "write a mapping",
}
"""The remedy for each of pydantic's error types."""


def refusal(do: str, what: str = "", key: str = "") -> PydanticCustomError:
    """Return an error of a validator.

    Args:
        do: remedy for the user.
        what: description of the problem; by default, that the value cannot be used.
        key: faulty key; empty if the whole value is wrong.
    """
    # The context holds the user's text, because pydantic would fill in braces in the message.
    return PydanticCustomError(_REFUSED, "refused", {"what": what, "do": do, "key": key})


def _require_different(values: tuple[str, ...]) -> tuple[str, ...]:
    repeated = [value for number, value in enumerate(values) if value in values[:number]]
    if repeated:
        raise refusal("name each of them once", f"{repeated[0]} is there twice")
    return values


EACH_ONCE = AfterValidator(_require_different)
"""Annotation of a tuple of texts that must be distinct; the tuple may be empty."""
DIFFERENT = (
    EACH_ONCE,
    Field(min_length=1, json_schema_extra={"uniqueItems": True}),
)
"""Annotations of a tuple of texts that must be distinct; the tuple must not be empty."""
Texts = Annotated[tuple[Text, ...], *DIFFERENT]


class HeaderModel(BaseModel):
    """A mapping with known keys; a key has `-` where its attribute has `_`."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.rstrip("_").replace("_", "-"),
    )

    @classmethod
    def fields(cls) -> dict[str, FieldInfo]:
        """Return the field of each key."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    @classmethod
    def required(cls, _value: Mapping[str, Any]) -> set[str]:
        """Return the keys that a mapping must have."""
        return {key for key, field in cls.fields().items() if field.is_required()}

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
        required = cls.required(value)
        for key, field in fields.items():
            if key in required and key not in value:
                example = _written(key, (field.examples or ["..."])[0], is_python)
                raise refusal(f"add `{example}`", f"{_spelled(key, is_python)} is missing")
        return value


class OneKey(HeaderModel):
    """A mapping with exactly one of its keys, which names the kind of the value."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    @model_validator(mode="after")
    def _require_one_key(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise refusal(f"write exactly one of {', '.join(self.fields())}")
        return self


def describe(
    form: type[HeaderModel], error: ErrorDetails, name: str, *, is_python: bool
) -> tuple[str, str]:
    """Return the description and the remedy of an error.

    Args:
        form: form of the header.
        error: an error from pydantic.
        name: innermost key around the error; empty if there is none.
        is_python: whether the header is in a Python file.
    """
    details, value = error.get("ctx", {}), error["input"]
    name = _spelled(name, is_python) or "the header"
    what = details.get("what") or (
        f"{name} is empty" if value in ("", [], {}) else f"{name} cannot be {value!r:.80}"
    )
    if error["type"] == _REFUSED:
        return what, details["do"]
    remedy = _REMEDIES.get(error["type"])
    do = remedy.format_map(details) if remedy else error["msg"]
    key = str(error["loc"][0]) if error["loc"] else ""
    examples = form.fields()[key].examples if key in form.fields() else None
    if error["type"] == "enum" or not examples:
        return what, do
    return what, f"{do}, such as `{_written(key, examples[0], is_python)}`"


def _written(key: str, value: Any, is_python: bool) -> str:
    """Return a key and its value on one line, as a user writes them."""
    if is_python:
        return f"{_spelled(key, is_python)}={_with_underscores(value)!r}"
    text = yaml.safe_dump(
        {key: value}, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000
    )
    return text.strip()[1:-1]


def _spelled(key: str, is_python: bool) -> str:
    """Return a key as the file spells it; a key that is a Python keyword gets a trailing `_`."""
    if not is_python:
        return key
    name = key.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def _with_underscores(value: Any) -> Any:
    if isinstance(value, dict):
        return {_spelled(key, True): _with_underscores(item) for key, item in value.items()}
    return [_with_underscores(item) for item in value] if isinstance(value, list) else value
