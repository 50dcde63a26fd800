"""Rolling back to exactly what was there: by write times, for the failed events only."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.event_groups.test_event_groups import cql, executed, meddle, shop, submit
from tests.integration.support import Journal
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.errors import CassandraUnavailable
from tidemark.event_groups.driver_engine.before_image import Restoring

__all__ = ["shop"]
FAILS = "{name: fail, statement: \"SELECT id FROM <account> WHERE id = 'ann'\", expect: none"


def note_of(journal: Journal, name: str) -> Any:
    found = cql(journal, "SELECT note FROM {account} WHERE id = ?", name)
    return found[0]["note"] if found else "no row"


class Late:
    """Statements that do not reach Cassandra in time, and arrive when everything is over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, of: str) -> None:
        """Hold back the event groups' own writes whose text contains `of`."""
        self.held: list[tuple[Control, str, Mapping[str, object]]] = []
        self._send = send = Control.execute_named

        def held(self_: Control, text: str, values: Mapping[str, object], *rest: Any) -> Any:
            if of in text and "tidemark_write_time" in values:
                self.held.append((self_, text, dict(values)))
                raise CassandraUnavailable("the request timed out")
            return send(self_, text, values, *rest)

        monkeypatch.setattr(Control, "execute_named", held)

    def arrive(self, control: Control) -> None:
        """Deliver the first attempt of each statement, as a hint does."""
        assert self.held
        for _, text, values in self.held:
            self._send(control, text, values, 10)


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("UPDATE <account> SET note = 'new' WHERE id = 'ann'", "old"),
        ("UPDATE <account> SET note = 'new' WHERE id = 'eve'", "no row"),
        ("INSERT INTO <account> (id, note) VALUES ('eve', 'new')", "no row"),
        ("DELETE note FROM <account> WHERE id = 'ann'", "old"),
        ("DELETE FROM <account> WHERE id = 'ann'", "old"),
    ],
)
def test_a_statement_that_arrives_after_the_rollback_changes_nothing(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, left: str
) -> None:
    before = shop.rows("account")
    with monkeypatch.context() as patched:
        late = Late(patched, "account")
        text = f'group: late\nevents: [{{name: w, timeout: 1, statement: "{statement}"}}]\n'
        assert submit(shop, tmp_path, text).status == 0
        assert executed(shop, 3)["counts"]["groups_rolled_back"] == 1
    late.arrive(shop.control)
    assert note_of(shop, "eve" if "eve" in statement else "ann") == left
    assert shop.rows("account") == before


def test_a_value_that_somebody_wrote_before_a_late_statement_survives_it(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        late = Late(patched, "account")
        text = (
            "group: late\nevents: [{name: w, timeout: 1,"
            " statement: \"UPDATE <account> SET note = 'new' WHERE id = 'ann'\"}]\n"
        )
        submit(shop, tmp_path, text)
        # Older than the event's statement, and written after its before-image was read.
        original = Control.execute_named

        def and_somebody(self: Control, cql_text: str, values: Any, *rest: Any) -> Any:
            if "tidemark_write_time" in values:
                at = values["tidemark_write_time"] - 1
                cql(
                    shop,
                    "UPDATE {account} USING TIMESTAMP ? SET note = 'theirs' WHERE id = 'ann'",
                    at,
                )
            return original(self, cql_text, values, *rest)

        patched.setattr(Control, "execute_named", and_somebody)
        executed(shop, 3)
    late.arrive(shop.control)
    assert note_of(shop, "ann") == "theirs"


ALONE = """
group: alone
policy: one-for-one
events:
  - {name: good, statement: "UPDATE <account> SET note = 'kept' WHERE id = 'ann'"}
  - {name: bad, statement: "DELETE FROM <posting> WHERE account = 'ann' AND n > 1"}
  - {name: left, statement: "UPDATE <account> SET note = 'x' WHERE id = 'eve'", after: [bad]}
"""


def test_retry_of_a_one_for_one_group_takes_back_only_what_failed(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*rest: Any) -> None:
        raise KeyError("column")

    assert submit(shop, tmp_path, ALONE).status == 0
    with monkeypatch.context() as patched:
        Late(patched, "posting")
        patched.setattr(Restoring, "restore", fails)
        [line] = executed(shop, 3)["lines"]
    assert line.startswith("alone: rollback-failed: bad: the request timed out")
    assert shop.run("run_event_groups", "retry", "alone", "--apply").status == 0
    assert executed(shop, 3)["counts"]["groups_partly_done"] == 1
    assert note_of(shop, "ann") == "kept"
    states = {row["event"]: row["state"] for row in shop.own_rows("group_event")}
    assert states == {"good": "done", "bad": "rolled-back", "left": "skipped"}


def test_what_a_sibling_of_a_failed_event_has_written_stays(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
group: siblings
policy: one-for-one
events:
  - name: bad
    statement: UPDATE <account> SET total = 7, note = 'bad' WHERE id = 'eve'
  - {name: first, statement: "SELECT id FROM <account> WHERE id = 'ann'"}
  - name: good
    statement: INSERT INTO <account> (id, note) VALUES ('eve', 'kept')
    after: [first]
"""
    submit(shop, tmp_path, text)
    with monkeypatch.context() as patched:
        late = Late(patched, '"total"')
        assert executed(shop, 3)["counts"]["groups_partly_done"] == 1
    late.arrive(shop.control)
    [eve] = cql(shop, "SELECT note, total FROM {account} WHERE id = 'eve'")
    assert eve == {"note": "kept", "total": None}


def test_two_events_without_a_path_between_them_are_undone_by_their_write_times(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `b` is the first of the file and writes last: it waits for a value from outside.
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "slow.py").write_text(
        "import time\n\n\ndef value(asked):\n    time.sleep(3)\n    return 'b'\n"
    )
    monkeypatch.setenv("TIDEMARK_EVENT_GROUP_FUNCTIONS_DIR", str(tmp_path / "functions"))
    text = f"""
group: unordered
events:
  - name: b
    statement: UPDATE <account> SET note = :n WHERE id = 'ann'
    needs: [{{as: n, call: "slow:value"}}]
  - {{name: a, statement: "UPDATE <account> SET note = 'a' WHERE id = 'ann'"}}
  - {FAILS}, after: [a, b]}}
