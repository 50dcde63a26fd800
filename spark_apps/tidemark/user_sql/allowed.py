"""The SQL that users may write for Spark: an allow-list of plan nodes, expressions and functions.

Spark's parsed plan is compared with the list before names are resolved, so that no catalog, file or
class has been accessed yet. A node that is not listed is rejected, so that additions of a new Spark
version are rejected until they are listed here.

==================  ===========================================================================
rejected            because
==================  ===========================================================================
TRANSFORM … USING   it starts a process
(SELECT …) as value it reads data outside of the row; a SELECT can use a JOIN
range(…) in FROM    a table function can make any number of rows
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
"""Literals that Spark replaces by the time of parsing."""
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
"""Names for users, of nodes whose name in Spark says little."""


class NotAllowed(ParseException):
    """A text has a construct that is not listed.

    Attributes:
        what: the construct, in a clause.
        do: the remedy.
    """

    def __init__(self, what: str, do: str, node: Any) -> None:
        """Make a message that ends with the node's place, like those of Spark's parser."""
        origin = node.origin()
        line, column = origin.line(), origin.startPosition()
        place = f" (line {line.get()}, pos {column.get()})" if line.isDefined() else ""
        self.what, self.do = what, do
        super().__init__(message=f"{self.what}: {do}{place}")


def query(spark: SparkSession, sql: str, tables: Collection[str]) -> DataFrame:
    """Return the rows of a SELECT over some of the session's views, without running it.

    Raises:
        NotAllowed: the text has a construct that is not listed, or reads another table.
        ParseException: the text is no query.
        AnalysisException: a name is unknown, or types do not fit.
    """
    _require_readable(sql)
    parser = gateway.session_of(spark).sessionState().sqlParser()
    # An INSERT or a SET is a plan as well, but only a query can stand in parentheses. Line numbers
    # stay right, because the SELECT is padded with line ends to its place in the file.
    bracketed = f"SELECT * FROM ({sql}\n)"
    with flat():
        # Without parentheses first, since Spark would mention them in a syntax error.
        parser.parsePlan(sql)
        _require_plan(parser.parsePlan(bracketed), tables)
        with ansi(spark):
            return spark.sql(bracketed)


def expression(spark: SparkSession, sql: str, jar_functions: Collection[str] = ()) -> Column:
    """Return an expression over the columns of a row; use it in a frame inside `ansi`.

    `jar_functions` are names of functions that the session has in addition to Spark's own.

    Raises:
        NotAllowed: the text has a construct that is not listed.
        ParseException: the text is no expression.
    """
    _require_readable(sql)
    parser = gateway.session_of(spark).sessionState().sqlParser()
    with flat():
        _require_expressions([parser.parseExpression(sql)], jar_functions)
        with ansi(spark):
            return F.expr(sql)


def _require_readable(sql: str) -> None:
    """Reject text that breaks Spark's lexer: nested comments fill the heap of the JVM."""
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
        ParseException: the text is nested too deeply for the JVM's stack or Spark's iterations.
    """
    try:
        yield
    except Py4JJavaError as error:
        if not re.search("StackOverflowError|Max iterations", error.java_exception.toString()):
            raise
        raise ParseException(message="it is nested too deeply") from None


def _require_plan(plan: Any, tables: Collection[str]) -> None:
    table_list = ", ".join(tables)
    only = f"the only table is {table_list}" if len(tables) == 1 else f"the tables are {table_list}"
    for node, readable in _nodes(plan, frozenset(name.lower() for name in tables)):
        kind = _kind(node)
        if kind not in _PLAN_NODES:
            raise NotAllowed(f"{_NAMES.get(kind, kind)} is not allowed", only, node)
        if kind == "UnresolvedRelation":
            parts = each(node.multipartIdentifier())
            if len(parts) > 1 or parts[0].lower() not in readable:
                raise NotAllowed(f"unknown table {'.'.join(parts)}", only, node)
        expressions = each(node.expressions())
        if kind == "WithWindowDefinition":
            # Spark's list of a node's expressions lacks those that it holds in a map.
            expressions += each(node.windowDefinitions().values().toSeq())
        _require_expressions(expressions, ())


def _nodes(plan: Any, tables: frozenset[str]) -> Iterator[tuple[Any, frozenset[str]]]:
    """Return the nodes of a plan, each with the names of the tables that it can read.

    A common table expression can read those before it. Its own name within it, and its name outside
    of its WITH, would mean a table of the catalog.
    """
    plans = [(plan, tables)]
    while plans:
        node, readable = plans.pop()
        yield node, readable
        if _kind(node) == "UnresolvedWith":
            for relation in each(node.innerChildren()):
                plans.append((relation, readable))
                readable |= {str(relation.alias()).lower()}
        plans += [(child, readable) for child in each(node.children())]


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
