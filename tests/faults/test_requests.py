"""Requests to Cassandra that are lost, refused, repeated, or answered by a write timeout.

Each kind of write of an application meets a fault in a run of its own. Which kinds there are comes
from an undisturbed run over the same events, so none can be forgotten, but for those that only the
first run over a journal has: one of these meets a fault. A run ends well or with one
line; and after the last run, which meets nothing, the tables are those of a journal whose runs were
never disturbed. `make test` gives each kind of write one fault, `make soak` all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import pytest

from embedded.cassandra.server import Endpoint
from tests.faults.cql_proxy import CqlProxy, Fault, Kind
from tests.faults.killing import expire_locks
from tests.integration.flights import WINDOW, FlightsJournal, defined, first_events, message
from tests.integration.support import Journal, Result

FLIGHTS, OF_SOAK = 400, 2400
MORE = 30
"""Events before each further run."""
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


def faults_of(kind: Kind, number: int, *, all_of_them: bool) -> list[Fault]:
    """Return what the kind of write with a number meets.

    A transaction that came once more would find another state; no network sends it again.
    """
    again = (Fault.TWICE, Fault.LATE) if kind.is_conditional else ()
    possible = [one for one in Fault if one not in again]
    return possible if all_of_them else [possible[number % len(possible)]]


class Grown:
    """A journal that gets more events before each run of a command."""

    def __init__(self, journal: Journal, flights: int, proxy: CqlProxy) -> None:
        self.flights = FlightsJournal(journal, first_events(flights))
        self.proxy = proxy
        self._events = iter(self.flights.events)

    def grow(self, before: Sequence[str]) -> None:
        """Write the next events, and let what is upstream work on them."""
        more = [message(event) for event in islice(self._events, MORE)]
        assert more, "there are no more events"
        self.flights.journal.insert("messages", more)
        for application in before:
            assert self.flights.journal.run(application, *WINDOW, "--force").status == 0

    def run(self, *command: str) -> Result:
        """Run a command through the proxy."""
        host, port = self.proxy.address
        application, *arguments = command
        hosts = {"CASSANDRA_HOSTS": f"{host}:{port}"}
        return self.flights.journal.run(application, *arguments, **hosts)

    def kinds(self, *command: str) -> list[Kind]:
        """Run a command, and return what it writes, in the order of the first writes."""
        self.proxy.writes.clear()
        result = self.run(*command)
        assert result.status == 0, result.stderr
        return list(dict.fromkeys(self.proxy.writes))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "tag_write" else pytest.mark.long)
        for name in COMMANDS
    ],
)
def test_every_kind_of_write_meets_a_fault_and_the_next_run_is_as_if_none_had(
    make_journal: Callable[..., Journal],
    cassandra: Endpoint,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    name: str,
) -> None:
    command, every = COMMANDS[name], pytestconfig.getoption("soak")
    flights = OF_SOAK if every else FLIGHTS
    with CqlProxy((cassandra.host, cassandra.port)) as proxy:
        undisturbed, disturbed = (
            Grown(defined(make_journal, tmp_path / home, "projections"), flights, proxy)
            for home in ("undisturbed", "disturbed")
        )
        first: set[Kind] = set()
        found: list[Kind] = []
        met: dict[tuple[Kind, Fault], int] = {}
        while True:
            for one in (undisturbed, disturbed):
                one.grow(BEFORE[name])
            written = undisturbed.kinds(*command)
            first = first or set(written)
            found += [kind for kind in written if kind not in found]
            left = [
                (kind, fault)
                for kind in written
                for fault in faults_of(kind, found.index(kind), all_of_them=every)
                if (kind, fault) not in met
            ]
            if not left:
                break
            kind, fault = left[0]
            with proxy.meeting(fault, kind):
                result = disturbed.run(*command)
            met[kind, fault] = result.status
            where = f"{kind}: {fault.value}: {result.stderr}"
            assert result.status in (0, 1), where
            assert len(result.error_lines) == (result.status != 0), where
            assert "Traceback" not in result.stderr, where
            expire_locks(disturbed.flights.journal)
        # A journal's first run has writes of its own, of which one has met something.
        once = {kind for kind in found if kind not in {one for one, _ in met}}
        assert once <= first, once - first
        last = disturbed.run(*command)
        assert last.status == 0, last.stderr
        expected = undisturbed.flights.everything()
        assert disturbed.flights.everything() == expected
        proxy.send_late()
        assert disturbed.flights.everything() == expected
    assert {0, 1} <= set(met.values())
