"""Imports and calls the user's function; errors have the line of the user's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemark.errors import DefinitionError
from tidemark.project.definition.model import Definition
from tidemark.project.definition.query import Function
from tidemark.spark.python_workers import prepare_python_workers
from tidemark.user_sql.refusal import sentence


def require_loadable(spark: SparkSession, definition: Definition) -> None:
    """Import the module of a definition's function, and prepare Spark's Python workers.

    Raises:
        DefinitionError: the import fails.
    """
    body = definition.body
    if isinstance(body, Function):
        _load(definition, body)
        prepare_python_workers(spark)


def result(
    definition: Definition, body: Function, events: DataFrame, tables: Mapping[str, DataFrame]
) -> DataFrame:
    """Call the user's function with `events`, and the definition's tables as named arguments.

    Raises:
        DefinitionError: the function raises, or does not return a DataFrame.
    """
    function = _load(definition, body)
    try:
        returned = function(events, **tables)
    except Exception as error:
        columns = f"the columns of {definition.source.input} are {', '.join(events.columns)}"
        remedy = columns if isinstance(error, PySparkException) else "correct it"
        raise _refused(definition, body, f"{body.name} fails", error, remedy) from None
    if not isinstance(returned, DataFrame):
        what = f"{body.name} returns {type(returned).__name__}, not a Spark DataFrame"
        raise definition.error(what, "return what it makes of events", body.line)
    return returned


def _load(definition: Definition, body: Function) -> Callable[..., Any]:
    try:
        module = body.sources.load(body.module)
        function = getattr(module, body.name)
    except Exception as error:
        what = f"{definition.file.name} cannot be imported"
        raise _refused(definition, body, what, error, "correct it") from None
    for loaded_module in body.sources.loaded():
        # Pickle the code of the user's UDFs with them, because workers do not have the files.
        cloudpickle.register_pickle_by_value(loaded_module)  # type: ignore[no-untyped-call]
    return function  # type: ignore[no-any-return]


def _refused(
    definition: Definition, body: Function, what: str, error: Exception, remedy: str
) -> DefinitionError:
    """Return an error at the line of the definition that raised, or else at its decorator."""
    file, line = body.sources.place_of(error) or (definition.file, body.line)
    message = sentence(error) if isinstance(error, PySparkException) else str(error)
    described = f"{what}: {type(error).__name__}: {message}"
    if file == definition.file:
        return definition.error(described, remedy, line)
    return definition.error(f"{described} ({file.name}:{line})", remedy, body.line)
