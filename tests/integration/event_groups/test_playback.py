"""Event groups that have ended, played into copies of their tables, and what differs there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.event_groups.test_data import functions
from tests.integration.event_groups.test_event_groups import (
    compensated,
    cql,
    make_tables,
    shop,
    submit,
)
from tests.integration.support import Journal, Result, wait_until
from tidemark.cassandra import control as sessions
from tidemark.cassandra.schema import table
from tidemark.ledger.locks import Locks

__all__ = ["functions", "shop"]
OPENED = """
group: opened
events:
  - name: eve
    statement: INSERT INTO <account> (id, total, note) VALUES ('eve', :total, 'old')
    values: {total: 10.50}
  - name: seen
    statement: UPDATE <account> USING TTL 5000 SET seen = :at WHERE id = 'eve'
    values: {at: "2024-03-01 12:00:00Z"}
    after: [eve]
"""
for number in (1, 2, 3):
    OPENED += f"""
  - name: p{number}
    statement: INSERT INTO <posting> (account, n, amount) VALUES ('eve', {number}, 3.5)
"""
BROKEN = """
group: broken
events:
  - {name: write, statement: "UPDATE <account> SET note = 'never' WHERE id = 'eve'"}
  - {name: clear, statement: "DELETE FROM <posting> WHERE account = 'eve' AND n > 1"}
  - {name: check, statement: "SELECT n FROM <posting>", expect: none, after: [write, clear]}
"""
CORRECTED = """
group: corrected
policy: one-for-one
events:
  - {name: read, statement: "SELECT n, amount FROM <posting> WHERE account = 'eve'"}
  - name: double
    each: read
    statement: UPDATE <posting> SET amount = :amount WHERE account = 'eve' AND n = :n
    after: [read]
    needs: [{event: read, as: n}, {event: read, as: amount, sql: amount * 2}]
  - name: clear
    statement: DELETE FROM <posting> WHERE account = :account AND n > :n
    values: {account: eve, n: 2}
    after: [double]
  - name: note
    statement: UPDATE <account> SET note = :note WHERE id = 'eve'
    needs: [{as: note, call: "shop_functions:noted"}]
  - {name: bad, statement: "UPDATE <account> SET total = :t WHERE id = 'bad'", values: {t: much}}
  - {name: behind, statement: "DELETE FROM <account> WHERE id = 'eve'", after: [bad, note]}
