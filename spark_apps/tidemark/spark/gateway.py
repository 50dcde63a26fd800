"""Spark's Scala API, through pyspark's gateway.

No other module uses `_jvm`, `_jdf` and the like: if Spark moves them, only this module changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType


def jvm(spark: SparkSession) -> Any:
    """Return the session's JVM, whose packages are attributes."""
    return spark._jvm


def session_of(spark: SparkSession) -> Any:
    """Return Scala's SparkSession."""
    return spark._jsparkSession


def context_of(spark: SparkSession) -> Any:
    """Return Java's SparkContext."""
    return spark.sparkContext._jsc


def connection(context: SparkContext) -> Any:
    """Return the gateway, which outlives the session."""
    return context._gateway


def dataset(frame: DataFrame) -> Any:
    """Return Scala's Dataset."""
    return frame._jdf


def analyzed_plan(frame: DataFrame) -> Any:
    """Return the frame's logical plan with all names resolved; nothing is run."""
    return frame._jdf.queryExecution().analyzed()


def executed_plan(frame: DataFrame) -> str:
    """Return the frame's physical plan as text; nothing is run."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


def named(spark: SparkSession, path: str) -> Any:
    """Return a package, a class, or (if `path` ends with `$`) a Scala object of the JVM."""
    member = jvm(spark)
    for part in path.split("."):
        member = getattr(member, part)
    return getattr(member, "MODULE$") if path.endswith("$") else member


def leaf(frame: DataFrame, partitioned_by: Sequence[str] = ()) -> DataFrame:
    """Return a frame of the same rows whose plan is only their RDD.

    Spark goes through the complete plan of a frame for each frame derived from it. To be computed
    only once, the frame must be kept (`read_once`). `partitioned_by` are columns by which
    `repartition` has partitioned the rows, into a given number of partitions; grouping or joining
    by them then needs no other shuffle.
    """
    session = frame.sparkSession
    rows = frame._jdf.queryExecution().toRdd()
    if not partitioned_by:
        dataset = session_of(session).internalCreateDataFrame(rows, frame._jdf.schema(), False)
        return DataFrame(dataset, session)
    output = frame._jdf.queryExecution().analyzed().output()
    columns = {column.name(): column for column in each(output)}
    plans = "org.apache.spark.sql.catalyst.plans.physical"
    keys = sequence(session, [columns[name] for name in partitioned_by])
    partitioning = named(session, plans).HashPartitioning(keys, rows.getNumPartitions())
    nothing = named(session, "scala.Option").empty()
    plan = named(session, "org.apache.spark.sql.execution").LogicalRDD(
        *(output, rows, partitioning, sequence(session, ()), False),
        *(session_of(session), nothing, nothing),
    )
    dataset = named(session, "org.apache.spark.sql.Dataset").ofRows(session_of(session), plan)
    return DataFrame(dataset, session)


def each(sequence: Any) -> list[Any]:
    """Return the elements of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]


def sequence(spark: SparkSession, items: Iterable[Any]) -> Any:
    """Return a Scala sequence of the items."""
    java_list = named(spark, "java.util").ArrayList()
    for item in items:
        java_list.add(item)
    converters = named(spark, "scala.collection.JavaConverters")
    return converters.asScalaBufferConverter(java_list).asScala().toSeq()


def array(spark: SparkSession, name: str, items: Sequence[Any]) -> Any:
    """Return a Java array of a class by its full name."""
    java_array = connection(spark.sparkContext).new_array(named(spark, name), len(items))
    for index, item in enumerate(items):
        java_array[index] = item
    return java_array


def class_tag(spark: SparkSession, name: str) -> Any:
    """Return Scala's ClassTag of a class by its full name."""
    loader = jvm(spark).java.lang.Thread.currentThread().getContextClassLoader()
    return named(spark, "scala.reflect.ClassTag$").apply(loader.loadClass(name))


def frame_of(spark: SparkSession, rows: Any, schema: StructType) -> DataFrame:
    """Return a frame of Scala's RDD of internal rows."""
    dataset = session_of(spark).internalCreateDataFrame(rows, struct(spark, schema), False)
    return DataFrame(dataset, spark)


def struct(spark: SparkSession, schema: StructType) -> Any:
    """Return Scala's form of a schema."""
    return named(spark, "org.apache.spark.sql.types").DataType.fromJson(schema.json())


def tried(spark: SparkSession, column: Column) -> Column:
    """Return a column that is null where evaluating the given one is an error."""
    package = "org.apache.spark.sql.catalyst.expressions"
    return Column(
        named(spark, "org.apache.spark.sql").Column(
            named(spark, package).TryEval(column._jc.expr())
        )
    )


def clone(spark: SparkSession) -> SparkSession:
    """Return a session that starts with the same settings, whose later changes affect only it."""
    return SparkSession(spark.sparkContext, session_of(spark).cloneSession())
