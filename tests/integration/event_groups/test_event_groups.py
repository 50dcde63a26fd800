"""Event groups over a real Cassandra: executed as a whole, rolled back, restarted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.support import Journal, Result
from tidemark.cassandra import conditional
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.event_groups.builder import EventGroup, row
from tidemark.event_groups.stream import holding, store
from tidemark.event_groups.stream.states import StoredEvent

TABLES = {
    "account": "id text PRIMARY KEY, total decimal, note text, seen timestamp",
    "posting": "account text, n int, amount decimal, PRIMARY KEY (account, n)",
}


def make_tables(journal: Journal) -> None:
    for name, columns in TABLES.items():
        made = f"CREATE TABLE {table(journal.keyspace, name)} ({columns})"
        journal.control.execute_ddl(made)


@pytest.fixture
def shop(make_journal: Callable[..., Journal]) -> Journal:
    """Return a keyspace with accounts, and what was posted on them."""
    return stocked(make_journal)


def stocked(make_journal: Callable[..., Journal]) -> Journal:
    journal = make_journal()
    make_tables(journal)
    cql(journal, "INSERT INTO {account} (id, total, note) VALUES ('ann', 10.50, 'old')")
    cql(journal, "UPDATE {account} USING TTL 5000 SET seen = 1000 WHERE id = 'ann'")
    for number in (1, 2, 3):
        cql(journal, "INSERT INTO {posting} (account, n, amount) VALUES ('ann', ?, 3.5)", number)
    return journal


def cql(journal: Journal, text: str, *values: object) -> list[Any]:
    names = {name: table(journal.keyspace, name) for name in TABLES}
    return list(journal.control.execute(text.format(**names), values))


def state(journal: Journal) -> list[list[dict[str, Any]]]:
    return [sorted(journal.rows(name), key=lambda row: str(row.values())) for name in TABLES]


def submit(journal: Journal, folder: Path, *texts: str, **variables: str) -> Result:
    files = []
    for text in texts:
        for name in TABLES:
            text = text.replace(f"<{name}>", f"{journal.keyspace}.{name}")
        file = folder / f"{len(list(folder.iterdir()))}.yaml"
        file.write_text(text)
        files.append(str(file))
    return journal.run("run_event_groups", "submit", *files, **variables)


def executed(journal: Journal, status: int = 0) -> dict[str, Any]:
    result = journal.run("run_event_groups")
    assert result.status == status, result.stderr
    report: dict[str, Any] = result.report
    return report


CORRECTION = """
group: correction
rows:
  - {table: <account>, key: {id: ann}}
  - {table: <account>, key: {id: bob}}
  - {table: <posting>, key: {account: ann}}
events:
  - name: read
    statement: SELECT total, note FROM <account> WHERE id = :id
    values: {id: ann}
    expect: one
  - name: correct
    statement: UPDATE <account> SET note = 'new', seen = :at WHERE id = :id
    values: {id: ann, at: "2024-03-01 12:00:00Z"}
    after: [read]
  - name: copy
    statement: INSERT INTO <account> (id, total, note) VALUES (:id, :total, :note)
    values: {id: bob}
    needs:
      - {event: read, as: total}
      - {event: read, as: note, take: note}
    after: [read]
  - name: clear
    statement: DELETE FROM <posting> WHERE account = 'ann' AND n > 1
    after: [correct]
"""
FAILING = (
    CORRECTION
    + """
  - name: check
    statement: SELECT n FROM <posting> WHERE account = 'ann'
    expect: none
    after: [clear, copy]
