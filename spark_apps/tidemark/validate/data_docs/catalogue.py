"""The expectations of Great Expectations that users may have of a SELECT's result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tidemark.validate.data_docs import quiet_gx

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation as Model

ROW_COUNTS = ("expect_table_row_count_to_be_between", "expect_table_row_count_to_equal")
"""The types that apply to a time bucket without rows."""
_BOUNDS = frozenset({"min_value", "max_value"})
_COLUMNS = ("column", "column_A", "column_B", "column_list")
_NO_KWARGS = frozenset({"batch_id", "row_condition", "condition_parser", "library_metadata"})
"""Fields of some types that users may not set; the SELECT states the conditions on rows."""
_MAPPINGS = frozenset({"quantile_ranges"})
_UNFIT = frozenset(
    {
        # The types of the result are stated by the SELECT.
        "expect_column_values_to_be_of_type",
        "expect_column_values_to_be_in_type_list",
        # Great Expectations has them for SQL only.
        "expect_column_values_to_match_like_pattern",
        "expect_column_values_to_match_like_pattern_list",
        "expect_column_values_to_not_match_like_pattern",
        "expect_column_values_to_not_match_like_pattern_list",
        # Their arguments are documents.
        "expect_column_kl_divergence_to_be_less_than",
        "expect_column_values_to_match_json_schema",
    }
)
_NEEDED = frozenset({"regex"})
"""Arguments without which a type accepts every value."""
_COMPARE_ROWS = frozenset(
    {
        "expect_column_value_z_scores_to_be_less_than",
        "expect_column_values_to_be_decreasing",
        "expect_column_values_to_be_increasing",
        "expect_column_values_to_be_unique",
        "expect_column_values_to_not_be_outliers",
        "expect_compound_columns_to_be_unique",
    }
)
"""Types whose verdict on a row depends on other rows."""


@dataclass(frozen=True)
class ExpectationType:
    """A type of expectation.

    Attributes:
        name: in snake_case, as Great Expectations stores it.
        model: its class.
        kwargs: the names of its arguments, the required ones first.
        required: the names of its required arguments.
        names_rows: whether its result lists the rows that do not meet it.
    """

    name: str
    model: type[Model]
    kwargs: tuple[str, ...]
    required: tuple[str, ...]
    names_rows: bool

    def refusal(self, kwargs: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return which argument is wrong ("" for their combination) and why; None if all are right.

        Before, check that the names of the arguments are known and no required argument is missing.
        """
        from great_expectations.compatibility.pydantic import ValidationError

        for name, value in kwargs.items():
            if isinstance(value, dict) and name not in _MAPPINGS:
                return name, "a mapping"
            if name in _NEEDED and (why := _no_pattern(value)):
                return name, why
        if set(self.kwargs) >= _BOUNDS and _BOUNDS.isdisjoint(kwargs):
            return "", "min_value and max_value are missing"
        try:
            self.model(**kwargs)
        except ValidationError as error:
            problem = error.errors()[0]
            name = str(problem["loc"][0])
            return (name if name in kwargs else ""), str(problem["msg"]).rstrip(".")
        return None


@dataclass(frozen=True)
class Expectation:
    """An expectation of a table: its type and its arguments."""

    kind: ExpectationType
    kwargs: Mapping[str, Any]

    @property
    def columns(self) -> dict[str, str]:
        """The columns that the expectation refers to, each with the argument that names it."""
        return {
            str(column): argument
            for argument in _COLUMNS
            if argument in self.kwargs
            for column in _listed(self.kwargs[argument])
        }

    @property
    def is_by_row(self) -> bool:
        """Whether the verdict on a row does not depend on other rows."""
        return (
            self.kind.names_rows
            and self.kind.name not in _COMPARE_ROWS
            and "mostly" not in self.kwargs
        )

    def __str__(self) -> str:
        """Return the text for people."""
        return f"{self.kind.name}({', '.join(f'{k}={v}' for k, v in self.kwargs.items())})"

    def as_model(self, index: int) -> Model:
        """Return the object of Great Expectations; its result has the index in `meta`."""
        return self.kind.model(**self.kwargs, meta={"place": index})


def _no_pattern(value: Any) -> str:
    """Return why a value is not a regular expression; empty if it is one."""
    if not isinstance(value, str):
        return "not a text"
    try:
        re.compile(value)
    except re.error as error:
        return f"no regular expression: {error}"
    return ""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@cache
def expectation_types() -> Mapping[str, ExpectationType]:
    """Return the types by name, sorted."""
    quiet_gx.silence()
    from great_expectations.expectations import core, expectation

    row_types = (
        expectation.ColumnMapExpectation,
        expectation.ColumnPairMapExpectation,
        expectation.MulticolumnMapExpectation,
    )
    column_types = (*row_types, expectation.ColumnAggregateExpectation)
    excluded = _NO_KWARGS | set(expectation.Expectation.__fields__)
    types = {}
    for model in vars(core).values():
        if not isinstance(model, type) or not issubclass(model, expectation.Expectation):
            continue
        name = model.expectation_type
        if name in _UNFIT or not (name in ROW_COUNTS or (name and issubclass(model, column_types))):
            continue
        fields = {key: field for key, field in model.__fields__.items() if key not in excluded}
        required = tuple(key for key, field in fields.items() if field.required or key in _NEEDED)
        kwargs = (*required, *(key for key in fields if key not in required))
        types[name] = ExpectationType(name, model, kwargs, required, issubclass(model, row_types))
    return dict(sorted(types.items()))
