"""What operators see of event groups: the lag of a stream, a group's report, and a preview."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.event_groups.test_event_groups import (
    CORRECTION,
    FAILING,
    compensated,
    cql,
    executed,
    shop,
    submit,
)
from tests.integration.support import Journal
from tidemark.cassandra.schema import table

__all__ = ["shop"]


def test_status_shows_how_far_a_stream_lags_and_who_holds_it(shop: Journal, tmp_path: Path) -> None:
    free = (
        CORRECTION.replace("correction", "free").replace("ann", "carl").replace("id: bob", "id: x")
    )
    broken, behind, last = (
        compensated(name, "mended", "much") for name in ("broken", "behind", "last")
    )
    # The last one only meets the one before it.
    row = "{table: <account>, key: {id: ann}}"
    zoe = row.replace("ann", "zoe")
    texts = [broken, behind.replace(row, f"{row}, {zoe}"), last.replace("ann", "zoe")]
    assert submit(shop, tmp_path, *texts).status == 0
    executed(shop, 3)
    assert submit(shop, tmp_path, free).status == 0
    submitted = datetime(2024, 3, 1, tzinfo=UTC)
    shop.control.execute(
        f"UPDATE {table(shop.own_keyspace, 'event_group')} SET submitted_at = ?"
        " WHERE stream = 'default' AND id = 'broken'",
        (submitted,),
    )
    least = (datetime.now(UTC) - submitted).total_seconds() - 1
    report = shop.run("run_event_groups", "status").report
    counts = report["counts"]
    assert counts.pop("oldest_open_seconds") >= least
    assert counts == {"groups_open": 4, "groups_held": 2, "oldest_open_sequence": 1}
    oldest, first, second, third, other, held = report["lines"]
    assert oldest == "the oldest was submitted at 2024-03-01T00:00:00Z"
    assert first.startswith("1 broken: rollback-failed fail: ")
    assert (second, third) == (
        "2 behind: submitted held by broken",
        "3 last: submitted held by broken",
    )
    assert other == "4 free: submitted"
    assert held == "broken, which is not rolled back, holds 2 groups"


def test_status_of_a_stream_without_open_groups_has_no_lag(shop: Journal) -> None:
    counts = shop.run("run_event_groups", "status").report["counts"]
    assert counts == {"groups_open": 0, "groups_held": 0, "oldest_open_seconds": 0}


def test_the_report_of_a_group_has_all_that_is_stored_of_it_but_values(
    shop: Journal, tmp_path: Path
) -> None:
    submit(shop, tmp_path, FAILING)
    executed(shop, 3)
    result = shop.run("run_event_groups", "status", "correction")
    group = result.report["details"]["group"]
    events = {event["event"]: event for event in group.pop("events")}
    assert (group["group"], group["stream"], group["sequence"]) == ("correction", "default", 1)
    assert (group["state"], group["policy"]) == ("rolled-back", "all-for-one")
    assert group["reason"] == "check: it has found 1 rows, and expects none"
    # Texts of them do not compare: a whole second is written without its fraction.
    assert datetime.fromisoformat(group["submitted_at"]) <= datetime.fromisoformat(
        group["updated_at"]
    )
    assert group["updated_at"] == group["ended_at"]
    assert {name: event["rows_kept"] for name, event in events.items()} == {
        **{"read": 0, "correct": 1, "copy": 1, "clear": 2, "check": 0},
    }
    copy = events["copy"]
    assert copy.pop("write_time") > 1_700_000_000_000_000
    assert datetime.fromisoformat(copy.pop("updated_at")) <= datetime.fromisoformat(
        group["ended_at"]
    )
    assert copy.pop("run_id") == group["run_id"]
    assert copy == {
        **{"event": "copy", "does": f"insert {shop.keyspace}.account", "after": ["read"]},
        **{"state": "rolled-back", "reason": "", "statements": 1, "parameters": 3},
        "rows_kept": 1,
    }
    assert events["read"]["write_time"] is None
    assert "bob" not in json.dumps([group, events, result.report["lines"]])


def test_the_report_of_a_group_that_has_not_begun_has_no_times_of_events(
    shop: Journal, tmp_path: Path
) -> None:
    submit(shop, tmp_path, CORRECTION)
    report = shop.run("run_event_groups", "status", "correction").report
    group = report["details"]["group"]
    assert (group["state"], group["updated_at"], group["ended_at"]) == ("submitted", None, None)
    states = {(one["state"], one["statements"], one["updated_at"]) for one in group["events"]}
    assert states == {("pending", 0, None)}


PREVIEWED = """
group: previewed
ROWS
events:
  - {name: read, statement: "SELECT n FROM <posting> WHERE account = 'ann'"}
  - {name: one, statement: "UPDATE <account> SET note = :n WHERE id = :id", values: {n: x, id: y}}
  - {name: some, statement: "DELETE FROM <posting> WHERE account = :a AND n > 1", values: {a: ann}}
  - name: many
    statement: DELETE FROM <posting> WHERE account = 'big'
    rollback: none
  - name: later
    statement: DELETE FROM <posting> WHERE account = 'ann' AND n > :n
    needs: [{event: read, as: n, sql: max(n)}]
    after: [read]
  - name: each
    statement: UPDATE <posting> SET amount = 1 WHERE account = 'ann' AND n = :n
    each: read
    needs: [{event: read, as: n}]
    after: [read]
  - name: wrong
    statement: DELETE FROM <posting> WHERE account = 'ann' AND n > :n
    values: {n: much}