"""
)


def test_a_group_is_executed_as_a_whole_and_data_goes_from_event_to_event(
    shop: Journal, tmp_path: Path
) -> None:
    assert submit(shop, tmp_path, CORRECTION).status == 0
    assert executed(shop)["counts"] == {"groups_done": 1, "groups_held": 0}
    accounts = {row["id"]: row for row in shop.rows("account")}
    assert accounts["ann"]["note"] == "new"
    assert accounts["ann"]["seen"].isoformat() == "2024-03-01T12:00:00"
    assert (str(accounts["bob"]["total"]), accounts["bob"]["note"]) == ("10.50", "old")
    assert [row["n"] for row in shop.rows("posting")] == [1]
    again = submit(shop, tmp_path, CORRECTION)
    assert "correction: was submitted before as number 1" in again.report["lines"]
    assert executed(shop)["state"] == "nothing-to-do"
    # The same in other words.
    group = yaml.load(CORRECTION, yaml.BaseLoader) | {"policy": "all-for-one"}
    group["events"][1]["values"] = dict(reversed(group["events"][1]["values"].items()))
    again = submit(shop, tmp_path, json.dumps(group))
    assert "correction: was submitted before as number 1" in again.report["lines"]
    changed = submit(shop, tmp_path, CORRECTION.replace("'new'", "'newer'"))
    assert "another group correction was submitted before" in changed.error_lines[0]


def test_a_group_that_fails_is_rolled_back_to_what_was_there(shop: Journal, tmp_path: Path) -> None:
    before = state(shop)
    submit(shop, tmp_path, FAILING)
    report = executed(shop, 3)
    [line] = report["lines"]
    assert line == "correction: rolled-back: check: it has found 1 rows, and expects none"
    assert state(shop) == before
    [left] = cql(shop, "SELECT ttl(seen) AS ttl FROM {account} WHERE id = 'ann'")
    assert 4000 < left["ttl"] <= 5000
    shown = shop.run("run_event_groups", "status", "correction").report["lines"]
    assert shown[0].startswith("1 correction: rolled-back check")
    assert f"  clear (delete {shop.keyspace}.posting): rolled-back" in shown
    assert {row["operation"] for row in shop.own_rows("audit")} >= {"event group rolled-back"}


def test_a_group_that_was_built_in_python_does_what_one_in_yaml_does(
    shop: Journal, tmp_path: Path
) -> None:
    account, posting = (f"{shop.keyspace}.{name}" for name in ("account", "posting"))
    at = datetime(2024, 3, 1, 13, tzinfo=timezone(timedelta(hours=1)))
    rows = [row(account, id="bob"), row(posting, account="bob", n=7)]
    group = EventGroup("built", rows=rows, reads=[row(account, id="ann")])
    read = group.event("read", f"SELECT total FROM {account} WHERE id = 'ann'", expect="one")
    group.event(
        "copy",
        f"INSERT INTO {account} (id, total, seen) VALUES (:id, :total, :seen)",
        values={"id": "bob", "seen": at},
        needs=[read.column("total")],
    )
    post = f"INSERT INTO {posting} (account, n, amount) VALUES ('bob', :n, :amount)"
    group.event("post", post, values={"n": 7, "amount": Decimal("0.10")})
    group.save(tmp_path / "built.yaml")
    assert shop.run("run_event_groups", "submit", str(tmp_path / "built.yaml")).status == 0
    executed(shop)
    [bob] = [one for one in shop.rows("account") if one["id"] == "bob"]
    assert (bob["total"], bob["seen"]) == (
        Decimal("10.50"),
        at.astimezone(UTC).replace(tzinfo=None),
    )
    [posted] = [one for one in shop.rows("posting") if one["account"] == "bob"]
    assert (posted["n"], posted["amount"]) == (7, Decimal("0.10"))


def meddle(
    monkeypatch: pytest.MonkeyPatch, event: str, state: str, write: Callable[[], None]
) -> None:
    """Let somebody write as soon as an event has ended in a state."""
    owner, name = Seam.EVENT_ENDED.place()
    end = getattr(owner, name)

    def and_meddle(self: Any, group: str, name: str, ended: StoredEvent) -> None:
        end(self, group, name, ended)
        if name == event and ended.state == state:
            write()

    monkeypatch.setattr(owner, name, and_meddle)


def test_what_somebody_else_has_written_since_is_not_rolled_back(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write() -> None:
        cql(shop, "UPDATE {account} SET note = 'theirs' WHERE id = 'ann'")
        cql(shop, "UPDATE {account} SET seen = 5000 WHERE id = 'bob'")
        cql(shop, "INSERT INTO {posting} (account, n, amount) VALUES ('ann', 3, 7)")

    meddle(monkeypatch, "check", "failed", write)
    submit(shop, tmp_path, FAILING)
    executed(shop, 3)
    accounts = {row["id"]: row for row in shop.rows("account")}
    assert accounts["ann"]["note"] == "theirs"
    assert accounts["ann"]["seen"].isoformat() == "1970-01-01T00:00:01"
    # The account that the group has made is gone, but for their value.
    assert (accounts["bob"]["total"], accounts["bob"]["note"]) == (None, None)
    amounts = {row["n"]: str(row["amount"]) for row in shop.rows("posting")}
    assert amounts == {1: "3.5", 2: "3.5", 3: "7"}


def test_nor_is_what_somebody_else_has_written_between_two_events(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write() -> None:
        cql(shop, "UPDATE {account} SET note = 'theirs' WHERE id = 'ann'")

    meddle(monkeypatch, "correct", "done", write)
    submit(shop, tmp_path, FAILING)
    executed(shop, 3)
    [left] = shop.rows("account")
    assert (left["note"], left["seen"].isoformat()) == ("theirs", "1970-01-01T00:00:01")


def test_a_group_whose_submission_is_under_way_is_not_passed_by_a_run(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = conditional.compare_and_set
    submit(shop, tmp_path, ALONE)

    def and_run(control: Any, name: str, *rest: Any, **more: Any) -> bool:
        written = write(control, name, *rest, **more)
        if "event_group" in name:
            shop.run("run_event_groups")
        return written

    with monkeypatch.context() as patched:
        patched.setattr(conditional, "compare_and_set", and_run)
        assert submit(shop, tmp_path, CORRECTION).status == 0
    shop.run("run_event_groups")
    assert {row["id"]: row["state"] for row in shop.own_rows("event_group")} == {
        **{"alone": "partly-done", "correction": "done"},
    }


def test_a_stream_whose_groups_were_all_purged_goes_on(shop: Journal, tmp_path: Path) -> None:
    submit(shop, tmp_path, CORRECTION)
    executed(shop)
    for name, of in (("event_group", "id"), ("event_group_order", "sequence")):
        [row] = [one for one in shop.own_rows(name) if one["id"] == "correction"]
        shop.control.execute(
            f"DELETE FROM {table(shop.own_keyspace, name)} WHERE stream = ? AND {of} = ?",
            (row["stream"], row[of]),
        )
    submit(shop, tmp_path, ALONE)
    assert executed(shop, 3)["counts"]["groups_partly_done"] == 1


def test_an_event_that_writes_a_row_that_its_group_has_not_declared_fails(
    shop: Journal, tmp_path: Path
) -> None:
    before = state(shop)
    text = CORRECTION.replace("  - {table: <account>, key: {id: bob}}\n", "")
    refused = submit(shop, tmp_path, text)
    assert refused.status == 2
    assert "that the group has not declared (" in refused.error_lines[0]
    # What is known only when it is executed.
    text = text.replace("    values: {id: bob}\n", "").replace(
        "    needs:\n", "    needs:\n      - {event: read, as: id, sql: \"'bob'\"}\n"
    )
    assert submit(shop, tmp_path, text).status == 0
    [line] = executed(shop, 3)["lines"]
    assert "copy: it writes a row of" in line
    assert "that the group has not declared" in line
    assert state(shop) == before


ALONE = """
group: alone
policy: one-for-one
events:
  - {name: good, statement: "UPDATE <account> SET note = 'kept' WHERE id = 'ann'"}
  - name: bad
    statement: INSERT INTO <account> (id, total) VALUES ('eve', :total)
    values: {total: much}
  - {name: behind, statement: "DELETE FROM <account> WHERE id = 'ann'", after: [bad]}
