"""Requests to Cassandra that are lost, refused, repeated, or answered by a write timeout.

Each kind of write of an application meets a fault in a run of its own. Which kinds there are comes
from an undisturbed run, so none can be forgotten. A run ends well or with one line; and after the
last run, which meets nothing, the tables are those of a journal whose runs were never disturbed.
`make test` gives each kind of write one fault, by its place; `make soak` gives it all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from embedded.cassandra.server import Endpoint
from tests.faults.cql_proxy import CqlProxy, Fault, Kind, Write
from tests.faults.killing import expire_locks
from tests.integration.flights import WINDOW, FlightsJournal
from tests.integration.support import Journal, Result

FLIGHTS = 150
COMMANDS = {
    "tag_write": ("tag_write", *WINDOW, "--force"),
    "validate": ("validate", *WINDOW, "--force"),
    "project": ("project", *WINDOW, "--force"),
    "rebuild": ("reconcile", "rebuild", "--all", "--apply"),
}
BEFORE: dict[str, Sequence[str]] = {
    "tag_write": (),
    "validate": ("tag_write",),
    "project": ("tag_write", "validate"),
    "rebuild": ("tag_write",),
}


def run(journal: Journal, proxy: CqlProxy, *command: str) -> Result:
    host, port = proxy.address
    application, *arguments = command
    return journal.run(application, *arguments, CASSANDRA_HOSTS=f"{host}:{port}")


def kinds(writes: Sequence[Write]) -> list[Kind]:
    """Return what was written, each verb of a table once, in the order of the first writes."""
    return list(dict.fromkeys(one.kind for one in writes))


def faults_of(place: int, kind: Kind, *, all_of_them: bool) -> list[Fault]:
    """Return what a kind of write meets, by its place among them.

    A transaction that came once more would find another state; no network sends it again.
    """
    again = (Fault.TWICE, Fault.LATE) if kind.is_conditional else ()
    possible = [one for one in Fault if one not in again]
    return possible if all_of_them else [possible[place % len(possible)]]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_kind_of_write_meets_a_fault_and_the_next_run_is_as_if_none_had(
    make_journal: Callable[..., Journal],
    cassandra: Endpoint,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    name: str,
) -> None:
    loaded = {
        home: FlightsJournal.create(make_journal, tmp_path / home, FLIGHTS)
        for home in ("undisturbed", "disturbed")
    }
    for flights in loaded.values():
        flights.run_chain(*BEFORE[name])
    command, journal = COMMANDS[name], loaded["disturbed"].journal
    with CqlProxy((cassandra.host, cassandra.port)) as proxy:
        traced = run(loaded["undisturbed"].journal, proxy, *command)
        assert traced.status == 0, traced.stderr
        ended: list[int] = []
        every = pytestconfig.getoption("soak")
        cases = [
            (kind, fault)
            for place, kind in enumerate(kinds(proxy.writes))
            for fault in faults_of(place, kind, all_of_them=every)
        ]
        for kind, fault in cases:
            with proxy.meeting(fault, kind):
                result = run(journal, proxy, *command)
            ended.append(result.status)
            where = f"{kind}: {fault.value}: {result.stderr}"
            assert result.status in (0, 1), where
            assert len(result.error_lines) == (result.status != 0), where
            assert "Traceback" not in result.stderr, where
            expire_locks(journal)
        for flights in loaded.values():
            last = flights.journal.run(*command)
            assert last.status == 0, last.stderr
        assert loaded["disturbed"].everything() == loaded["undisturbed"].everything()
        assert proxy.send_late()
    assert loaded["disturbed"].everything() == loaded["undisturbed"].everything()
    assert {0, 1} <= set(ended)
