"""Groups that run at the same time: what they read and write, and when two keys are one row."""

from __future__ import annotations

import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.faults.dying import Died
from tests.faults.killing import expire_locks
from tests.integration.event_groups.test_event_groups import cql, executed, shop, submit
from tests.integration.support import Journal, Result
from tidemark.cassandra.schema import create_own_tables, table
from tidemark.context import RunContext
from tidemark.event_groups.definition.file import GroupDefinition
from tidemark.event_groups.definition.model import Event
from tidemark.event_groups.driver_engine.few_rows import DriverEngine
from tidemark.event_groups.stream.owned_tables import OwnedTables, TableTaken, Users
from tidemark.event_groups.stream.store import Stream

__all__ = ["shop"]
SLOW = "import time\n\n\ndef value(asked):\n    time.sleep(3)\n    return 'x'\n"


@pytest.fixture
def sleeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a need that takes 3 s."""
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "slow.py").write_text(SLOW)
    monkeypatch.setenv("TIDEMARK_EVENT_GROUP_FUNCTIONS_DIR", str(tmp_path / "functions"))
    (tmp_path / "groups").mkdir()
    return '{as: slow, call: "slow:value"}'


WRITES = """
group: writes
rows: [{table: <account>, key: {id: ann}}]
events:
  - {name: write, statement: "UPDATE <account> SET total = 999 WHERE id = 'ann'"}
  - name: wait
    statement: UPDATE <account> SET note = :slow WHERE id = 'ann'
    needs: [SLEEPS]
    after: [write]
  - name: fail
    statement: SELECT id FROM <account> WHERE id = 'ann'
    expect: none
    after: [wait]
"""
READS = """
group: reads
rows: [{table: <account>, key: {id: bob}}]
DECLARED
events:
  - name: read
    statement: SELECT total FROM <account> WHERE id = :id
    values: {id: ann}
    expect: one
  - name: copy
    statement: INSERT INTO <account> (id, total) VALUES ('bob', :total)
    needs: [{event: read, as: total}]
    after: [read]
"""


def of_all_rows(text: str) -> str:
    """Return a group whose select does not say which row it reads."""
    text = text.replace("DECLARED", "").replace(" WHERE id = :id\n    values: {id: ann}", "")
    assert "SELECT total FROM <account>\n" in text
    return text


@pytest.mark.parametrize("names_its_row", [True, False])
def test_a_group_does_not_read_what_another_may_take_back(
    shop: Journal,
    tmp_path: Path,
    sleeps: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    names_its_row: bool,
) -> None:
    has_written, send = threading.Event(), DriverEngine.send

    def sent(self: DriverEngine, event: Event, *rest: Any) -> list[str]:
        # A reader that did not wait would read while the other group has not failed yet.
        assert event.name != "read" or has_written.wait(60)
        rows = send(self, event, *rest)
        if event.name == "write":
            has_written.set()
        return rows

    monkeypatch.setattr(DriverEngine, "send", sent)
    writes, reads = WRITES.replace("SLEEPS", sleeps), of_all_rows(READS)
    if names_its_row:
        reads = READS.replace("DECLARED", "reads: [{table: <account>, key: {id: ann}}]")
    assert submit(shop, tmp_path / "groups", writes, reads).status == 0
    counts = executed(shop, 3)["counts"]
    assert counts == {"groups_rolled_back": 1, "groups_done": 1, "groups_held": 0}
    [bob] = cql(shop, "SELECT total FROM {account} WHERE id = 'bob'")
    assert str(bob["total"]) == "10.50"


def test_what_is_read_must_be_declared_if_anything_is(shop: Journal, tmp_path: Path) -> None:
    declared = "reads: [{table: <account>, key: {id: carl}}]"
    refused = submit(shop, tmp_path, READS.replace("DECLARED", declared))
    assert refused.status == 2
    assert "it reads a row of" in refused.error_lines[0]
    assert "; add it to `reads`" in refused.error_lines[0]


def test_a_dry_run_says_why_a_group_runs_alone(shop: Journal, tmp_path: Path) -> None:
    text = of_all_rows(READS)
    assert submit(shop, tmp_path, text).status == 0
    [file] = tmp_path.iterdir()
    text = file.read_text().replace("group: reads", "group: more")
    file.write_text(text)
    lines = shop.run("run_event_groups", "submit", "--dry-run", str(file)).report["lines"]
    assert lines[1].startswith("runs alone, since read selects rows that are not declared; ")


READ_ANN = """events:
  - {name: read, statement: "SELECT id FROM <account> WHERE id = 'ann'"}"""


def test_a_statement_that_takes_back_keeps_to_the_declared_rows(
    shop: Journal, tmp_path: Path
) -> None:
    text = """
