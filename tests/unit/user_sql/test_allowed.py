"""What users' SQL may hold, wherever SQL is accepted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from tests.repository import REPOSITORY
from tests.unit.project.test_analysis import HEADER
from tests.unit.validate.test_user_checks import OF_MESSAGES, loaded
from tidemark.errors import DefinitionError
from tidemark.event_groups.definition import many, result_sql, result_worker, statement
from tidemark.event_groups.definition.model import Need
from tidemark.event_groups.spark_engine import rows
from tidemark.event_groups.spark_engine.shapes import KEPT
from tidemark.project.analysis import analyze
from tidemark.project.definition.file import read
from tidemark.project.transformation import result_checks
from tidemark.spark import gateway
from tidemark.spark.shapes import ddl
from tidemark.tag_write import rules
from tidemark.user_sql import allowed
from tidemark.user_sql.functions import FUNCTIONS
from tidemark.validate.user_checks.evaluate import require_usable

TIMEOUT_S = 60
EXPRESSIONS = (
    "(SELECT max(o) FROM (SELECT TRANSFORM('x') USING 'id' AS (o STRING)))",
    "(FROM (SELECT 1 AS a) MAP a USING 'id' AS o)",
    "(FROM (SELECT 1 AS a) REDUCE a USING 'id' AS o)",
    "(WITH x AS (SELECT TRANSFORM('x') USING 'id' AS (o STRING)) SELECT max(o) FROM x)",
    "(SELECT 1)",
    "(SELECT max(id) FROM range(1000000000000))",
    "(VALUES (1))",
    "(TABLE events)",
    "(FROM events SELECT 1)",
    "EXISTS (SELECT 1)",
    "1 IN (SELECT 1)",
    "1 NOT IN (SELECT id FROM range(3))",
    "(1, 2) IN (SELECT 1, 2)",
    "NOT EXISTS (SELECT 1 FROM VALUES (1))",
    "CASE WHEN (SELECT true) THEN 1 END",
    "array((SELECT 1))",
    "struct((SELECT 1) AS a)",
    "named_struct('a', (SELECT 1))",
    "transform(array(1), x -> (SELECT 1))",
    "exists(array(1), x -> reflect('java.lang.System', 'nanoTime') > '0')",
    "coalesce(NULL, EXISTS (SELECT 1))",
    "count(*) FILTER (WHERE EXISTS (SELECT 1))",
    "sum(1) OVER (PARTITION BY (SELECT 1))",
    "sum(1) OVER (ORDER BY reflect('java.lang.System', 'getenv', 'PATH'))",
    "reflect('java.lang.System', 'getProperty', 'user.home')",
    "java_method('java.lang.System', 'getenv', 'PATH')",
    "JAVA_METHOD('java.lang.System', 'exit', 1)",
    "`reflect`('java.lang.System', 'getenv', 'PATH')",
    "try_reflect('java.lang.System', 'exit', 1)",
    "IDENTIFIER('reflect')('java.lang.System', 'getenv', 'PATH')",
    "IDENTIFIER('abs')(1)",
    "IDENTIFIER('kind')",
    "spark_catalog.default.run('x')",
    "system.builtin.abs(1)",
    "input_file_name()",
    "input_file_block_start()",
    "input_file_block_length()",
    "current_catalog()",
    "current_database()",
    "current_schema()",
    "version()",
    "user()",
    "spark_partition_id()",
    "xpath_string('<a/>', 'a')",
    "xpath('<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a>&b;</a>', 'a/text()')",
    "ttl(kind)",
    "writetime(kind)",
    "read_files('/etc/passwd')",
    "nofun(1)",
    ":name",
    "?",
)
"""Expressions that Spark's parser takes, or not, and that no place may evaluate."""
ONLY_SPARK = ("timestamp 'now'", "DATE'today'")
"""Times of the parsing in Spark. What DuckDB makes of them is stored before it is used."""
ONLY_DUCKDB = (
    "(SELECT max(content) FROM read_text('/etc/passwd'))",
    "(SELECT count(*) FROM '/etc/passwd')",
    "(SELECT max(column0) FROM read_csv('http://127.0.0.1:1/'))",
    "1 FROM read_text('/etc/passwd')",
    "1 FROM result LIMIT 1",
    "1; COPY result TO '/tmp/broken_in'",
    "a IN (FROM result)",
    "a = ANY (SELECT 1)",
    "sum(a) OVER (ORDER BY (SELECT 1))",
    "list(a) OVER ()",
    "sum(a ORDER BY (SELECT 1))",
    "count(*) FILTER (EXISTS (SELECT 1))",
    "[x FOR x IN range(1000000000)]",
    "list_transform([1], x -> x)",
    "list_resize([1], 1000000000)",
    "repeat('x', 4000000000)",
    "format('{:>1000000000}', 'x')",
    "printf('%1000000000d', 1)",
    "getenv('PATH')",
    "getvariable('a')",
    "current_setting('memory_limit')",
    "pg_sleep(10)",
    "sleep_ms(10000)",
    "write_log('a')",
    "nextval('a')",
    "setseed(1)",
    "query('SELECT 1')",
    "json_execute_serialized_sql('')",
    "json_serialize_sql('SELECT 1')",
    "unnest([1])",
    "generate_series(1, 1000000000)",
    "COLUMNS(*)",
    "*",
    "#1",
    "$1",
    "DEFAULT",
    "a::INT[1000000]",
    "CAST(a AS STRUCT(b INT))",
    "system.main.pg_sleep(1)",
    "a COLLATE de",
    "uuid()",
)
"""Expressions that DuckDB would take, beside those of Spark."""
QUERIES = (
    "SELECT TRANSFORM(persistence_id) USING 'id' AS (time_bucket STRING) FROM {table}",
    "SELECT TRANSFORM(*) USING 'id' FROM {table}",
    "SELECT MAP persistence_id USING 'id' AS o FROM {table}",
    "SELECT REDUCE persistence_id USING 'id' AS o FROM {table}",
    "SELECT a.* FROM (SELECT TRANSFORM(persistence_id) USING 'id' AS (o STRING) FROM {table}) a",
    "WITH x AS (SELECT TRANSFORM(persistence_id) USING 'id' AS (o STRING) FROM {table})"
    " SELECT * FROM x",
    "WITH x AS (WITH y AS (SELECT TRANSFORM(persistence_id) USING 'id' AS (o STRING) FROM {table})"
    " SELECT * FROM y) SELECT * FROM x",
    "SELECT * FROM {table} UNION ALL SELECT TRANSFORM('x') USING 'id' AS (o STRING)",
    "SELECT * FROM {table} JOIN (SELECT TRANSFORM('x') USING 'id' AS (o STRING)) ON true",
    "SELECT * FROM range(1000000000000)",
    "SELECT * FROM {table}, range(9) AS r",
    "SELECT * FROM {table} JOIN range(9) AS r ON true",
    "SELECT * FROM explode(array(1))",
    "SELECT * FROM sql_keywords()",
    "SELECT * FROM {table} LATERAL VIEW nofun(1) x AS y",
    "SELECT * FROM {table}, LATERAL (SELECT TRANSFORM('x') USING 'id' AS (o STRING))",
    "SELECT * FROM {table}, LATERAL range(persistence_id)",
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM csv.`/etc/passwd`",
    "SELECT * FROM json.`/etc/passwd`",
    "SELECT * FROM parquet.`/tmp`",
    "SELECT * FROM orc.`/tmp`",
    "SELECT * FROM avro.`/tmp`",
    "SELECT * FROM binaryFile.`/etc/passwd`",
    "SELECT * FROM delta.`/tmp`",
    "SELECT * FROM jdbc.`jdbc:derby:memory`",
    "SELECT * FROM `/etc/passwd`",
    "SELECT * FROM other",
    "WITH other AS (SELECT * FROM other) SELECT * FROM other",
    "SELECT * FROM (WITH other AS (SELECT 1 AS a) SELECT * FROM other) JOIN other",
    "WITH a AS (SELECT * FROM b), b AS (SELECT 1 AS c) SELECT * FROM a",
    "SELECT * FROM spark_catalog.default.other",
    "SELECT * FROM global_temp.{table}",
    "SELECT * FROM cassandra.tidemark.run",
    "SELECT * FROM IDENTIFIER('{table}')",
    "SELECT * FROM {table} VERSION AS OF 1",
    "SELECT * FROM {table} TIMESTAMP AS OF '2026-01-01'",
    "SELECT * FROM {table} PIVOT (max(reflect('java.lang.System', 'getenv', 'PATH'))"
    " FOR persistence_id IN ('a'))",
    "SELECT * FROM {table} WINDOW w AS"
    " (PARTITION BY reflect('java.lang.System', 'getenv', 'PATH'))",
    "SELECT * FROM {table} ORDER BY (SELECT 1)",
    "SELECT * FROM {table} LIMIT (SELECT 1)",
    "SELECT * FROM {table} DISTRIBUTE BY java_method('java.lang.System', 'getenv', 'PATH')",
    "SELECT persistence_id FROM {table} GROUP BY ALL HAVING EXISTS (SELECT 1)",
    "SELECT * FROM {table} WHERE persistence_id = ANY (SELECT 1)",
    "SELECT * FROM VALUES (reflect('java.lang.System', 'getenv', 'PATH')) AS v(a)",
    "WITH x AS (SELECT 1 AS a) INSERT INTO TABLE {table} SELECT a FROM x",
    "FROM {table} INSERT OVERWRITE DIRECTORY '/tmp/broken_in' USING csv SELECT 1",
    "SELECT 1; DROP TABLE {table}",
    "SELECT 1) UNION (SELECT TRANSFORM('x') USING 'id' AS (o STRING)",
    "CREATE TEMPORARY FUNCTION f AS 'a.B' USING JAR '/tmp/a.jar'",
    "ADD JAR '/tmp/a.jar'",
    "SET spark.sql.runSQLOnFiles=true",
    "CACHE TABLE x AS SELECT 1",
    "TABLE {table}",
    "DESCRIBE {table}",
    "EXPLAIN SELECT 1",
)
"""SELECTs, and what is none, that no definition may have."""
NOT_LISTED = {
    "misc_funcs": {
        *("current_catalog", "current_database", "current_schema", "current_user", "java_method"),
        *("input_file_block_length", "input_file_block_start", "input_file_name", "reflect"),
        *("spark_partition_id", "user", "version"),
    },
    "xml_funcs": {
        *("xpath", "xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long"),
        *("xpath_number", "xpath_short", "xpath_string"),
    },
}
"""Spark's functions that users' SQL may not call, by Spark's groups. What a new Spark adds is to be
listed here or in `FUNCTIONS`."""