"""
NEVER = """  - {name: never, statement: SELECT id FROM <account> WHERE id = 'ann', after: [fail]}
"""
CELLS = {
    "account": "id, total, note, seen, writetime(total), writetime(note), writetime(seen)",
    "posting": "account, n, amount, writetime(amount)",
}


@pytest.fixture
def copy(make_journal: Callable[..., Journal]) -> Journal:
    """Return a keyspace with the tables of the shop, which are empty."""
    journal = make_journal()
    make_tables(journal)
    return journal


@pytest.fixture
def played_once(shop: Journal, tmp_path: Path, functions: Path) -> Journal:
    """Return the shop without what was there before, after groups of all kinds."""
    for name in CELLS:
        shop.control.execute(f"TRUNCATE {table(shop.keyspace, name)}")
    folder = tmp_path / "groups"
    folder.mkdir()
    setting = {"EVENT_GROUP_FUNCTIONS_DIR": str(functions)}
    for text, status in ((OPENED, 0), (BROKEN, 3), (CORRECTED, 3)):
        assert submit(shop, folder, text, **setting).status == 0
        assert shop.run("run_event_groups", **setting).status == status
    assert submit(shop, folder, OPENED.replace("opened", "cancelled")).status == 0
    assert shop.run("run_event_groups", "cancel", "cancelled", "--apply").status == 0
    return shop


def cells(journal: Journal) -> dict[str, list[Any]]:
    return {
        name: sorted(
            (
                tuple(row.values())
                for row in journal.control.execute(
                    f"SELECT {columns} FROM {table(journal.keyspace, name)}"
                )
            ),
            key=str,
        )
        for name, columns in CELLS.items()
    }


def play(shop: Journal, copy: Journal, *options: str, **settings: str) -> Result:
    into = f"{shop.keyspace}={copy.keyspace}"
    return shop.run("run_event_groups", "playback", "--into", into, *options, **settings)


def differences(result: Result) -> dict[str, int]:
    assert result.status == 0, result.stderr
    counts = result.report["counts"]
    return {name: counts[name] for name in counts if name.startswith("r") and counts[name]}


def test_what_groups_have_left_is_played_into_a_copy_with_its_write_times(
    played_once: Journal, copy: Journal
) -> None:
    shop = played_once
    shown = play(shop, copy)
    assert differences(shown) == {"rows_compared": 3, "rows_only_in_source": 3}
    assert "dry run: nothing was changed; --apply does it" in shown.report["lines"]
    assert cells(copy) == {"account": [], "posting": []}
    result = play(shop, copy, "--apply")
    assert result.report["counts"] == {
        **{"groups_played": 2, "groups_left_out": 2, "events_played": 8, "statements_played": 10},
        **{"rows_compared": 3, "rows_different": 0, "rows_only_in_source": 0},
        **{"rows_only_in_target": 0, "ranges_not_compared": 0},
    }
    [account] = copy.rows("account")
    assert (account["note"], str(account["total"])) == ("corrected/note/note", "10.50")
    assert [str(row["amount"]) for row in copy.rows("posting")] == ["7.0", "7.0"]
    assert cells(copy) == cells(shop)
    audited = [row for row in shop.own_rows("audit") if "playback" in row["operation"]]
    assert sorted((row["operation"], row["dry_run"]) for row in audited) == [
        ("playback of event groups", False),
        ("playback of event groups", True),
        ("playback of event groups started", False),
    ]


def test_a_playback_that_died_is_repeated_and_never_wins_over_newer_writes(
    played_once: Journal, copy: Journal
) -> None:
    shop = played_once
    # In the first group; some of its statements are sent at the same time.
    with dying_after(Seam.STATEMENT_PLAYED, 2):
        play(shop, copy, "--apply")
    assert cells(copy) != {"account": [], "posting": []}
    assert cells(copy) != cells(shop)
    assert differences(play(shop, copy, "--apply")) == {"rows_compared": 3}
    assert cells(copy) == cells(shop)
    copy.control.execute(f"UPDATE {table(copy.keyspace, 'account')} SET note = 'x' WHERE id='eve'")
    again = play(shop, copy, "--apply")
    assert differences(again) == {"rows_compared": 3, "rows_different": 1}
    assert {row["note"] for row in copy.rows("account")} == {"x"}


def test_a_group_that_was_settled_as_done_plays_what_it_has_written(
    shop: Journal, copy: Journal, tmp_path: Path
) -> None:
    for name in CELLS:
        shop.control.execute(f"TRUNCATE {table(shop.keyspace, name)}")
    stuck = compensated("stuck", "repaired", "much") + NEVER
    assert submit(shop, tmp_path, OPENED, stuck).status == 0
    assert shop.run("run_event_groups").status == 3
    settled = shop.run("run_event_groups", "settle", "stuck", "--as", "done", "--apply")
    assert settled.status == 0, settled.stderr
    result = play(shop, copy, "--apply")
    assert result.status == 0, result.stderr
    assert [row["id"] for row in copy.rows("account")] == ["eve"]


@pytest.mark.long
def test_rows_that_were_changed_by_hand_are_told_without_their_values(
    played_once: Journal, copy: Journal
) -> None:
    shop = played_once
    play(shop, copy, "--apply")
    cql(shop, "UPDATE {account} SET note = 'secret', total = 1 WHERE id = 'eve'")
    cql(shop, "DELETE FROM {posting} WHERE account = 'eve' AND n = 1")
    cql(shop, "INSERT INTO {posting} (account, n, amount) VALUES ('eve', 9, 1)")
    # No group has written it.
    cql(shop, "INSERT INTO {posting} (account, n, amount) VALUES ('fay', 9, 1)")
    result = play(shop, copy)
    assert differences(result) == {
        **{"rows_compared": 4, "rows_different": 1},
        **{"rows_only_in_source": 1, "rows_only_in_target": 1},
    }
    posting, account = (f"{shop.keyspace}.{name}" for name in ("posting", "account"))
    assert sorted(result.report["lines"][-3:]) == [
        f'{account} id "eve": note, total',
        f'{posting} account "eve", n 1: only in {copy.keyspace}',
        f'{posting} account "eve", n 9: only in {shop.keyspace}',
    ]
    assert "secret" not in result.stdout
    one = play(shop, copy, "--group", "opened", "--apply")
    assert one.report["counts"]["groups_played"] == 1
    # Nothing that came since is written over.
    assert differences(one) == {"rows_compared": 3, "rows_different": 1, "rows_only_in_target": 1}


@pytest.mark.long
def test_only_the_first_differences_are_told_and_large_ranges_are_not_compared(
    shop: Journal, copy: Journal, tmp_path: Path
) -> None:
    (tmp_path / "groups").mkdir()
    rows = "".join(
        f"  - {{name: e{n}, statement: \"UPDATE <account> SET note = 'x' WHERE id = '{n}'\"}}\n"
        for n in range(25)
    )
    clear = "  - {name: clear, statement: \"DELETE FROM <posting> WHERE account = 'big'\"}\n"
    text = f"group: many\nevents:\n{rows}{clear}"
    assert submit(shop, tmp_path / "groups", text).status == 0
    assert shop.run("run_event_groups").status == 0
    shop.insert("posting", [{"account": "big", "n": n} for n in range(1001)])
    result = play(shop, copy)
    assert differences(result) == {
        **{"rows_compared": 25, "rows_only_in_source": 25, "ranges_not_compared": 1},
    }
    assert len(result.report["lines"]) == 2 + 20 + 1
    assert result.report["lines"][-1] == "and 6 more"


def test_a_ttl_goes_on_where_it_is(shop: Journal, copy: Journal, tmp_path: Path) -> None:
    (tmp_path / "groups").mkdir()
    text = """