group: g
rows: [{table: <account>, key: {id: ann}}]
events:
  - name: w
    statement: UPDATE <account> SET note = 'new' WHERE id = :id
    values: {id: ann}
    rollback:
      statements:
        - {statement: "UPDATE <account> SET note = 'x' WHERE id = :other", values: {other: bob}}
  - {name: fail, statement: "SELECT id FROM <account> WHERE id = 'ann'", expect: none, after: [w]}
"""
    refused = submit(shop, tmp_path, text)
    assert refused.status == 2
    assert "it writes a row of" in refused.error_lines[0]
    # What is known only when it is executed.
    of_event = "needs: [{event: read, as: other, sql: \"'bob'\"}]\n    after: [read]"
    text = text.replace(", values: {other: bob}", "").replace("values: {id: ann}", of_event)
    text = text.replace("'new' WHERE id = :id", ":other WHERE id = 'ann'")
    text = text.replace("events:", READ_ANN)
    assert submit(shop, tmp_path, text).status == 0
    [line] = executed(shop, 3)["lines"]
    assert "w is not rolled back: it writes a row of" in line
    assert not cql(shop, "SELECT id FROM {account} WHERE id = 'bob'")


ADDS = """
group: NAME
rows: [{table: TABLE, key: {id: ID}}]
events:
  - {name: read, statement: "SELECT n FROM TABLE WHERE id = :id", values: {id: ID}, expect: one}
  - name: add
    statement: UPDATE TABLE SET n = :sum WHERE id = :id
    values: {id: ID}
    needs:
      - {event: read, as: sum, sql: n + 10}
    after: [read]
"""


def test_a_row_is_one_row_however_its_key_is_written(shop: Journal, tmp_path: Path) -> None:
    name = table(shop.keyspace, "counted")
    shop.control.execute_ddl(f"CREATE TABLE {name} (id uuid PRIMARY KEY, n int)")
    key = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    shop.control.execute(f"INSERT INTO {name} (id, n) VALUES ({key}, 1)")
    text = ADDS.replace("TABLE", f"{shop.keyspace}.counted")
    one = text.replace("NAME", "one").replace("ID", key.upper())
    two = text.replace("NAME", "two").replace("ID", key)
    assert submit(shop, tmp_path, one, two).status == 0
    lines = shop.run("run_event_groups", "--dry-run").report["lines"]
    assert lines == ["together: one", "together: two"]
    # Its own statements name the row in either form.
    mixed = text.replace("NAME", "mixed").replace("ID", key.upper(), 1).replace("ID", key)
    assert submit(shop, tmp_path, mixed).status == 0
    assert executed(shop)["counts"]["groups_done"] == 3
    assert [row["n"] for row in shop.rows("counted")] == [31]
    again = submit(shop, tmp_path, one.replace(key.upper(), key, 1))
    assert "one: was submitted before as number 1" in again.report["lines"]


def test_a_key_that_is_no_value_of_its_column_is_refused_at_its_place(
    shop: Journal, tmp_path: Path
) -> None:
    text = f"""
group: g
rows: [{{table: {shop.keyspace}.posting, key: {{account: ann, n: many}}}}]
events: [{{name: a}}]
"""
    refused = submit(shop, tmp_path, text)
    assert refused.status == 2
    assert "'many' is no int (" in refused.error_lines[0]
    assert "; write a whole number" in refused.error_lines[0]


NULLS = """
group: NAME
events:
  - name: w
    statement: UPDATE <account> SET note = :note, total = :total WHERE id = 'ann'
    values: VALUES
