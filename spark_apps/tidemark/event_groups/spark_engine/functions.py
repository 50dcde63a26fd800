"""The functions of JARs in Spark: registered for a session's SQL, and found by its jobs."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark.event_groups.external.jars import JarFunctions
from tidemark.event_groups.failure import EventFailed
from tidemark.event_groups.spark_engine.failure import cause
from tidemark.spark import gateway
from tidemark.spark.isolated_jars import IsolatedJars
from tidemark.user_sql.refusal import sentence


def registered(spark: SparkSession, functions: JarFunctions) -> IsolatedJars:
    """Register functions with a session; return the JARs that its jobs need for them."""
    jars = IsolatedJars(spark, functions.jars)
    for name, java_class in functions.classes.items():
        register(spark, jars, name, java_class)
    return jars


def register(spark: SparkSession, jars: IsolatedJars, name: str, java_class: str) -> None:
    """Register a class of the JARs with a session under a name.

    Raises:
        EventFailed: Spark rejects it.
    """
    try:
        jars.register(spark, name, java_class)
    except PySparkException as error:
        raise EventFailed(f"the function {name}: {sentence(error)}") from None
    except Py4JJavaError as error:
        what = f"the function {name}: {java_class} cannot be made: {cause(error)}"
        raise EventFailed(what) from None


def is_built_in(spark: SparkSession, name: str) -> bool:
    """Tell whether Spark has a built-in function of this name."""
    identifier = gateway.named(spark, "org.apache.spark.sql.catalyst.FunctionIdentifier")(name)
    registries = gateway.named(spark, "org.apache.spark.sql.catalyst.analysis.FunctionRegistry$")
    return bool(registries.builtin().functionExists(identifier))