"""
    groups = tmp_path / "groups"
    groups.mkdir()
    assert submit(shop, groups, text).status == 0
    executed(shop, 3)
    assert note_of(shop, "ann") == "old"


EXACT = {
    "d": ("decimal", Decimal("12345678901234567.89")),
    "small": ("decimal", Decimal("1.123456789012345678")),
    "zeros": ("decimal", Decimal("10.50")),
    "huge": ("varint", 10**50),
    "f": ("double", float("nan")),
    "minus": ("double", float("-inf")),
    "single": ("float", 0.10000000149011612),
    "bytes": ("blob", b"\x00\xff"),
    "words": ("text", 'a "b" \\ \u0000 \U0001f600'),
    "nested": ("frozen<map<text, frozen<list<decimal>>>>", {"k": [Decimal("1.10")]}),
    "pair": ("frozen<tuple<int, double>>", (1, float("nan"))),
}


@pytest.mark.parametrize("how", ["update", "delete"])
def test_values_come_back_bit_for_bit(shop: Journal, tmp_path: Path, how: str) -> None:
    name = table(shop.keyspace, "exact")
    columns = ", ".join(f"{column} {kind}" for column, (kind, _) in EXACT.items())
    shop.control.execute_ddl(f"CREATE TYPE {table(shop.keyspace, 'place')} (x double, y decimal)")
    shop.control.execute_ddl(
        f"CREATE TABLE {name} (p text, c decimal, {columns}, at frozen<place>, PRIMARY KEY (p, c))"
    )
    marks = ", ".join("?" * len(EXACT))
    shop.control.execute(
        f"INSERT INTO {name} (p, c, {', '.join(EXACT)}) VALUES ('a', 7.00, {marks})",
        [value for _, value in EXACT.values()],
    )
    shop.control.execute(f"UPDATE {name} SET at = {{x: NaN, y: 2.50}} WHERE p = 'a' AND c = 7.00")

    def stored() -> list[dict[str, object]]:
        # The driver's values hide what zeros a decimal has.
        return [
            {k: repr(v) for k, v in row.items()}
            for row in shop.control.execute(f"SELECT * FROM {name}")
        ]

    before = stored()
    changes = {
        "update": "UPDATE {} SET "
        + ", ".join(f"{c} = null" for c in (*EXACT, "at"))
        + " WHERE p = 'a' AND c = 7.00",
        "delete": "DELETE FROM {} WHERE p = 'a' AND c > 1",
    }
    text = f"""
group: exact
events:
  - {{name: change, statement: "{changes[how].format(f"{shop.keyspace}.exact")}"}}
  - {FAILS}, after: [change]}}