"""


def test_one_for_one_leaves_out_what_depends_on_a_failure(shop: Journal, tmp_path: Path) -> None:
    submit(shop, tmp_path, ALONE)
    [line] = executed(shop, 3)["lines"]
    assert line.startswith("alone: partly-done: bad: Cassandra refused a statement")
    assert [(row["id"], row["note"]) for row in shop.rows("account")] == [("ann", "kept")]
    states = {row["event"]: row["state"] for row in shop.own_rows("group_event")}
    assert states == {"good": "done", "bad": "failed", "behind": "skipped"}


def test_a_statement_that_cassandra_refuses_is_not_sent_again(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    execute = Control.execute_named

    def and_count(self: Control, text: str, *rest: Any) -> Any:
        sent.append(text)
        return execute(self, text, *rest)

    monkeypatch.setattr(Control, "execute_named", and_count)
    submit(shop, tmp_path, ALONE)
    executed(shop, 3)
    assert len([text for text in sent if text.startswith("INSERT")]) == 1


@pytest.fixture
def clerk(shop: Journal) -> Iterator[dict[str, str]]:
    """Yield the login of a user who may read the shop, and write accounts only."""
    name = f"clerk_of_{shop.keyspace}"
    shop.control.execute_ddl(f"CREATE ROLE {name} WITH LOGIN = true AND PASSWORD = 'clerk'")
    for granted in (
        f"ALL PERMISSIONS ON KEYSPACE {shop.own_keyspace}",
        f"SELECT ON KEYSPACE {shop.keyspace}",
        f"MODIFY ON TABLE {table(shop.keyspace, 'account')}",
    ):
        shop.control.execute_ddl(f"GRANT {granted} TO {name}")
    yield {"CASSANDRA_USERNAME": name, "CASSANDRA_PASSWORD": "clerk"}
    shop.control.execute_ddl(f"DROP ROLE {name}")


def test_what_the_user_may_not_write_fails_its_event_and_not_the_run(
    shop: Journal, tmp_path: Path, clerk: dict[str, str]
) -> None:
    before = state(shop)
    forbidden = CORRECTION.replace(
        "DELETE FROM <posting> WHERE account = 'ann' AND n > 1",
        "UPDATE <posting> SET amount = 1 WHERE account = 'ann' AND n = 1",
    )
    permitted = "UPDATE <account> SET note = 'x' WHERE id = 'eve'"
    allowed = f'group: allowed\nevents: [{{name: a, statement: "{permitted}"}}]\n'
    assert submit(shop, tmp_path, forbidden, allowed).status == 0
    result = shop.run("run_event_groups", **clerk)
    assert result.status == 3, result.stderr
    [line] = result.report["lines"]
    assert "correction: rolled-back: clear: Cassandra does not permit this to user" in line
    assert {row["id"]: row["state"] for row in shop.own_rows("event_group")} == {
        **{"correction": "rolled-back", "allowed": "done"},
    }
    [eve] = cql(shop, "SELECT note FROM {account} WHERE id = 'eve'")
    assert eve["note"] == "x"
    cql(shop, "DELETE FROM {account} WHERE id = 'eve'")
    assert state(shop) == before


BACK_IN_TWO_TABLES = """
group: back
events:
  - name: write
    statement: UPDATE <account> SET note = 'wrong' WHERE id = 'ann'
    rollback:
      statements:
        - {statement: "UPDATE <posting> SET amount = 3.5 WHERE account = 'ann' AND n = 1"}
        - {statement: "UPDATE <account> SET note = 'old' WHERE id = 'ann'"}
  - {name: fail, statement: "SELECT id FROM <account>", expect: none, after: [write]}
