"""The SQL that users may write for Spark: an allow-list of plan nodes, expressions and functions.

The list is compared with what Spark's parser makes of a text, before a name is resolved: by then no
catalog, file or class has been asked for. A node that is not listed is rejected, so that what a new
Spark adds is rejected until it is listed here.

==================  ===========================================================================
rejected            because
==================  ===========================================================================
TRANSFORM … USING   it starts a process
(SELECT …) as value it reads what is none of the row's; a SELECT can use a JOIN
range(…) in FROM    a table function makes rows without end
other tables        a definition reads its own tables, and no file or catalog
IDENTIFIER(…)       the name would be known only after this check
reflect, …          functions outside `FUNCTIONS` call Java, read files' names or parse XML
==================  ===========================================================================
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.spark import gateway
from tidemark.spark.gateway import each
from tidemark.user_sql.ansi import ansi
from tidemark.user_sql.functions import FUNCTIONS

_PLAN_NODES = frozenset(
    """
    Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LocalLimit Offset
    OneRowRelation Pivot Project RepartitionByExpression Sample Sort SubqueryAlias Union
    UnresolvedHaving UnresolvedHint UnresolvedInlineTable UnresolvedRelation
    UnresolvedSubqueryColumnAliases UnresolvedWith Unpivot WithWindowDefinition
    """.split()
)
"""`Sample` is listed for a better message: `spark.determinism` rejects it."""
_EXPRESSIONS = frozenset(
    """
    Add AggregateExpression Alias And AnyValue BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen
    Cast Coalesce Concat CreateNamedStruct Cube CurrentRow$ Divide EqualNullSafe EqualTo First
    GreaterThan GreaterThanOrEqual GroupingSets ILike In IntegralDivide IsNotNull
    IsNotUnknown$$anon$2 IsNull IsUnknown$$anon$1
    LambdaFunction Last LessThan LessThanOrEqual Like LikeAll LikeAny Literal Lower MultiAlias
    Multiply NamedArgumentExpression Not NotLikeAll NotLikeAny Or Overlay PercentileCont
    PercentileDisc RLike Remainder Rollup SortOrder SpecifiedWindowFrame StringLocate StringTrim
    StringTrimLeft StringTrimRight Substring Subtract TimestampAdd TimestampDiff UnaryMinus
    UnaryPositive UnboundedFollowing$ UnboundedPreceding$ UnresolvedAlias UnresolvedAttribute
    UnresolvedExtractValue UnresolvedFunction UnresolvedGenerator UnresolvedNamedLambdaVariable
    UnresolvedStar UnresolvedWindowExpression UnspecifiedFrame$ WindowExpression
    WindowSpecDefinition
    """.split()
)
_MOVING = re.compile(r"(?i)^(date|timestamp\w*)\s*['\"]\s*(now|today|tomorrow|yesterday)\b")
"""Literals of which Spark makes the time at which it parses them."""
_MOST_COMMENTS = 100
_SUBQUERIES = frozenset({"Exists", "InSubquery", "LateralSubquery", "ListQuery", "ScalarSubquery"})
_NAMES = {
    "LateralJoin": "LATERAL with a subquery",
    "PlanWithUnresolvedIdentifier": "IDENTIFIER(...)",
    "ExpressionWithUnresolvedIdentifier": "IDENTIFIER(...)",
    "RelationTimeTravel": "a version of a table",
    "ScriptTransformation": "TRANSFORM ... USING",
    "UnresolvedTableValuedFunction": "a table function",
}
"""What users call a node whose name in Spark says little."""


class NotAllowed(ParseException):
    """A text has a construct that is not listed.

    Attributes:
        what: which, in a clause.
        do: the remedy.
    """

    def __init__(self, what: str, do: str, node: Any) -> None:
        """Bind; the message ends with the place of a node, as those of Spark's parser do."""
        origin = node.origin()
        line, column = origin.line(), origin.startPosition()
        place = f" (line {line.get()}, pos {column.get()})" if line.isDefined() else ""
        self.what, self.do = what, do
        super().__init__(message=f"{self.what}: {do}{place}")


def query(spark: SparkSession, sql: str, tables: Collection[str]) -> DataFrame:
    """Return the rows of a SELECT over some of the session's views; nothing is run.

    Raises:
        NotAllowed: it has another construct, or reads another table.
        ParseException: it is no query.
        AnalysisException: a name is unknown, or types do not fit.
    """
    _require_readable(sql)
    parser = gateway.session_of(spark).sessionState().sqlParser()
    # An INSERT or a SET is a plan as well. In parentheses nothing but a query is possible. The
    # SELECT keeps its lines: it starts with as many line ends as its file has above it.
    bracketed = f"SELECT * FROM ({sql}\n)"
    with flat():
        # Without the parentheses first: a syntax error would be described by them.
        parser.parsePlan(sql)
        _require_plan(parser.parsePlan(bracketed), tables)
        with ansi(spark):
            return spark.sql(bracketed)