group: brief
events:
  - {name: a, statement: "INSERT INTO <account> (id, note) VALUES ('a', 'old')"}
  - name: b
    statement: INSERT INTO <account> (id, note) VALUES ('a', 'gone') USING TTL 1
    after: [a]
  - {name: c, statement: "UPDATE <account> USING TTL 5000 SET note = 'x' WHERE id = 'c'"}
"""
    assert submit(shop, tmp_path / "groups", text).status == 0
    assert shop.run("run_event_groups").status == 0
    wait_until(
        "the row to expire",
        lambda: "a" not in {row["id"] for row in shop.rows("account")},
    )
    # As if it had been a thousand seconds ago.
    name = table(shop.own_keyspace, "group_event")
    key = "stream = 'default' AND group_id = 'brief' AND event = 'c'"
    [row] = shop.control.execute(f"SELECT write_time FROM {name} WHERE {key}")
    earlier = row["write_time"] - 1_000_000_000
    shop.control.execute(f"UPDATE {name} SET write_time = ? WHERE {key}", (earlier,))
    assert differences(play(shop, copy, "--apply")) == {"rows_compared": 1}
    [left] = copy.control.execute(
        f"SELECT id, ttl(note) AS ttl FROM {table(copy.keyspace, 'account')}"
    )
    assert left["id"] == "c"
    assert left["ttl"] <= 4000


def test_what_cannot_be_played_is_refused_in_a_line(
    played_once: Journal, copy: Journal, make_journal: Callable[..., Journal], tmp_path: Path
) -> None:
    shop, empty = played_once, make_journal()

    def refusal(*options: str, **settings: str) -> str:
        result = shop.run("run_event_groups", "playback", *options, "--apply", **settings)
        assert result.status in (2, 3)
        [line] = result.error_lines
        return line

    def into(target: str, *options: str, **settings: str) -> str:
        return refusal("--into", f"{shop.keyspace}={target}", *options, **settings)

    assert "'shop' names no two keyspaces" in refusal("--into", "shop")
    assert "is a keyspace that is played from" in into(shop.keyspace)
    assert "is Tidemark's own keyspace" in into(shop.own_keyspace)
    for name in ("JOURNAL", "SNAPSHOT", "KAFKA_JOURNAL", "PEKKO_PROJECTION"):
        said = into(copy.keyspace, **{f"{name}_KEYSPACE": copy.keyspace})
        assert f"{copy.keyspace} is a journal's keyspace" in said
    twice = ("--into", f"other={copy.keyspace}")
    assert "two keyspaces would go into" in into(copy.keyspace, *twice)
    unmapped = refusal("--into", f"other={copy.keyspace}")
    assert f"the group opened writes to {shop.keyspace}, and none takes its place" in unmapped
    assert f"there is no table {empty.keyspace}.account (event eve of" in into(empty.keyspace)
    assert "there is no group nobody" in into(copy.keyspace, "--group", "nobody")
    assert "a group has no range" in into(copy.keyspace, "--group", "opened", "--to", "1")
    assert "there are no groups from 1 to 5" in into(copy.keyspace, "--to", "5")
    folder = tmp_path / "later"
    folder.mkdir()
    submit(shop, folder, OPENED.replace("opened", "open"))
    assert "the group open, number 5, is submitted" in into(copy.keyspace, "--from", "5")
    assert "the group open, number 5, is submitted" in into(copy.keyspace, "--group", "open")
    order, event = (table(shop.own_keyspace, one) for one in ("event_group_order", "group_event"))
    shop.control.execute(f"DELETE FROM {order} WHERE stream = 'default' AND sequence = 2")
    hole = into(copy.keyspace, "--to", "3")
    assert "purge has deleted the groups from 2 to 2" in hole
    assert "begin with --from 3" in hole
    assert "purge has deleted the groups from 2 to 2" in into(copy.keyspace, "--to", "2")
    of_group = "WHERE stream = 'default' AND group_id = 'corrected'"
    shop.control.execute(f"DELETE FROM {event} {of_group}")
    assert "what was stored of the event bad" in into(copy.keyspace, "--from", "3", "--to", "3")
    copy.control.execute_ddl(f"ALTER TABLE {table(copy.keyspace, 'posting')} ADD more text")
    assert "posting: more (event p1 of the group opened)" in into(copy.keyspace, "--to", "1")
    assert cells(copy) == {"account": [], "posting": []}


def test_nothing_is_played_into_a_table_of_a_projection(
    played_once: Journal, copy: Journal, tmp_path: Path
) -> None:
    definition = f"""/*---
name: totals
version: 1
source: {{tags: [red]}}
mode: bucket
target: {copy.keyspace}.account
event: kind STRING
---*/
SELECT kind AS id FROM events
"""
    folder = tmp_path / "projections"
    folder.mkdir()
    (folder / "totals.sql").write_text(definition)
    result = play(played_once, copy, PROJECTIONS_DIR=str(folder))
    assert "belongs to the projection totals" in result.error_lines[0], result.stderr


@pytest.mark.parametrize("held", ["event-groups/default", "own_tables/OWN/event_group"])
def test_nobody_plays_while_somebody_else_works_on_the_groups(
    played_once: Journal, copy: Journal, held: str
) -> None:
    shop = played_once
    resource = held.replace("OWN", shop.own_keyspace)
    locks = Locks(shop.control, shop.own_keyspace, [resource], owner="o", run_id="r", ttl=60)
    with locks:
        result = play(shop, copy, "--apply")
    assert result.status == 1
    assert resource in result.error_lines[0]


def test_a_session_does_not_keep_every_statement_that_it_has_prepared(
    shop: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_PREPARED", 4)
    name = table(shop.keyspace, "posting")
    with sessions.Control(shop.settings()) as session:
        for _ in range(2):
            for n in range(6):
                found = session.execute(f"SELECT n FROM {name} WHERE account = 'ann' AND n = {n}")
                assert [row["n"] for row in found] == ([n] if 0 < n < 4 else [])
        assert session._prepare.cache_info().currsize == 4
