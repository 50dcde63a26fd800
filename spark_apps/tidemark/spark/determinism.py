"""Whether the user's SQL gives the same result each time that it is asked.

What is processed again after a crash must have the same rows, and an event must have the same tags.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidemark.spark import gateway
from tidemark.spark.gateway import each

_OF_THE_RUN = {
    "CurrentDate",
    "CurrentTimestamp",
    "CurrentUser",
    "InputFileName",
    "LocalTimestamp",
    "Now",
}
"""When, where and by whom a query is run: to Spark they are constants of it, so that it takes them
for deterministic."""
_PLANS = {"Sample"}
_RANDOM = "org.apache.spark.sql.catalyst.expressions.Nondeterministic"
_SUBQUERY = "org.apache.spark.sql.catalyst.expressions.PlanExpression"


def unrepeatable(frame: DataFrame) -> list[str]:
    """The functions in a frame's plan whose value is another one each time; nothing is run.

    Such as `rand`, `uuid` or `current_timestamp`, by Spark's names, each once.
    """
    jvm = gateway.jvm(frame.sparkSession)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    random = loader.loadClass(_RANDOM)
    subquery = loader.loadClass(_SUBQUERY)
    found = set[str]()
    plans = [gateway.analyzed_plan(frame)]
    while plans:
        plan = plans.pop()
        plans += each(plan.children())
        if (name := str(plan.nodeName())) in _PLANS:
            found.add(name.lower())
        expressions = each(plan.expressions())
        while expressions:
            one = expressions.pop()
            expressions += each(one.children())
            if subquery.isInstance(one):
                plans.append(one.plan())
            kind = one.getClass().getSimpleName()
            is_udf = kind == "PythonUDF" and not one.udfDeterministic()
            if is_udf or kind in _OF_THE_RUN or random.isInstance(one):
                found.add(str(one.name() if is_udf else one.prettyName()))
    return sorted(found)
