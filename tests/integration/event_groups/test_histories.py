"""Random streams of event groups, executed by runs that die, on machines whose clocks differ.

What is left in the end is what a sequential model says: of each group all that it does, or nothing;
or of one whose events are independent, what did not fail and did not depend on a failure. Some
statements time out, and arrive before the rollback or when all is over; some rollbacks fail, and
are tried again by hand. Rows are written by events with and without a path between them, and
copied from rows that other groups write. Values are of many types, and compared as they are stored.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.dying import dying_after
from tests.faults.seams import Seam
from tests.integration.event_groups.test_event_groups import SEAMS
from tests.integration.support import Journal
from tidemark.cassandra.control import Control
from tidemark.cassandra.schema import table
from tidemark.errors import CassandraUnavailable
from tidemark.event_groups import failure
from tidemark.event_groups.driver_engine.before_image import Restoring

ROWS = [(f"p{place // 3}", place % 3) for place in range(12)]
KINDS = {
    "a": "text",
    "d": "decimal",
    "f": "double",
    "m": "frozen<map<text, decimal>>",
    "t": "timestamp",
    "u": "blob",
}
VALUES: dict[str, tuple[Any, ...]] = {
    "d": ("10.50", "10.5", "12345678901234567.89", "1E-30"),
    "f": ("1.5", "1e300", "-0.0"),
    "m": ({"k": "1.10"}, {"k": "1.1", "l": "2"}),
    "t": ("1970-01-01T00:00:00.001Z", "2024-03-01T12:00:00Z"),
    "u": ("0x00ff", "0x"),
}
CELLS = f"p text, c int, {', '.join(f'{n} {kind}' for n, kind in KINDS.items())}, n int"
STREAMS = 300
SAMPLE = 3
Key = tuple[str, int]
Rows = dict[Key, dict[str, Any]]


class Writer:
    """A writer of random groups over one table."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self._rng, self._name, self._count = rng, name, 0

    def group(self) -> dict[str, Any]:
        """Return a group; its events on one row may have no path between them."""
        rng = self._rng
        self._count += 1
        rows = rng.sample(ROWS, rng.randint(1, 4))
        others = [row for row in ROWS if row not in rows]
        events: list[dict[str, Any]] = []
        last: dict[Key, str] = {}
        read: set[Key] = set()
        is_alone = rng.random() < 0.4
        for number in range(rng.randint(1, 7)):
            row = rng.choice(rows)
            # Of events that may fail alone those need an order that may leave nulls in one row.
            is_ordered = rng.random() < (0.8 if is_alone else 0.6)
            before = {last[row]} if row in last and is_ordered else set()
            before |= {rng.choice(events)["name"] for _ in range(rng.randint(0, 1)) if events}
            if rng.random() < 0.2:
                source = rng.choice(others)
                read.add(source)
                select = self._select(f"s{number}", source)
                events.append(select | ({"after": sorted(before)} if before else {}))
                event = self._copy(f"e{number}", row, select["name"])
                before = {select["name"]}
            else:
                event = self._event(f"e{number}", row)
            events.append(event | ({"after": sorted(before)} if before else {}))
            last[row] = event["name"]
        group: dict[str, Any] = {"group": f"g{self._count}", "events": events}
        if is_alone and not has_shared_nulls(events):
            group["policy"] = "one-for-one"
        if rng.random() < 0.7:
            group["rows"] = [self._declared(row) for row in sorted(last)]
            if read:
                group["reads"] = [self._declared(row) for row in sorted(read)]
        return group

    def _declared(self, row: Key) -> dict[str, Any]:
        # Whoever has written the number.
        c = self._rng.choice([str(row[1]), f"0{row[1]}"])
        return {"table": self._name, "key": {"p": row[0], "c": c}}

    def _select(self, name: str, row: Key) -> dict[str, Any]:
        statement = f"SELECT a FROM {self._name} WHERE p = :p AND c = :c"
        return {"name": name, "statement": statement, "values": {"p": row[0], "c": str(row[1])}}

    def _copy(self, name: str, row: Key, source: str) -> dict[str, Any]:
        return {
            "name": name,
            "statement": f"UPDATE {self._name} SET a = :v WHERE p = :p AND c = :c",
            "values": {"p": row[0], "c": str(row[1])},
            "needs": [{"event": source, "as": "v", "take": "a"}],
        }

    def _event(self, name: str, row: Key) -> dict[str, Any]:
        rng = self._rng
        key = {"p": row[0], "c": str(row[1])}
        kind = rng.choice(
            ["insert", "update", "update", "null", "clear", "delete", "late", "empty", "fail"]
        )
        where = "WHERE p = :p AND c = :c"
        column = rng.choice([*KINDS])
        own = f"{self._count}-{name}"
        value = rng.choice(VALUES.get(column, (own,)))
        statements: dict[str, tuple[str, dict[str, Any]]] = {
            "insert": (f"INSERT INTO {self._name} (p, c, a) VALUES (:p, :c, :v)", {"v": own}),
            "update": (f"UPDATE {self._name} SET {column} = :v {where}", {"v": value}),
            "null": (f"UPDATE {self._name} SET {column} = :v {where}", {"v": None}),
            "clear": (f"DELETE {column} FROM {self._name} {where}", {}),
            "delete": (f"DELETE FROM {self._name} {where}", {}),
            "late": (
                rng.choice(
                    [
                        f"UPDATE {self._name} SET a = :v {where}",
                        f"INSERT INTO {self._name} (p, c, a) VALUES (:p, :c, :v)",
                    ]
                ),
                {"v": f"late-{own}"},
            ),
            "fail": (f"UPDATE {self._name} SET n = :v {where}", {"v": "no number"}),
        }
        if kind == "empty":
            return {"name": name}
        statement, values = statements[kind]
        return {"name": name, "statement": statement, "values": {**key, **values}}


