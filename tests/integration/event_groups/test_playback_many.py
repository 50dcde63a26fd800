"""Event groups with many rows that have ended, played into copies of their tables by Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.event_groups.test_many import TABLES, cql, executed, make, shop, wanted
from tests.integration.event_groups.test_playback import differences, play
from tests.integration.support import Journal
from tidemark import spark_session
from tidemark.cassandra.schema import table
from tidemark.errors import InvalidInput

__all__ = ["shop"]
WANTED = 40
SMALL = """
group: {group}
events:
  - {{name: one, statement: "UPDATE <item> SET a = '{group}', b = 1.5 WHERE p = 'p1' AND c = 1"}}
  - {{name: two, statement: "INSERT INTO <item> (p, c, a) VALUES ('p0', 15, '{group}')"}}
"""
RAISE = """
group: raise
events:
  - {name: read, many: true, statement: "SELECT * FROM <wanted>"}
  - name: change
    each: read
    after: [read]
    statement: UPDATE <item> SET a = :v, b = :b, seen = :at WHERE p = :p AND c = :c
    values: {at: "2024-03-01 12:00:00Z"}
    needs:
      - {event: read, as: p}
      - {event: read, as: c}
      - {event: read, as: v, sql: "if(n = 7, null, v || '-' || n)"}
      - {event: read, as: b, sql: "cast(n * 1.19 as decimal(20, 2))"}
  - name: brief
    each: read
    after: [read]
    statement: INSERT INTO <few> (p, c, a) VALUES (:p, :c, :v) USING TTL 5000
    needs: [{event: read, as: p}, {event: read, as: c}, {event: read, as: v}]
"""
CLEAR = """
group: clear
events:
  - {name: read, many: true, statement: "SELECT p, c FROM <wanted> WHERE n < 10 ALLOW FILTERING"}
  - name: change
    each: read
    after: [read]
    statement: DELETE FROM <item> WHERE p = :p AND c = :c
    needs: [{event: read, as: p}, {event: read, as: c}]
