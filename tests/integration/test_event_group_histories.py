"""Random event groups, executed by runs that die anywhere.

What is left in the end is what a sequential model says: of each group all that it does, or nothing;
or of one whose events stand for themselves, what did not fail and did not depend on a failure.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.faults.dying import Died, dying_after
from tests.integration.support import Journal
from tests.integration.test_event_groups import SEAMS
from tidemark.cassandra.schema import table

ROWS = [(f"p{place // 3}", place % 3) for place in range(12)]
COLUMNS = ("a", "b")
SEEDS = 40
SAMPLE = 1
Rows = dict[tuple[str, int], dict[str, str | None]]


class Writer:
    """A writer of random groups over one table."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self._rng, self._name, self._count = rng, name, 0

    def group(self) -> dict[str, Any]:
        """Return a group: each row of it is written by events one after the other."""
        rng = self._rng
        self._count += 1
        rows = rng.sample(ROWS, rng.randint(1, 4))
        events: list[dict[str, Any]] = []
        last: dict[tuple[str, int], str] = {}
        for number in range(rng.randint(1, 7)):
            row = rng.choice(rows)
            before = {last[row]} if row in last else set()
            before |= {rng.choice(events)["name"] for _ in range(rng.randint(0, 1)) if events}
            event = self._event(f"e{number}", row)
            events.append(event | ({"after": sorted(before)} if before else {}))
            last[row] = event["name"]
        group: dict[str, Any] = {"group": f"g{self._count}", "events": events}
        if rng.random() < 0.3:
            group["policy"] = "one-for-one"
        if rng.random() < 0.7:
            group["rows"] = [
                {"table": self._name, "key": {"p": p, "c": str(c)}} for p, c in sorted(last)
            ]
        return group

    def _event(self, name: str, row: tuple[str, int]) -> dict[str, Any]:
        rng = self._rng
        key = {"p": row[0], "c": str(row[1])}
        value = f"{self._count}-{name}"
        kind = rng.choice(["insert", "update", "update", "clear", "delete", "empty", "fail"])
        where = "WHERE p = :p AND c = :c"
        column = rng.choice(COLUMNS)
        statements: dict[str, tuple[str, dict[str, str]]] = {
            "insert": (f"INSERT INTO {self._name} (p, c, a) VALUES (:p, :c, :v)", {"v": value}),
            "update": (f"UPDATE {self._name} SET {column} = :v {where}", {"v": value}),
            "clear": (f"DELETE {column} FROM {self._name} {where}", {}),
            "delete": (f"DELETE FROM {self._name} {where}", {}),
            "fail": (f"UPDATE {self._name} SET n = :v {where}", {"v": "no number"}),
        }
        if kind == "empty" or (kind == "fail" and rng.random() < 0.5):
            return {"name": name}
        statement, values = statements[kind]
        return {"name": name, "statement": statement, "values": {**key, **values}}


def model(groups: list[dict[str, Any]], begin: Rows) -> tuple[Rows, set[tuple[str, int]]]:
    """Return what groups leave, one after the other; and which rows may count as inserted since.

    Those are rows that were there, and that a group has deleted or inserted into and rolled back.
    """
    rows = {key: dict(row) for key, row in begin.items()}
    marked: set[tuple[str, int]] = set()
    for group in groups:
        after = {key: dict(row) for key, row in rows.items()}
        failed: set[str] = set()
        for event in group["events"]:
            statement = event.get("statement", "")
            if failed & set(event.get("after", ())) or " n = " in statement:
                failed.add(event["name"])
            elif statement:
                apply(after, statement, event["values"])
        if not failed or group.get("policy") == "one-for-one":
            rows = after
        else:
            marked |= rows.keys() & {
                (event["values"]["p"], int(event["values"]["c"]))
                for event in group["events"]
                if event.get("statement", "").startswith(("DELETE FROM", "INSERT"))
            }
    return rows, marked


def apply(rows: Rows, statement: str, values: dict[str, str]) -> None:
    """Apply one statement as Cassandra does: a row without columns that no insert made is gone."""
    key = values["p"], int(values["c"])
    made: dict[str, str | None] = {"made": None, "a": None, "b": None}
    words = statement.split()
    if words[0] == "INSERT":
        rows.setdefault(key, made)
        rows[key] |= {"a": values["v"], "made": "yes"}
    elif words[0] == "UPDATE":
        rows.setdefault(key, made)
        rows[key][words[3]] = values["v"]
    elif words[1] == "FROM":
        rows.pop(key, None)
    elif key in rows:
        rows[key][words[1]] = None
    if key in rows and not any(rows[key].values()):
        del rows[key]


def stored(journal: Journal) -> Rows:
    return {
        (row["p"], row["c"]): {name: row[name] for name in COLUMNS} for row in journal.rows("cell")
    }


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=[] if seed < SAMPLE else pytest.mark.soak) for seed in range(SEEDS)],
)
def test_groups_whose_runs_die_leave_all_of_a_group_or_nothing(
    make_journal: Callable[..., Journal], tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    journal = make_journal()
    name = f"{journal.keyspace}.cell"
    columns = "p text, c int, a text, b text, n int, PRIMARY KEY (p, c)"
    journal.control.execute_ddl(f"CREATE TABLE {table(journal.keyspace, 'cell')} ({columns})")
    begin: Rows = {}
    for p, c in ROWS[::2]:
        begin[p, c] = {"made": "yes", "a": "old", "b": None}
        journal.insert("cell", [{"p": p, "c": c, "a": "old"}])
    writer = Writer(rng, name)
    groups: list[dict[str, Any]] = []
    for turn in range(5):
        new = [writer.group() for _ in range(rng.randint(1, 8))]
        files = []
        for group in new:
            file = tmp_path / f"{group['group']}.yaml"
            file.write_text(json.dumps(group))
            files.append(str(file))
        result = journal.run("run_event_groups", "submit", *files)
        assert result.status == 0, result.stderr
        groups += new
        for _ in range(rng.randint(0, 3) if turn < 4 else 0):
            with dying_after(rng.choice(SEAMS), rng.randint(1, 12)), suppress(Died):
                journal.run("run_event_groups")
    assert journal.run("run_event_groups").status in (0, 3)
    assert journal.run("run_event_groups").report["state"] == "nothing-to-do"
    rows, marked = model(groups, begin)
    expected = {key: {name: row[name] for name in COLUMNS} for key, row in rows.items()}
    found = stored(journal)
    for key in marked & found.keys() - expected.keys():
        if not any(found[key].values()):
            del found[key]
    assert found == expected