"""


@pytest.mark.parametrize(
    ("values", "note", "total"),
    [
        ("{note: null, total: ~}", None, None),
        ('{"note": null, "total": 1.5}', None, Decimal("1.5")),
        ('{note: "null", total: 1}', "null", Decimal(1)),
        ("{note: , total: 1}", None, Decimal(1)),
        ('{note: "", total: 1}', "", Decimal(1)),
    ],
)
def test_a_null_is_a_null_and_a_text_in_quotes_a_text(
    shop: Journal, tmp_path: Path, values: str, note: Any, total: Any
) -> None:
    submit(shop, tmp_path, NULLS.replace("NAME", "nulls").replace("VALUES", values))
    executed(shop)
    [ann] = cql(shop, "SELECT note, total FROM {account} WHERE id = 'ann'")
    assert (ann["note"], ann["total"]) == (note, total)


def test_nulls_are_rolled_back(shop: Journal, tmp_path: Path) -> None:
    before = shop.rows("account")
    text = NULLS.replace("NAME", "nulls").replace("VALUES", "{note: null, total: null}")
    text += """
  - {name: fail, statement: "SELECT id FROM <account> WHERE id = 'ann'", expect: none, after: [w]}
"""
    submit(shop, tmp_path, text)
    executed(shop, 3)
    assert shop.rows("account") == before


MEETS = """
import pathlib
import time


def value(asked):
    here = pathlib.Path(__file__).parent / "met"
    here.mkdir(exist_ok=True)
    (here / f"{asked['group']}-{asked['event']}").touch()
    end = time.monotonic() + 60
    while len(list(here.iterdir())) < 2:
        if time.monotonic() > end:
            raise ValueError("alone")
        time.sleep(0.05)
    return "met"
"""
MEETING = """
  - name: NAME
    statement: UPDATE <account> SET note = :n WHERE id = 'NAME'
    timeout: 60
    needs: [{as: n, call: "meets:value", timeout: 90}]
"""


@pytest.mark.parametrize("are_groups", [False, True])
def test_what_does_not_depend_overlaps(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, are_groups: bool
) -> None:
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "meets.py").write_text(MEETS)
    monkeypatch.setenv("TIDEMARK_EVENT_GROUP_FUNCTIONS_DIR", str(tmp_path / "functions"))
    (tmp_path / "groups").mkdir()
    one, two = MEETING.replace("NAME", "one"), MEETING.replace("NAME", "two")
    texts = [f"group: both\nevents:{one}{two}"]
    if are_groups:
        rows = "rows: [{table: <account>, key: {id: NAME}}]"
        texts = [
            f"group: g-{name}\n{rows.replace('NAME', name)}\nevents:{event}"
            for name, event in (("one", one), ("two", two))
        ]
    assert submit(shop, tmp_path / "groups", *texts).status == 0
    assert executed(shop)["counts"]["groups_done"] == len(texts)
    notes = {row["id"]: row["note"] for row in shop.rows("account")}
    assert notes == {"ann": "old", "one": "met", "two": "met"}


WRITING, READING = (
    f"group: {{name}}\nevents:\n  - name: e\n    statement: {statement}\n"
    for statement in (
        "UPDATE <account> SET note = 'x' WHERE id = 'ann'",
        "SELECT note FROM <account> WHERE id = 'ann'",
    )
)

HOOK = """hooks:
  after:
    - if: failed
      submit:
        group: undo
        events:
          - {name: e, statement: "SELECT note FROM <account> WHERE id = 'ann'"}
