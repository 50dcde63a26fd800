"""Projections defined in Python: reading, refusals, checks and runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark.errors import DefinitionError, SchemaMismatch
from tidemark.project.analysis import analyze
from tidemark.project.definition import catalog
from tidemark.project.definition.file import read
from tidemark.project.definition.model import Mode
from tidemark.project.definition.on_error import OnError
from tidemark.project.definition.query import Function
from tidemark.project.definition.source import Messages
from tidemark.projection.testing import run_projection, unreadable_events

GOOD = '''\
"""What it is for."""

import no_such_module
from tidemark.projection import projection


@projection(
    name="balances",
    version=2,
    source="messages",
    mode="fold",
    target="flights.balances",
    event="kind STRING, amount INT",
    state="""balance DECIMAL(9,2),
             moves INT""",
    on_error={"strategy": "retry-and-fail", "retries": 3, "retry_delay": "200 ms"},
)
def fold(state, events, unused=None):
    return state
'''
FRAME = """\
from pyspark.sql import functions as F
from tidemark.projection import projection

@projection(name="sums", version=1, source="messages", mode="bucket", target="flights.sums",
            event="amount INT")
def sums(events):
    return events.groupBy("time_bucket").agg(F.sum("amount").alias("total"))
"""
KNOWN = (
    "name, version, source, mode, target, file_format, event, formats, with_, start, from_,"
    " decoders, on_error, deleted_before_consumed, most_skipped, state,"
    " accept_sequence_number_reset_after, look_back, fresh_within, checks, release, promote, key"
)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (
            "return events.withColumn('at', F.lit(time.time())).select('time_bucket', 'at')",
            "sums makes another query each time that it is called",
        ),
        (
            "return events.sparkSession.read.text(FILE).selectExpr('0L AS time_bucket')",
            "sums reads Relation",
        ),
        (
            "return events.join(events.sparkSession.createDataFrame([(0,)], 'amount INT'),"
            " 'amount').select('time_bucket')",
            "",
        ),
    ],
)
def test_a_function_depends_on_events_alone(
    spark: SparkSession, tmp_path: Path, body: str, what: str
) -> None:
    file = tmp_path / "sums.py"
    text = FRAME[: FRAME.index("    return")] + f"    {body}\n".replace("FILE", repr(str(tmp_path)))
    file.write_text(f"import time\n{text}")
    if not what:
        run_projection(file, [], spark=spark)
        return
    with pytest.raises(DefinitionError, match=what):
        run_projection(file, [], spark=spark)


def event(number: int, **fields: Any) -> dict[str, Any]:
    at = f"2024-03-01T12:00:{number:02}Z"
    return {"persistence_id": "a|1", "sequence_nr": number, "timestamp": at, **fields}


def test_read_returns_the_decorator_as_a_header_and_runs_nothing(tmp_path: Path) -> None:
    file = tmp_path / "balances.py"
    file.write_text(GOOD)
    definition = read(file)
    assert (definition.name, definition.version, definition.mode) == ("balances", 2, Mode.FOLD)
    assert (definition.source, definition.target) == (Messages(), "flights.balances")
    assert definition.on_error == OnError(fails=True, retries=3, delay_s=0.2)
    lines = GOOD.splitlines()
    assert definition.event.splitlines()[12].index("kind") == lines[12].index("kind")
    assert definition.state.splitlines()[14].index("moves") == lines[14].index("moves")
    body = definition.body
    assert isinstance(body, Function)
    assert (body.module, body.name, body.line) == ("balances", "fold", 7)


def test_fingerprint_stays_when_only_the_checks_change(tmp_path: Path) -> None:
    file = tmp_path / "balances.py"
    file.write_text(GOOD)
    first = read(file)
    file.write_text(
        GOOD.replace(")\ndef", '    checks=[{"not_null": "balance"}, "moves > 0"],\n)\ndef')
    )
    second = read(file)
    assert [check.text for check in second.checks] == ["not null balance", "moves > 0"]
    assert second.fingerprint == first.fingerprint


def test_fingerprint_covers_the_file(tmp_path: Path) -> None:
    file = tmp_path / "balances.py"
    file.write_text(GOOD)
    first = read(file).fingerprint
    file.write_text(GOOD.replace("return state", "return None"))
    assert first.startswith("2-")
    assert read(file).fingerprint != first


@pytest.mark.parametrize(
    ("old", "new", "place", "what"),
    [
        ('    mode="fold",\n', "", ":7:2", "mode is missing ({}:7:2); add `mode='bucket'`"),
        ('mode="fold"', 'mode=""', ":11:10", "mode is empty"),
        ("mode=", "quux=", ":11:5", f"unknown key quux ({{}}:11:5); known are {KNOWN}"),
        ("mode=", "name=", ":11:5", "name is given twice"),
        ('"fold"', '"merge"', ":11:10", "mode cannot be 'merge'"),
        ("version=2", 'version=2, key=["a", "a b"]', ":9:26", "key cannot be 'a b'"),
        (
            "version=2",
            "version=2, look_bak=1",
            ":9:16",
            "unknown key look_bak ({}:9:16); write look_back",
        ),
        ("version=2", "version=2, key={1: 2}", ":9:21", "a name is not a literal"),
        ("version=2", "version=True", ":9:13", "an argument is not a literal"),
        ("version=2", "version=V", ":9:13", "an argument is not a literal"),
        ("version=2", "version=1000", ":9:13", "version cannot be 1000"),
        ("version=2", "**MORE", ":9:5", "a name is not a literal"),
        ('"messages"', '{"tags": ["red"]}', ":10:12", "mode fold does not read tags"),
        ('"messages"', '"tags red"', ":10:12", "source cannot be 'tags red'"),
        ('"fold"', '"upsert"', ":14:11", "mode upsert has no state"),
        ('"retries": 3', '"retries": 0', ":16:56", "retries cannot be 0"),
        ("@projection(", "@projection(4, ", ":7", "the arguments have no names"),
        ("state, events, unused=None", "events", ":7", "fold must be called with 1 arguments"),
        ("def fold", "class fold", ":1", "there is no projection"),
        ("return state", "return (", ":19", "not Python: '(' was never closed"),
        (
            "    return state\n",
            "    return state\n@projection()\ndef b(): pass\n",
            ":20",
            "there is more than one projection",
        ),
    ],
)
def test_read_refuses(tmp_path: Path, old: str, new: str, place: str, what: str) -> None:
    assert GOOD.count(old) == 1
    file = tmp_path / "bad.py"
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(DefinitionError) as refused:
        read(file)
    assert str(refused.value).startswith(what.format(file))
    assert f"({file}{place})" in str(refused.value)


def test_places_are_those_of_python_and_count_characters(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    odd = GOOD.replace("import no_such", "# one line:\x0c\u2028\x85\nimport no_such")
    file.write_text(odd.replace("version=2,", "version='✓✓', name_=1,"))
    with pytest.raises(DefinitionError, match=re.escape(f"unknown key name_ ({file}:10:19)")):
        read(file)


def test_fold_needs_state_and_a_function_and_retries_need_python(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text(re.sub(r'    state=.*?""",\n', "", GOOD, flags=re.DOTALL))
    with pytest.raises(DefinitionError, match="mode fold needs the fields of its state"):
        read(file)
    sql = tmp_path / "bad.sql"
    header = (
        "/*---\nname: a\nversion: 1\nsource: messages\nmode: {}\ntarget: f.a\n"
        "event: a INT\non-error: {}\n{}---*/\nSELECT a FROM events\n"
    )
    sql.write_text(header.format("fold", "skip", "state: a INT\n"))
    with pytest.raises(DefinitionError, match=r"mode fold is a function \(.*bad.sql:5:7\)"):
        read(sql)
    retry = "{strategy: retry-and-skip, retries: 2, retry-delay: 1s}"
    sql.write_text(header.format("bucket", retry, ""))
    with pytest.raises(DefinitionError, match=r"no Python function to try again.*sql:8:11\)"):
        read(sql)