def has_shared_nulls(events: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether two events without an order may leave nulls in one row."""
    before: dict[str, set[str]] = {}
    nulls: list[Mapping[str, Any]] = []
    for event in events:
        above = {*event.get("after", ())}
        before[event["name"]] = above.union(*(before[name] for name in above))
        if not writes(event) or not (
            event["statement"].startswith("DELETE")
            or "needs" in event
            or event["values"]["v"] is None
        ):
            continue
        for other in nulls:
            mine, its = event["values"], other["values"]
            is_same = (mine["p"], mine["c"]) == (its["p"], its["c"])
            if is_same and other["name"] not in before[event["name"]]:
                return True
        nulls.append(event)
    return False


@dataclass
class World:
    """What goes wrong while groups are executed: a network, clocks, and permissions that fail."""

    rng: random.Random
    late: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    rollbacks_fail: float = 0

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let it go wrong from now on."""
        send, restore = Control.execute_named, Restoring.restore

        def sent(control: Control, text: str, values: Mapping[str, object], *rest: Any) -> Any:
            is_late = any(isinstance(one, str) and '"late-' in one for one in values.values())
            if not is_late or "tidemark_write_time" not in values:
                return send(control, text, values, *rest)
            if self.rng.random() < 0.3:
                # The answer is lost, and not the statement.
                send(control, text, values, *rest)
            else:
                self.late.append((text, dict(values)))
            raise CassandraUnavailable("the request timed out")

        def restored(restoring: Restoring, *rest: Any) -> None:
            if self.rng.random() < self.rollbacks_fail:
                raise KeyError("not now")
            restore(restoring, *rest)

        monkeypatch.setattr(Control, "execute_named", sent)
        monkeypatch.setattr(Restoring, "restore", restored)
        monkeypatch.setattr(failure, "_PAUSES_S", (0, 0))

    def deliver(self, control: Control) -> None:
        """Let everything arrive that is under way, in any order."""
        self.rng.shuffle(self.late)
        for text, values in self.late:
            control.execute_named(text, {**values}, 10)
        self.late.clear()


def fails(event: Mapping[str, Any]) -> bool:
    return " n = " in event.get("statement", "") or str(
        event.get("values", {}).get("v", "")
    ).startswith("late-")


def model(
    groups: list[dict[str, Any]], begin: Rows, written: Mapping[str, Mapping[str, int]]
) -> tuple[Rows, set[Key]]:
    """Return what groups leave, one after the other; and which rows may count as inserted since.

    Those are rows that were there, and that a group has deleted or inserted into and taken back.

    Args:
        groups: as they were submitted.
        begin: the rows before.
        written: the write times of events, which tell in which order events without a path
            between them have written.
    """
    rows = {key: dict(row) for key, row in begin.items()}
    marked: set[Key] = set()
    for group in groups:
        failed = failures(group, rows, marked, written.get(group["group"], {}))
        is_kept = not failed or group.get("policy") == "one-for-one"
        kept = [e for e in group["events"] if is_kept and e["name"] not in failed and writes(e)]
        after = {key: dict(row) for key, row in rows.items()}
        for event in sorted(kept, key=lambda e: written[group["group"]][e["name"]]):
            apply(after, event["statement"], event["values"])
        marked |= (rows.keys() | after.keys()) & {
            (event["values"]["p"], int(event["values"]["c"]))
            for event in group["events"]
            if event not in kept
            and event.get("statement", "").startswith(("DELETE FROM", "INSERT"))
        }
        rows = after
    return rows, marked


def writes(event: Mapping[str, Any]) -> bool:
    return str(event.get("statement", "")).startswith(("INSERT", "UPDATE", "DELETE"))


def failures(
    group: dict[str, Any], rows: Rows, marked: set[Key], done: Mapping[str, int]
) -> set[str]:
    """Return the events that fail or are skipped; those that copy a value get it.

    A row that counts as inserted may be there without columns: then its value is a null.
    """
    failed: set[str] = set()
    events = {event["name"]: event for event in group["events"]}
    for name, event in events.items():
        if failed & set(event.get("after", ())) or fails(event):
            failed.add(name)
        elif "needs" in event:
            source = events[event["needs"][0]["event"]]["values"]
            key = source["p"], int(source["c"])
            if key in rows:
                event["values"]["v"] = rows[key]["a"]
            elif key in marked and name in done:
                event["values"]["v"] = None
            else:
                # There is no row that has the value.
                failed.add(name)
    return failed


def apply(rows: Rows, statement: str, values: dict[str, Any]) -> None:
    """Apply one statement as Cassandra does: a row without columns that no insert made is gone."""
    key = values["p"], int(values["c"])
    made: dict[str, Any] = {"made": None, **dict.fromkeys(KINDS)}
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
    if key in rows and all(value is None for value in rows[key].values()):
        del rows[key]


def stored(journal: Journal, name: str) -> dict[Key, dict[str, str]]:
    """Return rows with what the driver shows of each value: all digits."""
    return {
        (row["p"], row["c"]): {column: repr(row[column]) for column in KINDS}
        for row in journal.rows(name)
    }


def as_stored(journal: Journal, rows: Rows) -> dict[Key, dict[str, str]]:
    """Return the rows of the model as Cassandra would store them."""
    name = table(journal.keyspace, "expected")
    journal.control.execute_ddl(f"CREATE TABLE {name} ({CELLS}, PRIMARY KEY (p, c))")
    for (p, c), row in rows.items():
        columns = [column for column in KINDS if row[column] is not None]
        marks = ", ".join(["?", "?", *("fromJson(?)" for _ in columns)])
        journal.control.execute(
            f"INSERT INTO {name} (p, c{''.join(f', {n}' for n in columns)}) VALUES ({marks})",
            [p, c, *(json.dumps(row[column]) for column in columns)],
        )
    return stored(journal, "expected")


def write_times(journal: Journal) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in journal.own_rows("group_event"):
        if row["state"] == "done" and row["write_time"] is not None:
            found.setdefault(row["group_id"], {})[row["event"]] = row["write_time"]
    return found


def end_all(journal: Journal, world: World) -> None:
    """Run until no group is open; rollbacks that failed are tried again by hand."""
    world.rollbacks_fail = 0
    for _ in range(20):
        journal.run("run_event_groups")
        if not retried(journal):
            break
    assert journal.run("run_event_groups").report["state"] == "nothing-to-do"


def retried(journal: Journal) -> list[str]:
    """Let the next run try rollbacks again that have failed; return of which groups."""
    states = {row["id"]: row["state"] for row in journal.own_rows("event_group")}
    stuck = [name for name, state in states.items() if state == "rollback-failed"]
    for name in stuck:
        assert journal.run("run_event_groups", "retry", name, "--apply").status == 0
    return stuck


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=[] if seed < SAMPLE else pytest.mark.soak)
        for seed in range(STREAMS)
    ],
)
def test_groups_whose_runs_die_leave_all_of_a_group_or_nothing(
    make_journal: Callable[..., Journal],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shift_clock: Callable[[float], None],
    seed: int,
) -> None:
    rng = random.Random(seed)
    journal = make_journal()
    name = f"{journal.keyspace}.cell"
    journal.control.execute_ddl(
        f"CREATE TABLE {table(journal.keyspace, 'cell')} ({CELLS}, PRIMARY KEY (p, c))"
    )
    begin: Rows = {}
    for p, c in ROWS[::2]:
        begin[p, c] = {"made": "yes", **dict.fromkeys(KINDS), "a": "old"}
        journal.insert("cell", [{"p": p, "c": c, "a": "old"}])
    writer, world = Writer(rng, name), World(random.Random(seed))
    groups: list[dict[str, Any]] = []
    died = False
    with monkeypatch.context() as patched:
        world.patch(patched)
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
            if turn == 3 and not died:
                # No run ends without it that has work.
                retried(journal)
                with dying_after(Seam.OPEN_FROM_MOVED, 1):
                    journal.run("run_event_groups")
            for _ in range(rng.randint(0, 3) if turn < 4 else 0):
                shift_clock(rng.uniform(-7, 7))
                world.rollbacks_fail = rng.choice([0, 0, 0.3])
                with dying_after(rng.choice(SEAMS), rng.randint(1, 12), surely=False) as death:
                    journal.run("run_event_groups")
                died |= death.has_come
        end_all(journal, world)
    shift_clock(0)
    world.deliver(journal.control)
    rows, marked = model(groups, begin, write_times(journal))
    expected = as_stored(journal, rows)
    found = stored(journal, "cell")
    for key in marked & found.keys() - expected.keys():
        if all(value == "None" for value in found[key].values()):
            del found[key]
    assert found == expected
