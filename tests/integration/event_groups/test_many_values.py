"""Events with many rows: values of all types, what is refused, and what starts no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.event_groups.test_many import FAIL, each, executed, shop, submit, wanted
from tests.integration.support import Journal
from tidemark import spark_session

__all__ = ["shop"]
KINDS = {
    **{"tx": "text", "aa": "ascii", "si": "smallint", "ty": "tinyint", "n": "int", "bi": "bigint"},
    **{"vi": "varint", "de": "decimal", "dn": "double", "fl": "float", "bo": "boolean"},
    **{"uu": "uuid", "tu": "timeuuid", "ts": "timestamp", "da": "date", "ti": "time"},
    **{"ine": "inet", "bl": "blob"},
}
VALUES = [
    {
        **{"tx": "'it''s \"q\" \\ é x\ny'", "aa": "'asc'", "si": "-5", "ty": "7", "n": "-1"},
        **{"bi": "9223372036854775807", "vi": "9" * 60, "de": "1.2300000000000000000000001E-30"},
        **{"dn": "1.1e300", "fl": "0.1", "bo": "true", "ts": "-62135596799999"},
        **{"uu": "6AB09BEC-e68e-48d9-a5f8-97e6fb4c9b47", "da": "'0001-01-01'"},
        **{"tu": "50554d6e-29bb-11e5-b345-feff819cdc9f", "ti": "'08:12:54.123456789'"},
        **{"ine": "'fe80::1'", "bl": "0x00ff00"},
    },
    {
        **{"tx": "'null'", "de": "10.50", "dn": "NaN", "fl": "-Infinity", "bl": "0x"},
        **{"ts": "-12219292800001", "ine": "'1.2.3.4'", "bo": "false", "da": "'9999-12-31'"},
    },
    {"tx": "''"},
]


def test_values_of_all_types_come_through_and_are_rolled_back_as_they_were(
    shop: Journal, tmp_path: Path
) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
    names = {name: f"{shop.keyspace}.{name}" for name in ("one", "two", "three")}
    for name in names.values():
        shop.control.execute_ddl(f"CREATE TABLE {name} (k text PRIMARY KEY, {columns})")
    for place, values in enumerate(VALUES):
        for name in (names["one"], names["three"]):
            number = place if name == names["one"] else (place + 1) % len(VALUES)
            shop.control.execute(
                f"INSERT INTO {name} (k, {', '.join(values)})"
                f" VALUES ('{number}', {', '.join(values.values())})"
            )
    marks = ", ".join(f":{name}" for name in ("k", *KINDS))
    needs = ", ".join(f"{{event: read, as: {name}}}" for name in ("k", *KINDS))
    before = shop.rows("three")
    for name in ("two", "three"):
        text = f"""
group: into-{name}
events:
  - {{name: read, many: true, statement: "SELECT * FROM {names["one"]}"}}
  - name: copy
    each: read
    after: [read]
    statement: "INSERT INTO {names[name]} (k, {", ".join(KINDS)}) VALUES ({marks})"
    needs: [{needs}]
"""
        fails = name == "three"
        executed(shop, tmp_path, text + FAIL.replace("AFTER", "copy") * fails, 3 * fails)
    assert repr(shop.rows("two")) == repr(shop.rows("one"))
    assert repr(shop.rows("three")) == repr(before)


@pytest.mark.long
def test_conditions_select_what_cassandra_finds(shop: Journal, tmp_path: Path) -> None:
    wanted(shop, 20)
    shop.insert("item", [{"p": "x", "c": 1, "seen": 1709287200000}, {"p": "x", "c": 2, "seen": 1}])
    for where, values, count in (
        ("n >= :n AND n < 15 ALLOW FILTERING", '{n: "10"}', 5),
        ("v = :v ALLOW FILTERING", "{v: it}", 0),
        ("id = 7", "{}", 1),
    ):
        expect = {0: "none", 1: "one", 5: "some"}[count]
        text = f"""
group: g{count}
events:
  - name: read
    many: true
    statement: "SELECT id FROM <wanted> WHERE {where}"
    values: {values}
    expect: {expect}
"""
        executed(shop, tmp_path, text)
        kept = [row for row in shop.own_rows("named_result") if row["group_id"] == f"g{count}"]
        assert len(kept) == count
    text = """