"""


def test_a_way_back_that_the_user_may_not_write_is_left_to_one_who_may(
    shop: Journal, tmp_path: Path, clerk: dict[str, str]
) -> None:
    before = state(shop)
    assert submit(shop, tmp_path, BACK_IN_TWO_TABLES).status == 0
    [line] = shop.run("run_event_groups", **clerk).report["lines"]
    assert "back: rollback-failed: fail: it has found" in line
    assert "write is not rolled back: Cassandra does not permit" in line
    # By somebody who may.
    assert shop.run("run_event_groups", "retry", "back", "--apply").status == 0
    assert executed(shop, 3)["counts"]["groups_rolled_back"] == 1
    assert state(shop) == before


COMPENSATED = """
group: NAME
rows: [{table: <account>, key: {id: ann}}]
events:
  - name: write
    statement: UPDATE <account> SET note = :note WHERE id = :id
    values: {id: ann, note: wrong}
    rollback:
      statements:
        - statement: UPDATE <account> SET note = :back WHERE id = :id
          values: {back: BACK}
        - {statement: "UPDATE <account> SET total = :sum WHERE id = :id", values: {sum: SUM}}
  - name: fail
    statement: SELECT id FROM <account> WHERE id = 'ann'
    expect: none
    after: [write]
"""


def compensated(name: str, back: str, total: str) -> str:
    text = COMPENSATED.replace("NAME", name).replace("BACK", back)
    return text.replace("SUM", total)


def test_a_rollback_that_fails_holds_the_groups_that_may_touch_its_rows(
    shop: Journal, tmp_path: Path
) -> None:
    free = CORRECTION.replace("correction", "free").replace("ann", "carl").replace("one", "none")
    free = free.replace("needs:", "values: {id: bob, total: 1, note: x}").split("  - name: copy")[0]
    broken = compensated("broken", "mended", "much")
    behind = compensated("behind", "mended", "1")
    assert submit(shop, tmp_path, broken, behind, free).status == 0
    report = executed(shop, 3)
    assert report["counts"] == {
        **{"groups_rollback_failed": 1, "groups_done": 1, "groups_held": 1},
    }
    assert "is not rolled back" in report["lines"][0]
    assert "1 group cannot run before" in report["lines"][1]
    refused = shop.run("run_event_groups", "retry", "behind", "--apply")
    assert "the group behind is submitted, and not rollback-failed" in refused.error_lines[0]
    assert shop.run("run_event_groups", "cancel", "behind", "--apply").status == 0
    assert shop.run("run_event_groups", "retry", "broken", "--apply").status == 0
    assert executed(shop, 3)["counts"]["groups_rollback_failed"] == 1


FREE = """
group: NAME
rows: [{table: <account>, key: {id: NAME}}]
events:
  - {name: write, statement: "INSERT INTO <account> (id, note) VALUES ('NAME', 'free')"}