def expression(spark: SparkSession, sql: str, jar_functions: Collection[str] = ()) -> Column:
    """Return an expression over the columns of a row; `ansi` where it is put into a frame.

    Args:
        spark: the session.
        sql: the text.
        jar_functions: names of functions that the session has beside Spark's own.

    Raises:
        NotAllowed: it has another construct.
        ParseException: it is no expression.
    """
    _require_readable(sql)
    parser = gateway.session_of(spark).sessionState().sqlParser()
    with flat():
        _require_expressions([parser.parseExpression(sql)], jar_functions)
        with ansi(spark):
            return F.expr(sql)


def _require_readable(sql: str) -> None:
    """Reject what Spark's lexer does not survive: comments in comments fill the heap of the JVM.

    Raises:
        ParseException: naming what is wrong.
    """
    if sql.count("/*") > _MOST_COMMENTS:
        raise ParseException(message=f"it has more than {_MOST_COMMENTS} comments")
    try:
        sql.encode()
    except UnicodeEncodeError:
        raise ParseException(message="it has half of a character") from None


@contextmanager
def flat() -> Iterator[None]:
    """Let Spark parse and analyze a text in this block.

    Raises:
        ParseException: that takes more than the JVM's stack, or more rounds than Spark makes.
    """
    try:
        yield
    except Py4JJavaError as error:
        if not re.search("StackOverflowError|Max iterations", error.java_exception.toString()):
            raise
        raise ParseException(message="it is nested too deeply") from None


def _require_plan(plan: Any, tables: Collection[str]) -> None:
    listed = ", ".join(tables)
    only = f"the only table is {listed}" if len(tables) == 1 else f"the tables are {listed}"
    for node, known in _nodes(plan, frozenset(name.lower() for name in tables)):
        kind = _kind(node)
        if kind not in _PLAN_NODES:
            raise NotAllowed(f"{_NAMES.get(kind, kind)} is not allowed", only, node)
        if kind == "UnresolvedRelation":
            parts = each(node.multipartIdentifier())
            if len(parts) > 1 or parts[0].lower() not in known:
                raise NotAllowed(f"unknown table {'.'.join(parts)}", only, node)
        expressions = each(node.expressions())
        if kind == "WithWindowDefinition":
            # Spark does not list what is in a map among a node's expressions.
            expressions += each(node.windowDefinitions().values().toSeq())
        _require_expressions(expressions, ())


def _nodes(plan: Any, tables: frozenset[str]) -> Iterator[tuple[Any, frozenset[str]]]:
    """Return the nodes of a plan, each with the names of the tables that it can mean.

    A common table expression can mean those before it: its own name within it, or a name outside of
    its WITH, would be a table of the catalog.
    """
    plans = [(plan, tables)]
    while plans:
        node, known = plans.pop()
        yield node, known
        if _kind(node) == "UnresolvedWith":
            for relation in each(node.innerChildren()):
                plans.append((relation, known))
                known |= {str(relation.alias()).lower()}
        plans += [(child, known) for child in each(node.children())]


def _require_expressions(expressions: list[Any], jar_functions: Collection[str]) -> None:
    while expressions:
        expression = expressions.pop()
        expressions += each(expression.children())
        kind = _kind(expression)
        if kind in _SUBQUERIES:
            what = "a subquery in an expression is not allowed"
            raise NotAllowed(what, "use a JOIN in a SELECT", expression)
        if kind not in _EXPRESSIONS:
            what = f"{_NAMES.get(kind, kind)} is not allowed"
            raise NotAllowed(what, "use another expression", expression)
        if kind == "Literal" and _MOVING.search(_text_of(expression)):
            what = f"{_text_of(expression)} is not allowed, since it is another time in each run"
            do = "write the time; a check may call current_timestamp()"
            raise NotAllowed(what, do, expression)
        if kind == "UnresolvedFunction":
            _require_function(expression, each(expression.nameParts()), jar_functions)
        if kind == "UnresolvedGenerator":
            _require_function(expression, [expression.name().unquotedString()], jar_functions)


def _text_of(literal: Any) -> str:
    origin = literal.origin()
    parts = origin.sqlText(), origin.startIndex(), origin.stopIndex()
    if not all(part.isDefined() for part in parts):
        return ""
    text, start, stop = (part.get() for part in parts)
    return str(text)[start : stop + 1]


def _require_function(expression: Any, parts: list[str], jar_functions: Collection[str]) -> None:
    name = ".".join(parts)
    if name.lower() in FUNCTIONS or name in jar_functions:
        return
    near = difflib.get_close_matches(name.lower(), FUNCTIONS, 1, cutoff=0.8)
    do = f"write {near[0]}" if near else "use a function that docs/user-sql.md lists"
    raise NotAllowed(f"the function {name} is not allowed", do, expression)


def _kind(node: Any) -> str:
    return str(node.getClass().getName()).rpartition(".")[2]