def rejected(refusal: pytest.ExceptionInfo[Exception]) -> None:
    assert re.search(
        "not allowed|unknown table|yntax error|starts with|one statement|one predicate",
        str(refusal.value),
    )


def projected(directory: Path, sql: str, checks: str = "[]") -> Path:
    file = directory / "one.sql"
    header = HEADER.format(event="kind STRING", mode="bucket")
    file.write_text(header.replace("---*/", f"checks: {checks}\n---*/") + sql)
    return file


def in_yaml(text: str) -> str:
    return '["' + text.replace("\\", "\\\\").replace('"', '\\"') + '"]'


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *ONLY_SPARK])
def test_a_projection_does_not_evaluate(
    spark: SparkSession, tmp_path: Path, expression: str
) -> None:
    with pytest.raises(DefinitionError) as refusal:
        analyze.analyze(spark, read(projected(tmp_path, f"SELECT {expression} AS x FROM events")))
    rejected(refusal)


@pytest.mark.parametrize("query", QUERIES)
def test_a_projection_does_not_select(spark: SparkSession, tmp_path: Path, query: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        analyze.analyze(spark, read(projected(tmp_path, query.format(table="events"))))
    rejected(refusal)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_check_of_a_projection_does_not_evaluate(
    spark: SparkSession, tmp_path: Path, expression: str
) -> None:
    select = "SELECT persistence_id, kind FROM events"
    file = projected(tmp_path, select, in_yaml(f"{expression} IS NULL"))
    with pytest.raises(DefinitionError) as refusal:
        result_checks.analyze(spark, analyze.analyze(spark, read(file)))
    rejected(refusal)


@pytest.mark.parametrize("query", QUERIES)
def test_a_check_of_validate_does_not_select(
    spark: SparkSession, tmp_path: Path, query: str
) -> None:
    with pytest.raises(DefinitionError) as refusal:
        require_usable(spark, loaded(tmp_path, "number > 0", query.format(table="messages")))
    rejected(refusal)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_check_of_validate_does_not_evaluate(
    spark: SparkSession, tmp_path: Path, expression: str
) -> None:
    condition = in_yaml(f"{expression} IS NULL")[1:-1]
    with pytest.raises(DefinitionError) as refusal:
        require_usable(spark, loaded(tmp_path, condition, OF_MESSAGES))
    rejected(refusal)


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *ONLY_SPARK])
def test_a_tag_rule_does_not_evaluate(spark: SparkSession, tmp_path: Path, expression: str) -> None:
    (tmp_path / "a.sql").write_text(
        f"/*---\ntag: a\nevent: kind STRING\n---*/\n{expression} IS NULL\n"
    )
    with pytest.raises(DefinitionError) as refusal:
        rules.check(spark, rules.load(tmp_path))
    rejected(refusal)


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *ONLY_SPARK])
def test_a_group_of_many_rows_does_not_evaluate(spark: SparkSession, expression: str) -> None:
    """As at execution, where a group may have been stored by somebody else."""
    update = "UPDATE shop.items SET v = :v WHERE p = 1"
    kept = rows.seen(spark.createDataFrame([], ddl(KEPT)), {"kind": "text"})
    need = Need.model_validate({"event": "read", "as": "v", "sql": expression})
    write = many.write(update, statement.parse(update))
    with pytest.raises(ParseException):
        rows.written(kept, write, {"p": "int"}, [need], {}, ())


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *ONLY_DUCKDB])
def test_a_group_of_one_row_does_not_evaluate(expression: str) -> None:
    """As its process does at submission and at execution, without the start of a process."""
    assert result_worker.refusal(expression)