"""


def submitted(shop: Journal, folder: Path, text: str, stream: str) -> Result:
    for name in ("account", "posting"):
        text = text.replace(f"<{name}>", f"{shop.keyspace}.{name}")
    file = folder / f"{len(list(folder.iterdir()))}.yaml"
    file.write_text(text)
    return shop.run("run_event_groups", "submit", str(file), "--stream", stream)


def test_static_columns_are_written_by_groups_that_declare_their_partition(
    shop: Journal, tmp_path: Path
) -> None:
    shop.control.execute_ddl(f"ALTER TABLE {table(shop.keyspace, 'posting')} ADD owner text static")
    text = (
        "group: g\nrows: [{table: <posting>, key: {KEY}}]\nevents:\n  - name: e\n    statement: "
        "INSERT INTO <posting> (account, n, owner) VALUES ('ann', 1, 'x')\n"
        "    rollback: {statements: [{statement: "
        "\"DELETE owner FROM <posting> WHERE account = 'ann'\"}]}\n"
    )
    refused = submit(shop, tmp_path, text.replace("KEY", "account: ann, n: 1"))
    assert refused.status == 2
    name = f"{shop.keyspace}.posting"
    says = f"it writes static columns of a partition of {name} that the group has not declared"
    assert says in refused.error_lines[0]
    assert submit(shop, tmp_path, text.replace("KEY", "account: ann")).status == 0
    assert executed(shop)["counts"]["groups_done"] == 1
    # Nor may its way back, or two of the rows of one statement.
    update = "UPDATE <posting> SET amount = 1 WHERE account = 'ann' AND n = 1"
    back = text.replace("INSERT INTO <posting> (account, n, owner) VALUES ('ann', 1, 'x')", update)
    back = back.replace("group: g", "group: back")
    refused = submit(shop, tmp_path, back.replace("KEY", "account: ann, n: 1"))
    assert refused.status == 2
    assert says in refused.error_lines[0]
    each = """
group: each
rows: [{table: <posting>, key: {account: ann}}]
events:
  - {name: read, statement: "SELECT n FROM <posting> WHERE account = 'ann'"}
  - name: write
    statement: INSERT INTO <posting> (account, n, owner) VALUES ('ann', :n, :owner)
    after: [read]
    each: read
    needs:
      - {event: read, as: n, sql: n}
      - {event: read, as: owner, sql: "cast(n AS string)"}
    rollback: none