def test_load_finds_both_kinds_and_refuses_two_with_one_name(tmp_path: Path) -> None:
    (tmp_path / "balances.py").write_text(GOOD)
    (tmp_path / "helper.py").write_text("broken(")
    (tmp_path / "sums.py").write_text(FRAME)
    assert [definition.name for definition in catalog.load(tmp_path)] == ["balances", "sums"]
    sql = "/*---\nname: sums\nversion: 1\nsource: messages\nmode: bucket\n"
    (tmp_path / "z.sql").write_text(sql + "target: f.a\nevent: a INT\n---*/\nSELECT 1\n")
    with pytest.raises(DefinitionError) as refused:
        catalog.load(tmp_path)
    assert str(refused.value) == (
        f"the name sums is taken by sums.py ({tmp_path / 'z.sql'}:2);"
        " give each projection a name of its own"
    )


def test_a_module_that_cannot_be_imported_is_named_with_its_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "balances.py"
    file.write_text(GOOD)
    with pytest.raises(DefinitionError) as refused:
        analyze.analyze(spark, read(file))
    assert str(refused.value) == (
        "balances.py cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"
        f" ({file}:3); correct it"
    )


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ('"amount").a', '"amuont").a', 7, "sums fails: AnalysisException: A column or function"),
        ("return", "raise ValueError('x')\n    return", 7, "sums fails: ValueError: x"),
        ("return", "return 1\n    return", 4, "sums returns int, not a Spark DataFrame"),
        ("amount INT", "amount NUMBER", 5, "Spark refuses the event's fields"),
        ('"total")', '"time_bucket")', 4, "the result has more than one column time_bucket"),
    ],
)
def test_a_function_that_does_not_fit_is_refused_before_anything_is_read(
    spark: SparkSession, tmp_path: Path, old: str, new: str, line: int, what: str
) -> None:
    file = tmp_path / "sums.py"
    file.write_text(FRAME.replace(old, new))
    with pytest.raises(DefinitionError) as refused:
        analyze.analyze(spark, read(file))
    assert str(refused.value).startswith(what)
    assert f"({file}:{line}" in str(refused.value)