"""


def test_groups_are_read_in_parts_and_each_is_executed_once(
    shop: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "_TOGETHER", 3)
    monkeypatch.setattr(holding, "MOST_EVENTS", 4)
    monkeypatch.setattr(store, "_PAGE", 2)
    free = [FREE.replace("NAME", f"free-{number}") for number in range(7)]
    broken, behind = compensated("broken", "mended", "much"), compensated("behind", "mended", "1")
    assert submit(shop, tmp_path, *free[:4], broken, free[4], behind, *free[5:]).status == 0
    assert executed(shop, 3)["counts"] == {
        **{"groups_done": 7, "groups_rollback_failed": 1, "groups_held": 1},
    }
    notes = {row["id"]: row["note"] for row in shop.rows("account")}
    assert notes == {"ann": "mended"} | {f"free-{number}": "free" for number in range(7)}
    ends = [row for row in shop.own_rows("audit") if row["operation"].startswith("event group")]
    audited = Counter(row["subject"] for row in ends)
    assert audited == Counter(["broken", *(f"free-{number}" for number in range(7))])


SEAMS = (
    Seam.GROUP_STATE_SET,
    Seam.IMAGES_KEPT,
    Seam.EVENT_BEGUN,
    Seam.STATEMENT_SENT,
    Seam.EVENT_ENDED,
    Seam.ROW_RESTORED,
)


@pytest.mark.parametrize(
    ("seam", "calls", "fails"),
    [
        pytest.param(seam, calls, fails, marks=[pytest.mark.long] if calls == 2 else [])
        for fails in (False, True)
        for seam in SEAMS
        for calls in (1, 2, 3)
        # Nothing is restored of a group that does not fail, and it changes its state twice.
        if fails or (seam is not Seam.ROW_RESTORED and (seam, calls) != (Seam.GROUP_STATE_SET, 3))
    ],
)
def test_a_run_that_dies_anywhere_is_ended_by_the_next(
    shop: Journal, tmp_path: Path, seam: Seam, calls: int, *, fails: bool
) -> None:
    before = state(shop)
    submit(shop, tmp_path, FAILING if fails else CORRECTION)
    with dying_after(seam, calls):
        shop.run("run_event_groups")
    again = shop.run("run_event_groups")
    # It may have died after all was done.
    assert again.status == (3 if fails and again.report["state"] == "failed" else 0), again.stderr
    assert shop.run("run_event_groups").report["state"] == "nothing-to-do"
    audited = {row["operation"] for row in shop.own_rows("audit")}
    assert f"event group {'rolled-back' if fails else 'done'}" in audited
    if fails:
        assert state(shop) == before
    else:
        assert [row["note"] for row in state(shop)[0]] == ["new", "old"]
        assert [row["n"] for row in shop.rows("posting")] == [1]


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ("UPDATE <account> SET total = 1 WHERE ident = 'x'", "has no column ident"),
        ("UPDATE <account>s SET total = 1 WHERE id = 'x'", "there is no table"),
        ("DELETE FROM <posting> WHERE n = 1", "Cassandra refuses it: Some partition key parts"),
        ("DELETE FROM <posting> WHERE account IN ('a', 'b')", "deletes rows of partitions that"),
        ("UPDATE <posting> SET amount = 1 WHERE account = 'a' AND n IN (1, 2)", "whole key"),
        ("SELECT n FROM <posting> WHERE amount = 1", "Cassandra refuses it: Cannot execute"),
        ("UPDATE OWN.lock SET owner = 'x' WHERE resource = 'y'", "belongs to Tidemark"),
        ("SELECT owner FROM OWN.lock WHERE resource = 'y'", "belongs to Tidemark"),
        ("SELECT role FROM system_auth.roles", "belongs to Cassandra"),
        ("DELETE FROM JOURNAL.tag_views WHERE tag_name = 'x'", "belongs to Pekko"),
    ],
)
def test_what_cassandra_knows_to_be_wrong_is_refused_before_anything_is_submitted(
    shop: Journal, tmp_path: Path, event: str, says: str
) -> None:
    event = event.replace("OWN", shop.own_keyspace).replace("JOURNAL", shop.keyspace)
    text = f'group: wrong\nevents:\n  - {{name: e, statement: "{event}"}}\n'
    result = submit(shop, tmp_path, CORRECTION, text)
    assert result.status == 2
    assert says in result.error_lines[0]
    assert shop.run("run_event_groups", "--dry-run").report["counts"]["groups_open"] == 0


def test_a_list_is_refused_since_it_would_have_its_elements_twice(
    shop: Journal, tmp_path: Path
) -> None:
    columns = "id text PRIMARY KEY, tags list<text>, kept frozen<list<text>>"
    shop.control.execute_ddl(f"CREATE TABLE {table(shop.keyspace, 'bag')} ({columns})")
    text = f"""
