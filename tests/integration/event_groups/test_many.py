"""Events with many rows: what Spark reads, keeps, writes and takes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.event_groups.test_event_groups import meddle
from tests.integration.support import Journal, Result
from tidemark import clock
from tidemark.cassandra.schema import table

pytestmark = pytest.mark.usefixtures("production")
ROWS = 3000
TABLES = {
    "item": "p text, c int, a text, b decimal, seen timestamp, PRIMARY KEY (p, c)",
    "few": "p text, c int, a text, b decimal, seen timestamp, PRIMARY KEY (p, c)",
    "wanted": "id int PRIMARY KEY, p text, c int, v text, n int",
}
Rows = list[dict[str, Any]]


@pytest.fixture
def shop(make_journal: Callable[..., Journal]) -> Journal:
    """Return a keyspace with empty tables."""
    return make(make_journal)


def make(make_journal: Callable[..., Journal]) -> Journal:
    journal = make_journal()
    for name, columns in TABLES.items():
        made = f"CREATE TABLE {table(journal.keyspace, name)} ({columns})"
        journal.control.execute_ddl(made)
    return journal


@pytest.fixture
def stocked(shop: Journal) -> Journal:
    """Return the keyspace with many items."""
    shop.insert(
        "item",
        [
            {"p": f"p{number % 50}", "c": number, "a": f"a{number}", "b": f"{number}.50"}
            for number in range(ROWS)
        ],
    )
    return shop


def cql(journal: Journal, text: str, *values: object) -> Rows:
    names = {name: table(journal.keyspace, name) for name in TABLES}
    return list(journal.control.execute(text.format(**names), values))


def submit(journal: Journal, folder: Path, text: str, *options: str) -> Result:
    for name in TABLES:
        text = text.replace(f"<{name}>", f"{journal.keyspace}.{name}")
    file = folder / f"{len(list(folder.iterdir()))}.yaml"
    file.write_text(text)
    return journal.run("run_event_groups", "submit", str(file), *options)


def executed(
    journal: Journal, folder: Path, text: str, status: int = 0, *options: str
) -> dict[str, Any]:
    submitted = submit(journal, folder, text, *options)
    assert submitted.status == 0, submitted.stderr
    result = journal.run("run_event_groups", *options)
    assert result.status == status, (result.stderr, result.stdout)
    report: dict[str, Any] = result.report
    return report


RAISE = """
group: raise
events:
  - {name: read, many: true, statement: "SELECT p, c, b FROM <item>", expect: some}
  - name: raise
    each: read
    after: [read]
    statement: UPDATE <item> SET b = :b, a = :a WHERE p = :p AND c = :c
    values: {a: raised}
    needs:
      - {event: read, as: p}
      - {event: read, as: c}
      - {event: read, as: b, sql: "cast(b + 1 as decimal(20, 2))"}
"""
FAIL = """
  - {name: fail, statement: "SELECT id FROM <wanted>", expect: some, after: [AFTER]}
"""


def test_an_update_over_many_rows_is_as_a_whole_or_rolled_back(
    stocked: Journal, tmp_path: Path
) -> None:
    before = stocked.rows("item")
    failing = RAISE.replace("group: raise", "group: failing") + FAIL.replace("AFTER", "raise")
    [line] = executed(stocked, tmp_path, failing, 3)["lines"]
    assert line == "failing: rolled-back: fail: it has found 0 rows, and expects some"
    assert stocked.rows("item") == before
    executed(stocked, tmp_path, RAISE)
    found = {row["c"]: (row["a"], str(row["b"])) for row in stocked.rows("item")}
    assert found == {number: ("raised", f"{number + 1}.50") for number in range(ROWS)}
    kept = stocked.own_rows("named_result")
    # What was there before a group is not kept after its end.
    assert {row["kind"] for row in kept} == {"result"}
    assert sum(row["group_id"] == "raise" and row["kind"] == "result" for row in kept) == ROWS


def wanted(journal: Journal, number: int) -> None:
    journal.insert(
        "wanted",
        [
            {"id": one, "p": f"p{one % 5}", "c": one, "v": f"v{one}", "n": one}
            for one in range(number)
        ],
    )


EACH = """
group: {group}
events:
  - {{name: read, many: {many}, statement: "SELECT * FROM <wanted>"}}
  - name: change
    each: read
    after: [read]
    statement: {statement}
    values: {values}
    needs: [{needs}]