def test_a_function_gives_the_result_of_its_mode(spark: SparkSession) -> None:
    assert run_projection(FRAME, [event(1, amount=2), event(2, amount=3)]) == [
        {"time_bucket": 1709294400000, "total": 5}
    ]
    append = FRAME.replace('mode="bucket"', 'mode="append"')
    with pytest.raises(SchemaMismatch, match=r"the function sums combines events \(Aggregate\)"):
        run_projection(append, [event(1, amount=2)])


def test_what_a_udf_needs_travels_with_it_and_what_it_raises_has_a_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "rates.py").write_text("def rate():\n    return 3\n")
    file = tmp_path / "sums.py"
    file.write_text(
        FRAME.replace(
            "@projection",
            "import rates\nfrom pyspark.sql.functions import udf\n\n\n@udf('int')\n"
            "def in_cents(amount):\n    return rates.rate() * (12 // amount)\n\n\n@projection",
        ).replace('F.sum("amount")', 'F.sum(in_cents("amount"))')
    )
    assert run_projection(file, [event(1, amount=4)])[0]["total"] == 9
    [said] = unreadable_events(file, [event(1, amount=0)]).values()
    assert said.startswith("ZeroDivisionError: integer division or modulo by zero")
    assert said.endswith("(sums.py:10)")


def test_the_shipped_examples_are_good() -> None:
    shipped = catalog.load(Path(__file__).parents[3] / "include" / "projections" / "examples")
    assert [(definition.name, definition.mode) for definition in shipped] == [
        ("aircraft_use", Mode.FOLD),
        ("delay_classes", Mode.BUCKET),
    ]


@pytest.mark.parametrize("form", ["function", "decoder"])
def test_a_module_that_is_imported_is_a_part_of_what_is_processed(
    tmp_path: Path, form: str
) -> None:
    (tmp_path / "sums.py").write_text(f"from money.rates import RATE\n{FRAME}")
    (tmp_path / "sums.sql").write_text(
        "/*---\nname: rates\nversion: 1\nsource: messages\nmode: append\ntarget: t.rates\n"
        "event: amount INT\ndecoders: [{kind: python, function: 'sums:sums'}]\n---*/\n"
        "SELECT persistence_id, sequence_nr FROM events"
    )
    package = tmp_path / "money"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "rates.py").write_text("from . import base\nRATE = base.BASE\n")
    (package / "base.py").write_text("BASE = 1\n")
    (package / "unused.py").write_text("import money.base\n")
    file = tmp_path / ("sums.py" if form == "function" else "sums.sql")
    before = read(file).fingerprint
    (package / "unused.py").write_text("")
    assert read(file).fingerprint == before
    (package / "base.py").write_text("BASE = 2\n")
    assert read(file).fingerprint != before