"""
CELLS = "p, c, a, b, seen, writetime(a), writetime(b), writetime(seen), ttl(a)"


@pytest.fixture
def copy(make_journal: Callable[..., Journal]) -> Journal:
    """Return a keyspace with the tables of the shop, which are empty."""
    return make(make_journal)


def executed_in_order(shop: Journal, folder: Path, *texts: str) -> None:
    wanted(shop, WANTED)
    folder.mkdir()
    for text in texts:
        executed(shop, folder, text)


def cells(journal: Journal) -> dict[str, Any]:
    found = {}
    for name in ("item", "few"):
        rows = cql(journal, f"SELECT {CELLS} FROM {{{name}}}")
        for row in rows:
            row["ttl(a)"] = row["ttl(a)"] is not None
        found[name] = sorted(map(str, rows))
    return found


@pytest.mark.long
def test_many_rows_are_played_with_their_write_times_and_compared(
    shop: Journal, copy: Journal, tmp_path: Path
) -> None:
    first, second = (SMALL.format(group=name) for name in ("first", "second"))
    executed_in_order(shop, tmp_path / "groups", first, RAISE, second, CLEAR)
    # What was found then is kept.
    cql(shop, "TRUNCATE {wanted}")
    shown = play(shop, copy)
    # Of `item` all but the 10 that were deleted; one that is left was written by few and many.
    assert differences(shown) == {"rows_compared": 70, "rows_only_in_source": 70}
    assert shown.report["lines"][-1] == "and 50 more"
    assert cells(copy) == {"item": [], "few": []}
    result = play(shop, copy, "--apply")
    counts = result.report["counts"]
    assert differences(result) == {"rows_compared": 70}
    assert (counts["groups_played"], counts["groups_left_out"]) == (4, 0)
    assert (counts["events_played"], counts["statements_played"]) == (7, 4 + 2 * WANTED + 10)
    assert cells(copy) == cells(shop)
    [late] = cql(copy, "SELECT a, b FROM {item} WHERE p = 'p2' AND c = 12")
    assert (late["a"], str(late["b"])) == ("v12-12", "14.28")
    cql(copy, "UPDATE {item} SET a = 'newer' WHERE p = 'p2' AND c = 12")
    cql(shop, "UPDATE {item} SET a = 'secret', b = 1 WHERE p = 'p0' AND c = 15")
    cql(shop, "UPDATE {item} SET seen = 1 WHERE p = 'p1' AND c = 21")
    cql(shop, "DELETE FROM {few} WHERE p = 'p2' AND c = 12")
    # By keys of a delete, and not by those of rows that no group has written.
    cql(shop, "INSERT INTO {item} (p, c, b) VALUES ('p4', 4, 1)")
    cql(shop, "INSERT INTO {item} (p, c, b) VALUES ('p4', 400, 1)")
    result = play(shop, copy, "--apply")
    [late] = cql(copy, "SELECT a FROM {item} WHERE p = 'p2' AND c = 12")
    assert late["a"] == "newer"
    assert differences(result) == {
        **{"rows_compared": 71, "rows_different": 3},
        **{"rows_only_in_source": 1, "rows_only_in_target": 1},
    }
    item, few = (f"{shop.keyspace}.{name}" for name in ("item", "few"))
    assert sorted(result.report["lines"][-5:]) == sorted(
        [
            f'{item} p "p0", c 15: a, b',
            f'{item} p "p1", c 21: seen',
            f'{item} p "p2", c 12: a',
            f'{item} p "p4", c 4: only in {shop.keyspace}',
            f'{few} p "p2", c 12: only in {copy.keyspace}',
        ]
    )
    assert "secret" not in result.stdout


def test_what_is_not_kept_any_more_is_refused_in_a_line(
    shop: Journal, copy: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed_in_order(shop, tmp_path / "groups", SMALL.format(group="first"), CLEAR)

    def refusal() -> str:
        result = play(shop, copy, "--apply")
        assert result.status != 0
        [line] = result.error_lines
        assert cells(copy) == {"item": [], "few": []}
        return line

    shop.control.execute_ddl(f"ALTER TABLE {table(shop.keyspace, 'wanted')} DROP p")
    said = refusal()
    assert "the event change of the group clear cannot be played: there is no column p of" in said
    assert "let the tables have the columns of then" in said
    selected = table(shop.keyspace, "wanted")
    shop.control.execute_ddl(f"DROP TABLE {selected}")
    assert f"there is no table {shop.keyspace}.wanted any more" in refusal()
    shop.control.execute_ddl(f"CREATE TABLE {selected} ({TABLES['wanted']})")
    key = ("stream", "group_id", "event", "kind", "part", "id")
    row = next(one for one in shop.own_rows("named_result") if one["kind"] == "result")
    where = " AND ".join(f"{name} = ?" for name in key)
    kept, sizes = (table(shop.own_keyspace, one) for one in ("named_result", "named_result_size"))
    shop.control.execute(f"DELETE FROM {kept} WHERE {where}", [row[name] for name in key])
    gone = "what was stored of the event read of the group clear is not there"
    assert gone in refusal()
    where = "WHERE stream = 'default' AND group_id = 'clear'"
    shop.control.execute(f"DELETE FROM {sizes} {where}")
    assert gone in refusal()

    def refuse(*_: object) -> None:
        raise InvalidInput("Spark is started", where="here", do="do not")

    monkeypatch.setattr(spark_session, "open_session", refuse)
    assert "Spark is started" in refusal()
    result = play(shop, copy, "--group", "first", "--apply")
    assert result.report["counts"]["statements_played"] == 2


@pytest.mark.long
def test_a_playback_of_many_rows_that_died_is_repeated(
    shop: Journal, copy: Journal, tmp_path: Path
) -> None:
    executed_in_order(shop, tmp_path / "groups", RAISE, CLEAR)
    with dying_after(Seam.MANY_ROWS_SENT, 2):
        play(shop, copy, "--apply")
    assert cells(copy) not in (cells(shop), {"item": [], "few": []})
    play(shop, copy, "--apply")
    assert cells(copy) == cells(shop)


@pytest.mark.long
def test_what_expired_since_stays_away(shop: Journal, copy: Journal, tmp_path: Path) -> None:
    executed_in_order(shop, tmp_path / "groups", RAISE)
    name = table(shop.own_keyspace, "group_event")
    key = "stream = 'default' AND group_id = 'raise' AND event = 'brief'"
    [row] = shop.control.execute(f"SELECT write_time FROM {name} WHERE {key}")

    def aged(seconds: int) -> None:
        at = row["write_time"] - seconds * 1_000_000
        shop.control.execute(f"UPDATE {name} SET write_time = ? WHERE {key}", (at,))

    aged(5001)
    play(shop, copy, "--apply")
    assert cql(copy, "SELECT * FROM {few}") == []
    aged(1000)
    play(shop, copy, "--apply")
    left = cql(copy, "SELECT ttl(a) AS ttl FROM {few}")
    assert len(left) == WANTED
    assert all(row["ttl"] <= 4000 for row in left)
    shop.control.execute_ddl(f"ALTER TABLE {table(shop.keyspace, 'wanted')} DROP n")
    [said] = play(shop, copy, "--apply").error_lines
    assert "cannot be played" in said
    assert "`n`" in said