"""


def test_a_dry_run_of_submit_shows_collisions_and_how_many_rows_are_touched(
    shop: Journal, tmp_path: Path
) -> None:
    shop.insert("posting", [{"account": "big", "n": n} for n in range(1001)])
    submit(shop, tmp_path, CORRECTION, compensated("behind", "x", "1"))
    posting = "{table: <posting>, key: {account: ann}}"
    big = posting.replace("ann", "big")
    rows = f"rows: [{{table: <account>, key: {{id: y}}}}, {posting}, {big}]"
    files = [
        PREVIEWED.replace("ROWS", ""),
        PREVIEWED.replace("previewed", "declared").replace("ROWS", rows),
        CORRECTION.replace("correction", "apart").replace("ann", "cid").replace("bob", "dan"),
        CORRECTION,
    ]
    names = {name: f"{shop.keyspace}.{name}" for name in ("account", "posting")}
    paths = []
    for number, text in enumerate(files):
        for name, full in names.items():
            text = text.replace(f"<{name}>", full)
        (tmp_path / f"preview{number}.yaml").write_text(text)
        paths.append(str(tmp_path / f"preview{number}.yaml"))
    before = cql(shop, "SELECT account, n FROM {posting}")
    result = shop.run("run_event_groups", "submit", "--dry-run", *paths)
    assert result.status == 0, result.stderr
    lines = result.report["lines"]
    assert lines[:2] == [
        "previewed",
        "runs alone, since it declares no rows; collides with 2 open groups: correction, behind",
    ]
    account, posting = names["account"], names["posting"]
    assert lines[2:11] == [
        "wave 1",
        f"  read: select {posting}",
        f"  one: update {account}, 1 row",
        f"  some: delete {posting}, 2 rows",
        f"  many: delete {posting}, more than 1,000 rows",
        lines[7],
        "wave 2",
        f"  later: delete {posting}, rows unknown until it runs  after read",
        f"  each: update {posting}, rows unknown until it runs  after read",
    ]
    assert lines[7].startswith(f"  wrong: delete {posting}, rows cannot be counted: ")
    second = lines.index("declared")
    assert lines[second + 1] == "collides with 2 open groups: correction, previewed"
    assert lines[lines.index("apart") + 1] == "collides with 1 open group: previewed"
    again = "collides with 3 open groups: behind, previewed, declared"
    assert lines[lines.index("correction") + 1] == again
    assert cql(shop, "SELECT account, n FROM {posting}") == before
    assert shop.run("run_event_groups", "status").report["counts"]["groups_open"] == 2


def test_a_group_is_submitted_and_executed_in_one_run(shop: Journal, tmp_path: Path) -> None:
    file = tmp_path / "group.yaml"
    text = CORRECTION
    for name in ("account", "posting"):
        text = text.replace(f"<{name}>", f"{shop.keyspace}.{name}")
    file.write_text(text)
    result = shop.run("run_event_groups", "submit", "--execute", str(file))
    assert result.status == 0, result.stderr
    counts = {"groups": 1, "groups_submitted": 1, "groups_done": 1, "groups_held": 0}
    assert result.report["counts"] == counts
    assert "correction: submitted as number 1" in result.report["lines"]
    [group] = shop.own_rows("event_group")
    assert group["state"] == "done"


def test_values_are_shown_before_and_after_where_they_are_asked_for(
    shop: Journal, tmp_path: Path
) -> None:
    account, posting = (f"{shop.keyspace}.{name}" for name in ("account", "posting"))
    text = CORRECTION.replace("<account>", account).replace("<posting>", posting)
    file = tmp_path / "group.yaml"
    file.write_text(text)
    planned = shop.run("run_event_groups", "plan", "--values", str(file))
    assert planned.status == 0, planned.stderr
    lines = planned.report["lines"]
    assert lines[lines.index("rows before and after") :] == [
        "rows before and after",
        f"  correct: {account} id=ann: note old -> new, "
        "seen 1970-01-01 00:00:01 -> 2024-03-01 12:00:00Z",
        "  copy: known when it runs",
        f"  clear: {posting} account=ann n=2: amount 3.5 -> null",
        f"  clear: {posting} account=ann n=3: amount 3.5 -> null",
    ]
    dry = shop.run("run_event_groups", "submit", "--dry-run", "--values", str(file))
    assert dry.report["lines"] == lines
    hidden = lines[: lines.index("rows before and after")]
    assert shop.run("run_event_groups", "plan", str(file)).report["lines"] == hidden
    assert not shop.own_rows("event_group")
    refused = shop.run("run_event_groups", "submit", "--values", str(file))
    assert refused.status == 2
    assert shop.run("run_event_groups", "submit", str(file)).status == 0
    with dying_after(Seam.EVENT_ENDED, 4):
        shop.run("run_event_groups")
    shown = shop.run("run_event_groups", "status", "correction", "--values").report["lines"]
    assert f"  copy: {account} id=bob: total null -> 10.50, note null -> old" in shown
    executed(shop)
    shown = shop.run("run_event_groups", "status", "correction", "--values").report["lines"]
    assert f"  copy: {account} id=bob: total ? -> 10.50, note ? -> old" in shown
    assert f"  clear: {posting} account=ann: the rows are deleted" in shown
    assert shop.run("run_event_groups", "status", "--values").status == 2