"""
KEY = "{event: read, as: p}, {event: read, as: c}"
CHANGES = {
    "update": (
        "UPDATE <item> SET a = :v, seen = '2024-03-01' WHERE p = :p AND c = :c",
        KEY + ", {event: read, as: v}",
    ),
    "insert": (
        "INSERT INTO <item> (p, c, a) VALUES (:p, :c, :v)",
        KEY + ", {event: read, as: v}",
    ),
    "delete": ("DELETE FROM <item> WHERE p = :p AND c = :c", KEY),
}


def each(kind: str, *, group: str = "g", many: bool = True, fails: bool = False) -> str:
    statement, needs = CHANGES[kind]
    text = EACH.format(
        group=group, many=str(many).lower(), statement=statement, values="{}", needs=needs
    )
    check = (
        '  - {name: fail, statement: "SELECT id FROM <wanted>", expect: none, after: [change]}\n'
    )
    return text + (check if fails else "")


LATER_S = 3000


def stock(journal: Journal, name: str) -> None:
    """Fill a table with what may be there before a group, each row another case."""
    put = f"INSERT INTO {{{name}}} (p, c, a, b) VALUES ('p', ?, ?, ?)"
    for c in (0, 1, 2, 3, 4, 5):
        cql(journal, put, c, f"old{c}", 1)
    cql(journal, put, 6, None, 1)
    for c, seconds in ((7, 100 * LATER_S), (8, LATER_S // 2)):
        text = f"UPDATE {{{name}}} USING TTL {seconds} SET seen = 1000 WHERE p = 'p' AND c = {c}"
        cql(journal, put, c, "x", 1)
        cql(journal, text)
    # Of the others, 9 to 12, there is nothing; 13 is of the future.
    text = f"INSERT INTO {{{name}}} (p, c, a) VALUES ('p', 13, 'future') USING TIMESTAMP ?"
    cql(journal, text, clock.now_micros() + 60_000_000)


OTHER = """
  - {name: other, after: [change], statement: "UPDATE <item> SET b = 5 WHERE p = 'q' AND c = 0"}
"""


def meddled(journal: Journal, name: str) -> None:
    """Write as somebody else would between two statements of the group."""
    # Behind the row of the future, and so behind the group's statement.
    at, where = f"USING TIMESTAMP {clock.now_micros() + 120_000_000}", "WHERE p = 'p' AND c ="
    cql(journal, f"UPDATE {{{name}}} {at} SET a = 'theirs' {where} 1")
    cql(journal, f"DELETE a FROM {{{name}}} {at} {where} 2")
    cql(journal, f"DELETE FROM {{{name}}} {at} {where} 3")
    cql(journal, f"UPDATE {{{name}}} {at} SET b = 9 {where} 4")
    cql(journal, f"UPDATE {{{name}}} {at} SET a = 'theirs' {where} 10")
    cql(journal, f"INSERT INTO {{{name}}} (p, c, b) VALUES ('p', 11, 9) {at}")


@pytest.mark.parametrize(
    "kind", ["update", *(pytest.param(one, marks=pytest.mark.long) for one in ("delete", "insert"))]
)
def test_many_rows_are_rolled_back_by_the_rule_for_few(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    shop.insert(
        "wanted",
        [{"id": c, "p": "p", "c": c, "v": None if c in (5, 12) else f"v{c}"} for c in range(14)],
    )
    left = {}
    for name, many in (("item", True), ("few", False)):
        stock(shop, name)

        def write(name: str = name) -> None:
            meddled(shop, name)
            now = clock.now_micros
            monkeypatch.setattr(clock, "now_micros", lambda: now() + LATER_S * 1_000_000)

        with monkeypatch.context() as patched:
            meddle(patched, "change", "done", write)
            text = (
                each(kind, group=f"of-{name}", many=many) + OTHER + FAIL.replace("AFTER", "other")
            )
            text = text.replace("expect: some", "expect: none")
            # Each in a stream of its own: in one, write times continue from the later clock.
            text = text.replace("<item>", f"<{name}>")
            executed(shop, tmp_path, text, 3, "--stream", name)
        monkeypatch.undo()
        left[name] = cql(
            shop, f"SELECT p, c, a, b, seen, ttl(seen) AS t FROM {{{name}}} WHERE p = 'p'"
        )
    assert {row["state"] for row in shop.own_rows("event_group")} == {"rolled-back"}
    for rows in left.values():
        for row in rows:
            row["t"] = row["t"] and round(row["t"] / 500)
    assert left["item"] == left["few"]
    found = {row["c"]: row for row in left["item"]}
    assert {c: found[c]["a"] for c in (0, 1, 5, 10)} == {
        **{0: "old0", 1: "theirs", 5: "old5", 10: "theirs"},
    }
    # What was left of its time, after what has passed; of an insert it was not touched.
    assert found[7]["t"] == (100 if kind == "insert" else 99) * LATER_S // 500
    assert 12 not in found