@pytest.mark.parametrize("expression", ["(SELECT 1)", "pg_sleep(10)"])
def test_the_process_of_an_expression_checks_it_each_time(expression: str) -> None:
    assert "not allowed" in result_sql.refusal(expression)
    with pytest.raises(ValueError, match="not allowed"):
        result_sql.evaluate(expression, [{"a": 1}], TIMEOUT_S)


@pytest.mark.parametrize(
    "expression",
    [
        "a * 1.19", "-a % 2 // 3", "cast(a AS decimal(20, 2))", "a::text || 'x'", "sum(a)",
        "count(*) FILTER (WHERE a > 1)", "a BETWEEN 1 AND 2 OR NOT a IS NULL", "a IN (1, 2)",
        "CASE WHEN a = 1 THEN 'x' ELSE kind END", "coalesce(kind, 'x')", "kind LIKE 'x%'",
        "extract(year FROM '2026-01-02'::DATE)", "DATE '2026-01-02' + INTERVAL 1 DAY",
        "lpad(a::VARCHAR, 10, '0')", "json_extract_string('{\"b\": 1}', '$.b')",
        "'{\"b\": 1}'::VARCHAR ->> '$.b'", "trim(BOTH FROM kind)",
        "strftime(now_at::TIMESTAMP, '%Y')",
        "regexp_replace(kind, 'x', 'y')", "a -- a comment",
        "sum(a) OVER (ORDER BY kind)", "row_number() OVER ()",
        "lag(a, 1, 0) OVER (PARTITION BY kind)",
    ],
)  # fmt: skip
def test_a_group_of_one_row_evaluates(expression: str) -> None:
    row = {"a": 1, "kind": "x", "now_at": "2026-01-02 03:04:05"}
    assert len(result_sql.evaluate(expression, [row], TIMEOUT_S)) == 1


