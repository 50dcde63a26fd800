"""Transfers between accounts as event groups, whose runs are killed at random moments.

Each transfer finds the balances that a sequential model says, writes the new ones absolutely, and
books an entry for each of its two accounts. So a transfer of which a part was lost or stayed is
never covered up: a later one of the same account does not find its balance, and entries are only
added. Some transfers fail once they have written some or all of it, and leave nothing.

`--kills` sets the number of kills (`make soak`: 100); the default is a sample.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.killing import expire_locks, kill_behind
from tests.integration.support import ROOT, Journal
from tidemark.cassandra.schema import table

APPLICATION = "run_event_groups"
TABLES = {
    "account": "id text PRIMARY KEY, balance bigint",
    "entry": "account text, transfer text, amount bigint, PRIMARY KEY (account, transfer)",
}
ACCOUNTS = [f"a{number}" for number in range(16)]
EACH = 1000
SAMPLE = 3
TRANSFERS = 16
"""New ones before each run that is killed: more than it executes until then, on most machines."""
LONGEST_S = 0.8
"""From the first transfer of a run to its kill."""
FAILURES = ("", "", "", "between", "refused", "behind")
"""Where a transfer fails: between its two updates, by a value of the second one, behind all."""


@dataclass
class Bank:
    """What the transfers leave if each is executed as a whole, or not at all, in their order."""

    rng: random.Random
    keyspace: str
    balances: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ACCOUNTS, EACH))
    entries: dict[str, dict[str, int]] = field(default_factory=dict)
    """Amounts by transfer and account."""
    states: dict[str, str] = field(default_factory=dict)

    def transfer(self) -> dict[str, Any]:
        """Return the next transfer as a group, and take it into account."""
        rng, name = self.rng, f"t{len(self.states) + 1}"
        giver, taker = rng.sample(ACCOUNTS, 2)
        amounts = {giver: -rng.randint(1, 50)}
        amounts[taker] = -amounts[giver]
        fails = rng.choice(FAILURES)
        group = {"group": name, "events": self._events(name, amounts, fails)}
        if rng.random() < 0.8:
            group["rows"] = [
                {"table": f"{self.keyspace}.{row}", "key": {column: account}}
                for account in amounts
                for row, column in (("account", "id"), ("entry", "account"))
            ]
        self.states[name] = "rolled-back" if fails else "done"
        if not fails:
            self.entries[name] = amounts
            for account, amount in amounts.items():
                self.balances[account] += amount
        return group

    def _events(self, name: str, amounts: dict[str, int], fails: str) -> list[dict[str, Any]]:
        accounts, entries = (f"{self.keyspace}.{row}" for row in TABLES)
        events: list[dict[str, Any]] = []
        found: list[str] = []
        for account in amounts:
            found.append(f"find-{account}")
            events.append(
                {
                    "name": found[-1],
                    "statement": f"SELECT id FROM {accounts} WHERE id = :id AND balance = :balance"
                    " ALLOW FILTERING",
                    "values": {"id": account, "balance": str(self.balances[account])},
                    "expect": "one",
                }
            )
        for account, amount in amounts.items():
            is_second = amount > 0
            balance = str(self.balances[account] + amount)
            events += [
                {
                    "name": f"update-{account}",
                    "statement": f"UPDATE {accounts} SET balance = :balance WHERE id = :id",
                    "values": {
                        "id": account,
                        "balance": "much" if is_second and fails == "refused" else balance,
                    },
                    "after": found,
                },
                {
                    "name": f"book-{account}",
                    "statement": f"INSERT INTO {entries} (account, transfer, amount)"
                    " VALUES (:account, :transfer, :amount)",
                    "values": {"account": account, "transfer": name, "amount": str(amount)},
                    "after": found,
                },
            ]
        giver, taker = amounts
        if fails in ("between", "behind"):
            before = [f"update-{giver}", f"book-{giver}"]
            before += [f"update-{taker}", f"book-{taker}"] if fails == "behind" else []
            events.append(
                {
                    "name": "check",
                    "statement": f"SELECT id FROM {accounts} WHERE id = :id",
                    "values": {"id": giver},
                    "expect": "none",
                    "after": before,
                }
            )
        return events


def submit(journal: Journal, folder: Path, bank: Bank) -> None:
    files = []
    for group in [bank.transfer() for _ in range(TRANSFERS)]:
        file = folder / f"{group['group']}.yaml"
        file.write_text(json.dumps(group))
        files.append(str(file))
    result = journal.run(APPLICATION, "submit", *files)
    assert result.status == 0, result.stderr


def kill_during_transfers(journal: Journal, after_s: float) -> bool:
    """Start a run, and kill it `after_s` seconds after the start of its first transfer.

    Returns:
        whether it had not ended by then.
    """
    process = journal.start(ROOT / "spark_apps" / f"{APPLICATION}.py")
    is_hit = kill_behind(process, " groups from ", after_s)
    expire_locks(journal)
    return is_hit


def states(journal: Journal) -> dict[str, str]:
    return {row["id"]: row["state"] for row in journal.own_rows("event_group")}


def entries(journal: Journal) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in journal.rows("entry"):
        found.setdefault(row["transfer"], {})[row["account"]] = row["amount"]
    return found


def test_no_transfer_is_executed_in_part(
    make_journal: Callable[..., Journal],
    tmp_path: Path,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
) -> None:
    journal = make_journal()
    for name, columns in TABLES.items():
        journal.control.execute_ddl(f"CREATE TABLE {table(journal.keyspace, name)} ({columns})")
    bank = Bank(random.Random(1494), journal.keyspace)
    journal.insert("account", [{"id": one, "balance": EACH} for one in ACCOUNTS])
    moments = random.Random(20131231)
    hits: Counter[str] = Counter()
    kills = max(SAMPLE, pytestconfig.getoption("kills"))
    for _ in range(kills):
        submit(journal, tmp_path, bank)
        is_hit = kill_during_transfers(journal, after_s=moments.uniform(0.0, LONGEST_S))
        found, booked = states(journal), entries(journal)
        hits.update({*found.values(), "kill"} if is_hit else ())
        # What has ended is whole, also before somebody goes on with the others.
        ended = {name for name, state in found.items() if state in ("done", "rolled-back")}
        assert {name: found[name] for name in ended} == {name: bank.states[name] for name in ended}
        assert {name: booked[name] for name in ended & booked.keys()} == {
            name: bank.entries[name] for name in ended & bank.entries.keys()
        }
    assert hits["kill"] > kills / 2
    assert journal.run(APPLICATION).status in (0, 3)
    assert journal.run(APPLICATION).report["state"] == "nothing-to-do"
    record_property("kills that found transfers in a state", dict(hits))
    record_property("transfers", dict(Counter(bank.states.values())))
    balances = {row["id"]: row["balance"] for row in journal.rows("account")}
    assert sum(balances.values()) == EACH * len(ACCOUNTS)
    assert states(journal) == bank.states
    assert balances == bank.balances
    assert entries(journal) == bank.entries