"""
    assert submit(shop, tmp_path, each).status == 0
    [line] = executed(shop, 3)["lines"]
    says = "it gives static columns of the partition ann more than one value"
    assert says in line
    cast = each.replace(":owner)", "(text) :owner)").replace("group: each", "group: cast")
    assert submit(shop, tmp_path, cast).status == 0
    [line] = executed(shop, 3)["lines"]
    assert says in line
    # Of a partition that only Cassandra knows, nobody can tell.
    unknown = cast.replace("rows: [{table: <posting>, key: {account: ann}}]\n", "")
    unknown = unknown.replace("VALUES ('ann',", "VALUES ((text) :owner,").replace("cast\n", "c\n")
    assert submit(shop, tmp_path, unknown).status == 0
    assert executed(shop)["counts"]["groups_done"] == 1


def test_a_group_that_is_refused_takes_no_table(shop: Journal, tmp_path: Path) -> None:
    assert submitted(shop, tmp_path, WRITING.format(name="g"), "one").status == 0
    delete = "DELETE FROM <posting> WHERE account = 'ann'"
    other = f'group: g\nevents: [{{name: e, statement: "{delete}"}}]'
    assert submitted(shop, tmp_path, other, "one").status == 2
    assert submitted(shop, tmp_path, other, "two").status == 0


def test_a_group_whose_table_was_released_while_it_was_submitted_is_not_executed(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert submitted(shop, tmp_path, WRITING.format(name="before"), "one").status == 0
    assert shop.run("run_event_groups", "--stream", "one").status == 0
    submit_it = Stream.submit

    def released_first(self: Stream, definition: GroupDefinition) -> tuple[int, bool]:
        monkeypatch.setattr(Stream, "submit", submit_it)
        name = f"{shop.keyspace}.account"
        assert shop.run("run_event_groups", "release", name, "--apply").status == 0
        assert submitted(shop, tmp_path, WRITING.format(name="b"), "two").status == 0
        return submit_it(self, definition)

    monkeypatch.setattr(Stream, "submit", released_first)
    assert submitted(shop, tmp_path, WRITING.format(name="a"), "one").status == 0
    refused = shop.run("run_event_groups", "--stream", "one")
    assert refused.status == 3
    name = f"{shop.keyspace}.account"
    do = f"submit it to that stream, or run `run_event_groups.py release {name}` if it is over"
    reason = f"groups of the stream two use the table {name}; {do}"
    assert refused.report["lines"] == [f"a: rolled-back: {reason}"]
    states = {row["id"]: row["state"] for row in shop.own_rows("event_group")}
    assert states == {"before": "done", "a": "rolled-back", "b": "submitted"}


def changing_first(monkeypatch: pytest.MonkeyPatch, does: Callable[[], None]) -> None:
    """Let something happen between the look of `release` at the open groups and its change."""
    change = OwnedTables.change

    def first(self: OwnedTables, name: str, expected: Users, users: Users) -> bool:
        if not users.all:
            monkeypatch.setattr(OwnedTables, "change", change)
            does()
        return change(self, name, expected, users)

    monkeypatch.setattr(OwnedTables, "change", first)


def test_a_group_that_is_submitted_while_its_table_is_released_takes_it_again(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert submitted(shop, tmp_path, WRITING.format(name="before"), "one").status == 0
    assert shop.run("run_event_groups", "--stream", "one").status == 0

    def submit_it() -> None:
        assert submitted(shop, tmp_path, WRITING.format(name="a"), "one").status == 0

    changing_first(monkeypatch, submit_it)
    name = f"{shop.keyspace}.account"
    assert shop.run("run_event_groups", "release", name, "--apply").status == 0
    assert shop.run("run_event_groups", "--stream", "one").report["counts"]["groups_done"] == 1
    assert submitted(shop, tmp_path, WRITING.format(name="b"), "two").status == 2


def test_a_release_that_sleeps_while_a_run_takes_the_table_fails(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ("--stream", "one", "--run-id", "nightly")
    assert submitted(shop, tmp_path, WRITING.format(name="before"), "one").status == 0
    assert shop.run("run_event_groups", *run).status == 0

    def run_it() -> None:
        expire_locks(shop)
        assert submitted(shop, tmp_path, WRITING.format(name="a"), "one").status == 0
        assert shop.run("run_event_groups", *run).report["counts"]["groups_done"] == 1

    changing_first(monkeypatch, run_it)
    name = f"{shop.keyspace}.account"
    refused = shop.run("run_event_groups", "release", name, "--apply")
    assert refused.status == 2
    assert f"the streams that use the table {name} have changed" in refused.error_lines[0]
    assert submitted(shop, tmp_path, WRITING.format(name="b"), "two").status == 2


def test_no_table_is_released_and_no_group_settled_while_a_run_works_on_the_stream(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert submitted(shop, tmp_path, WRITING.format(name="before"), "one").status == 0
    assert shop.run("run_event_groups", "--stream", "one").status == 0
    prepare = DriverEngine.prepare
    refused: list[Result] = []

    def and_ask(self: DriverEngine, event: Event) -> Any:
        if not refused:
            cancel = ("cancel", "g", "--stream", "one", "--apply")
            assert shop.run_alone("run_event_groups", *cancel).status == 0
            for words in (
                ("settle", "g", "--stream", "one", "--as", "rolled-back"),
                ("release", f"{shop.keyspace}.account"),
            ):
                refused.append(shop.run_alone("run_event_groups", *words, "--apply"))
        return prepare(self, event)

    monkeypatch.setattr(DriverEngine, "prepare", and_ask)
    assert submitted(shop, tmp_path, WRITING.format(name="g"), "one").status == 0
    shop.run("run_event_groups", "--stream", "one")
    assert [one.status for one in refused] == [1, 1]
    assert all("event-groups/one is held by" in one.error_lines[0] for one in refused)
    assert {row["state"] for row in shop.own_rows("event_group")} == {"done", "rolled-back"}


def test_a_group_that_is_refused_takes_none_of_its_tables(shop: Journal) -> None:
    run = RunContext("run-event-groups", shop.settings(), shop.control, "1")
    create_own_tables(run.control, run.settings)
    owned = OwnedTables(run)
    owned.take("two", {"shop.b": True})
    with pytest.raises(TableTaken):
        owned.take("one", {"shop.a": True, "shop.b": False}, executes=True)
    assert owned.users("shop.a") == Users()


def test_a_submission_that_died_does_not_keep_its_tables(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise Died

    with monkeypatch.context() as dying:
        dying.setattr(Stream, "_place", dies)
        with pytest.raises(Died):
            submitted(shop, tmp_path, WRITING.format(name="a"), "one")
    name = f"{shop.keyspace}.account"
    assert shop.run("run_event_groups", "release", name, "--apply").status == 0
    assert submitted(shop, tmp_path, WRITING.format(name="b"), "two").status == 0
    refused = submitted(shop, tmp_path, WRITING.format(name="a"), "one")
    assert refused.status == 2
    assert "groups of the stream two use the table" in refused.error_lines[0]
    assert shop.run("run_event_groups", "--stream", "two").status == 0
    assert shop.run("run_event_groups", "release", name, "--apply").status == 0
    assert submitted(shop, tmp_path, WRITING.format(name="a"), "one").status == 0
    assert shop.run("run_event_groups", "--stream", "one").report["counts"]["groups_done"] == 1


def test_a_table_that_a_stream_writes_is_refused_to_others(shop: Journal, tmp_path: Path) -> None:
    assert submitted(shop, tmp_path, READING.format(name="r1"), "one").status == 0
    r2 = READING.format(name="r2") + HOOK
    assert submitted(shop, tmp_path, r2, "two").status == 0
    # Two streams read it, so neither may write it.
    refused = submitted(shop, tmp_path, WRITING.format(name="w1"), "one")
    assert refused.status == 2
    [line] = refused.error_lines
    name = f"{shop.keyspace}.account"
    assert f"groups of the stream two use the table {name} (" in line
    waits = shop.run("run_event_groups", "release", name, "--apply")
    assert waits.status == 2
    assert f"the group r1 uses the table {name}, and is submitted" in waits.error_lines[0]
    for stream in ("one", "two"):
        assert shop.run("run_event_groups", "--stream", stream).status == 0
    planned = shop.run("run_event_groups", "release", name)
    assert f"{name}: is not used by one, two any more" in planned.report["lines"]
    assert submitted(shop, tmp_path, WRITING.format(name="w1"), "one").status == 2
    assert shop.run("run_event_groups", "release", name, "--apply").status == 0
    assert {row["operation"] for row in shop.own_rows("audit")} >= {"event group table released"}
    assert submitted(shop, tmp_path, WRITING.format(name="w1"), "one").status == 0
    for text in (READING.format(name="r3"), WRITING.format(name="w2")):
        refused = submitted(shop, tmp_path, text, "two")
        assert refused.status == 2
        assert f"groups of the stream one use the table {name} (" in refused.error_lines[0]
    again = submitted(shop, tmp_path, r2, "two")
    assert again.status == 0, again.stderr
    assert again.report["lines"] == ["r2: was submitted before as number 1"]
    nothing = shop.run("run_event_groups", "release", "no.table", "--apply")
    assert nothing.status == 2


def test_of_two_streams_that_take_a_table_at_once_one_gets_it(shop: Journal) -> None:
    run = RunContext("run-event-groups", shop.settings(), shop.control, "1")
    create_own_tables(run.control, run.settings)
    owned = OwnedTables(run)
    name = "shop.orders"
    assert owned.change(name, Users(), Users("one"))
    assert not owned.change(name, Users(), Users("two"))
    assert owned.users(name) == Users("one")
    assert owned.change(name, owned.users(name), Users())
    known = owned.users(name)
    assert owned.change(name, known, Users(readers=frozenset({"two", "three"})))
    assert not owned.change(name, known, Users("two"))