def built_in(spark: SparkSession) -> dict[str, set[str]]:
    """Return Spark's functions by group, without operators."""
    registries = gateway.named(spark, "org.apache.spark.sql.catalyst.analysis.FunctionRegistry$")
    groups = dict[str, set[str]]()
    for identifier in gateway.each(registries.builtin().listFunction()):
        info = registries.builtin().lookupFunction(identifier).get()
        if re.fullmatch(r"\w+", identifier.funcName()):
            groups.setdefault(info.getGroup(), set()).add(identifier.funcName())
    return groups


def test_each_function_of_spark_is_listed_or_named_here(spark: SparkSession) -> None:
    groups = built_in(spark)
    assert set().union(*groups.values()) >= FUNCTIONS
    left_out = {group: names - FUNCTIONS for group, names in groups.items() if names - FUNCTIONS}
    assert left_out == NOT_LISTED


def test_the_docs_name_what_is_not_listed() -> None:
    page = (REPOSITORY / "docs" / "user-sql.md").read_text()
    named = set(re.findall(r"`(\w+)`", page))
    assert set().union(*NOT_LISTED.values()) - named <= NOT_LISTED["xml_funcs"]
    assert "`xpath...`" in page


def test_the_examples_of_spark_are_allowed(spark: SparkSession) -> None:
    """Spark's documentation has examples of each function; they show that the list is wide."""
    registries = gateway.named(spark, "org.apache.spark.sql.catalyst.analysis.FunctionRegistry$")
    parser = gateway.session_of(spark).sessionState().sqlParser()
    refused = dict[str, str]()
    for identifier in gateway.each(registries.builtin().listFunction()):
        if identifier.funcName() not in FUNCTIONS:
            continue
        info = registries.builtin().lookupFunction(identifier).get()
        for sql in re.findall(r"> (SELECT .*);", info.getExamples()):
            try:
                allowed._require_plan(parser.parsePlan(sql), ())
            except allowed.NotAllowed as error:
                refused[sql] = error.what
    assert set(refused.values()) <= {"a table function is not allowed"}
    assert all(re.search(r"FROM \w+\(", sql) for sql in refused)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT kind FROM events WHERE sequence_nr IN (1, 2) ORDER BY kind LIMIT 3",
        "WITH a AS (SELECT kind FROM events), b(k) AS (SELECT kind FROM a) SELECT k FROM b",
        "SELECT e.kind FROM events e LEFT ANTI JOIN (SELECT kind FROM events) f USING (kind)",
        "SELECT kind, sum(1) OVER w AS n FROM events WINDOW w AS (PARTITION BY kind)",
        "SELECT kind FROM events UNION ALL SELECT kind FROM events",
        "SELECT kind, count(*) AS n FROM events GROUP BY CUBE (kind) HAVING count(*) > 1",
        "SELECT tag FROM events LATERAL VIEW OUTER explode(tags) t AS tag",
        "SELECT explode(tags) AS tag FROM events",
        "SELECT * FROM (SELECT kind, slice FROM events) PIVOT (max(slice) FOR kind IN ('a'))",
        "SELECT /*+ BROADCAST(e) */ kind FROM events e",
        "SELECT filter(tags, tag -> tag LIKE 'a%') AS tags FROM events",
    ],
)
def test_a_projection_selects(spark: SparkSession, tmp_path: Path, query: str) -> None:
    assert analyze.analyze(spark, read(projected(tmp_path, query))).result.names