group: lists
events:
  - name: write
    statement: UPDATE {shop.keyspace}.bag SET COLUMN = :tags WHERE id = 'a'
    values: {{tags: [a, b]}}
    rollback: none
"""
    refused = submit(shop, tmp_path, text.replace("COLUMN", "tags"))
    assert "is a list, which has its elements twice" in refused.error_lines[0]
    assert submit(shop, tmp_path, text.replace("COLUMN", "kept")).status == 0
    with dying_after(Seam.STATEMENT_SENT, 1):
        shop.run("run_event_groups")
    executed(shop)
    [row] = shop.rows("bag")
    assert row["kept"] == ["a", "b"]


def test_tables_of_cassandra_itself_are_not_written(shop: Journal, tmp_path: Path) -> None:
    for name in ("system.local", "system_schema.tables", "system_auth.roles"):
        text = f'group: g\nevents: [{{name: a, statement: "DELETE FROM {name} WHERE key = 1"}}]\n'
        result = submit(shop, tmp_path, text)
        assert result.status == 2
        assert f"{name} belongs to Cassandra" in result.error_lines[0]


@pytest.mark.parametrize(
    ("statement", "rest"),
    [
        ("UPDATE <account> SET seen = 'now' WHERE id = 'ann'", ""),
        ("UPDATE <account> SET seen = :at WHERE id = 'ann'", "values: {at: Now}"),
        ("INSERT INTO <account> (id, seen) VALUES ('ann', :at)", "values: {at: ' now '}"),
        ("SELECT id FROM <account> WHERE seen < 'now' ALLOW FILTERING", ""),
        (
            "UPDATE <account> SET note = 'now' WHERE id = 'ann'",
            "rollback: {statements: [{values: {at: now}, statement: "
            "\"UPDATE <account> SET seen = :at WHERE id = 'ann'\"}]}",
        ),
    ],
)
def test_now_as_a_time_is_refused_since_it_is_another_one_each_time(
    shop: Journal, tmp_path: Path, statement: str, rest: str
) -> None:
    text = f'group: g\nevents:\n  - name: e\n    statement: "{statement}"\n    {rest}\n'
    refused = submit(shop, tmp_path, text)
    assert refused.status == 2
    name = f"{shop.keyspace}.account"
    assert f" of {name} gets `now`, which is another time" in refused.error_lines[0]


def test_now_out_of_a_result_fails_its_event(shop: Journal, tmp_path: Path) -> None:
    text = """
group: g
events:
  - {name: read, statement: "SELECT note FROM <account> WHERE id = 'ann'"}
  - name: e
    statement: UPDATE <account> SET seen = :note WHERE id = 'ann'
    needs: [{event: read, as: note}]
    after: [read]
"""
    cql(shop, "UPDATE {account} SET note = 'now' WHERE id = 'ann'")
    assert submit(shop, tmp_path, text).status == 0
    [line] = executed(shop, 3)["lines"]
    assert line.startswith("g: rolled-back: e: the column seen gets `now`")