"""
    assert submit(shop, tmp_path, text).status == 0
    report = executed(shop, 3)
    assert report["counts"]["groups_rolled_back"] == 1, report["lines"]
    assert stored() == before


def test_a_table_with_a_column_of_many_cells_is_not_restored(shop: Journal, tmp_path: Path) -> None:
    shop.control.execute_ddl(f"CREATE TYPE {table(shop.keyspace, 'address')} (street text)")
    shop.control.execute_ddl(
        f"CREATE TABLE {table(shop.keyspace, 'person')} (id text PRIMARY KEY, at address)"
    )
    for statement in (
        "UPDATE {}.person SET at = null WHERE id = 'a'",
        "DELETE FROM {}.person WHERE id = 'a'",
    ):
        text = (
            f'group: udt\nevents: [{{name: w, statement: "{statement.format(shop.keyspace)}"}}]\n'
        )
        refused = submit(shop, tmp_path, text)
        assert refused.status == 2
        assert "the column at of" in refused.error_lines[0]
        assert "which is not restored" in refused.error_lines[0]


WRITE = """
group: NAME
events:
  - {name: w, statement: "STATEMENT"ROLLBACK}
"""


def written(name: str, statement: str, rollback: str = "") -> str:
    text = WRITE.replace("NAME", name).replace("STATEMENT", statement)
    return text.replace("ROLLBACK", rollback)


def test_a_value_that_is_far_ahead_fails_its_event_and_no_later_one(
    shop: Journal, tmp_path: Path
) -> None:
    for name, at in (("ann", 2**63 - 1), ("eve", 1_800_000_000_000_000_000)):
        cql(shop, f"UPDATE {{account}} USING TIMESTAMP {at} SET note = 'x' WHERE id = '{name}'")
        text = written(name, f"UPDATE <account> SET note = 'y' WHERE id = '{name}'")
        submit(shop, tmp_path, text)
        assert "ahead of this machine's clock" in executed(shop, 3)["lines"][0]
    submit(shop, tmp_path, written("bob", "UPDATE <account> SET note = 'y' WHERE id = 'bob'"))
    executed(shop)
    cql(shop, "UPDATE {account} SET note = 'theirs' WHERE id = 'bob'")
    assert note_of(shop, "bob") == "theirs"


def test_what_lasts_comes_back_to_last_in_a_table_with_a_time_to_live(
    shop: Journal, tmp_path: Path
) -> None:
    shop.control.execute_ddl(
        f"ALTER TABLE {table(shop.keyspace, 'account')} WITH default_time_to_live = 1000"
    )
    cql(shop, "INSERT INTO {account} (id, note) VALUES ('eve', 'lasts') USING TTL 0")
    text = written("g", "UPDATE <account> SET note = 'y' WHERE id = 'eve'") + f"  - {FAILS}}}\n"
    submit(shop, tmp_path, text.replace("expect: none}", "expect: none, after: [w]}"))
    executed(shop, 3)
    [eve] = cql(shop, "SELECT note, ttl(note) AS ttl FROM {account} WHERE id = 'eve'")
    assert eve == {"note": "lasts", "ttl": None}


def test_statements_that_take_an_event_back_follow_each_other_also_on_one_row(
    shop: Journal, tmp_path: Path
) -> None:
    text = """
group: g
events:
  - name: w
    statement: UPDATE <account> SET note = 'new' WHERE id = 'ann'
    rollback:
      statements:
        - {statement: "DELETE FROM <account> WHERE id = 'ann'"}
        - {statement: "INSERT INTO <account> (id, note) VALUES ('ann', 'z')"}
        - {statement: "UPDATE <account> SET note = 'a' WHERE id = 'ann'"}
  - {name: fail, statement: "SELECT id FROM <account> WHERE id = 'ann'", expect: none, after: [w]}
"""
    assert submit(shop, tmp_path, text).status == 0
    executed(shop, 3)
    assert note_of(shop, "ann") == "a"


def test_what_cassandra_refuses_is_not_compensated(shop: Journal, tmp_path: Path) -> None:
    back = ", rollback: {statements: [{statement: \"DELETE FROM <account> WHERE id = 'ann'\"}]}"
    bad = "UPDATE <account> SET total = :t WHERE id = 'ann'"
    text = written("g", bad, f", values: {{t: much}}{back}")
    submit(shop, tmp_path, text)
    assert executed(shop, 3)["counts"]["groups_rolled_back"] == 1
    assert note_of(shop, "ann") == "old"


def test_a_value_that_somebody_has_deleted_stays_away_beside_a_null(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete() -> None:
        cql(shop, "DELETE note FROM {account} WHERE id = 'ann'")

    meddle(monkeypatch, "w", "done", delete)
    text = written("g", "UPDATE <account> SET note = 'y', total = null WHERE id = 'ann'")
    text += f"  - {FAILS}, after: [w]}}\n"
    submit(shop, tmp_path, text)
    executed(shop, 3)
    [ann] = cql(shop, "SELECT note, total FROM {account} WHERE id = 'ann'")
    assert ann == {"note": None, "total": Decimal("10.50")}