@pytest.mark.parametrize("depth", [150, 3000])
def test_what_is_nested_too_deeply_is_one_line(
    spark: SparkSession, tmp_path: Path, depth: int
) -> None:
    """The first takes the stack of Spark's analyzer, the second that of its parser."""
    number = "abs(" * depth + "slice" + ")" * depth
    with pytest.raises(DefinitionError, match="it is nested too deeply"):
        analyze.analyze(spark, read(projected(tmp_path, f"SELECT {number} AS x FROM events")))
    checked = projected(tmp_path, "SELECT slice FROM events", in_yaml(f"{number} > 0"))
    with pytest.raises(DefinitionError, match="it is nested too deeply"):
        result_checks.analyze(spark, analyze.analyze(spark, read(checked)))
    folder = tmp_path / "rules"
    folder.mkdir()
    predicate = number.replace("slice", "sequence_nr") + " > 0"
    (folder / "a.sql").write_text(f"/*---\ntag: a\nevent: kind STRING\n---*/\n{predicate}\n")
    with pytest.raises(DefinitionError, match="it is nested too deeply"):
        rules.check(spark, rules.load(folder))
    assert "nested too deeply" in result_worker.refusal("abs(" * 900 + "1" + ")" * 900)


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("json_contains(lpad('', 150000, '[') || rpad('', 150000, ']'), '1')", "it ended DuckDB"),
        ("instr(lpad('', 3000000, 'a'), lpad('', 1500000, 'a') || 'b')", "not ended within 3 s"),
        ("lpad('', 3000, 'a') GLOB '*a*a*a*a*a*a*a*a*a*b'", "not ended within 3 s"),
        ("kind" + "->'$'" * 100, "not ended within 3 s"),
        ("length(concat(lpad('', 900000000, 'a'), lpad('', 900000000, 'a')))", "not ended|emory"),
        ("a " + "/*" * 20000 + "*/" * 20000, "more than 10,000 characters"),
    ],
    ids=["deep JSON", "instr", "GLOB", "arrows", "long text", "comments"],
)
def test_an_expression_does_not_take_the_run(expression: str, says: str) -> None:
    """DuckDB's own timer and limit hold for none of these."""
    with pytest.raises(ValueError, match=says):
        result_sql.evaluate(expression, [{"a": 1, "kind": "x"}], 3)


@pytest.mark.parametrize("text", ["1 " + "/*" * 2000 + "*/" * 2000, "'a\ud800'"])
def test_what_sparks_lexer_does_not_survive_is_not_given_to_it(
    spark: SparkSession, text: str
) -> None:
    for check in (
        lambda: allowed.expression(spark, text),
        lambda: allowed.query(spark, f"SELECT {text}", ("events",)),
    ):
        with pytest.raises(ParseException):
            check()


def test_unknown_is_a_truth_value(spark: SparkSession) -> None:
    value = allowed.expression(spark, "(id = 1) IS UNKNOWN OR (id = 2) IS NOT UNKNOWN")
    assert spark.range(1).select(value).collect() == [(True,)]