group: moment
events:
  - name: read
    many: true
    statement: "SELECT c FROM <item> WHERE seen = '2024-03-01 10:00:00Z' ALLOW FILTERING"
    expect: one
"""
    executed(shop, tmp_path, text)


@pytest.mark.parametrize(
    ("change", "rows", "says"),
    [
        (("{event: read, as: c}", '{event: read, as: c, sql: "n % 2"}'), "", "writes the row p0, "),
        (("", ""), "rows: [{table: <item>, key: {p: p0}}]", "that the group has not declared"),
        (
            ("{event: read, as: c}", '{event: read, as: c, sql: "n / (n - 3)"}'),
            "",
            "DIVIDE_BY_ZERO",
        ),
        (
            ("{event: read, as: v}", '{event: read, as: v, sql: "cast(v as int)"}'),
            "",
            "CAST_INVALID",
        ),
        (("{event: read, as: p}", "{event: read, as: p, sql: \"nullif(p, 'p1')\"}"), "", "a null"),
    ],
)
def test_nothing_is_written_if_one_row_may_not_be(
    shop: Journal, tmp_path: Path, change: tuple[str, str], rows: str, says: str
) -> None:
    wanted(shop, 20)
    text = each("update").replace(*change).replace("events:", f"{rows}\nevents:")
    [line] = executed(shop, tmp_path, text, 3)["lines"]
    assert says in line
    assert shop.rows("item") == []


@pytest.mark.long
def test_declared_rows_cover_many(shop: Journal, tmp_path: Path) -> None:
    wanted(shop, 4)
    rows = "rows: [{table: <item>, key: {p: p0}}, {table: <item>, key: {p: p1}}, "
    rows += "{table: <item>, key: {p: p2, c: '02'}}, {table: <item>, key: {p: p3, c: '3'}}]"
    executed(shop, tmp_path, each("update").replace("events:", f"{rows}\nevents:"))
    assert len(shop.rows("item")) == 4


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("p = :p AND c = :c", "p = :p AND c IN (:c)", "ranges of rows"),
        ("a = :v", "a = toJson(:v)", "the value of a is no parameter or literal"),
        ("UPDATE <item>", "UPDATE <item> USING TTL 5", "updates many rows with a TTL"),
        ("as: v}", 'as: v, call: "a:b"}', "a function would get many rows"),
        ("as: v}", 'as: v, sql: "max(v)"}', "Spark refuses `max(v)`"),
        ("as: v}", 'as: v, sql: "uuid()"}', "uuid: the value is another one each time"),
        ("as: v}", 'as: v, sql: "w || v"}', "Spark refuses `w || v`"),
        ("as: v}", "as: v, take: w}", "read selects no column w"),
        ("needs:", "rollback: {call: 'a:b'}\n    needs:", "not taken back by statements"),
        ("each: read", "each: read\n    many: true", "only a select has many rows"),
        ("SELECT *", "SELECT count(*)", "selects more than columns"),
        ("FROM <wanted>", "FROM <wanted> LIMIT 5", "it has LIMIT and many rows"),
        ("FROM <wanted>", "FROM <wanted> WHERE id IN (1, 2)", "cannot be a condition"),
        ("SELECT * FROM <wanted>", "SELECT * FROM <item>", "the column l is a list<text>"),
        ("SELECT * FROM <wanted>", "SELECT s FROM <item>", "the column s is a static text"),
        ("SELECT * FROM <wanted>", 'SELECT \\"zCap\\" FROM <item>', "has other signs than small"),
    ],
)
def test_what_many_rows_cannot_be_is_refused_at_its_place(
    shop: Journal, tmp_path: Path, old: str, new: str, says: str
) -> None:
    shop.control.execute_ddl(
        f'ALTER TABLE {shop.keyspace}.item ADD (l list<text>, s text static, "zCap" text)'
    )
    result = submit(shop, tmp_path, each("update").replace(old, new))
    assert result.status == 2
    assert says in result.error_lines[0]
    assert "0.yaml:" in result.error_lines[0]


def test_a_group_without_many_rows_starts_no_spark(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr(spark_session, "open_session", refuse)
    events = "".join(
        f'  - {{name: e{number}, statement: "UPDATE <wanted> SET n = 1 WHERE id = {number}"}}\n'
        for number in range(10)
    )
    executed(shop, tmp_path, f"group: small\nevents:\n{events}")
    assert len(shop.rows("wanted")) == 10
